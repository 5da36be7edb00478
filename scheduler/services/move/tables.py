"""All tables of the models, and their values as each of the two databases keeps them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from hashlib import blake2b
from typing import Any

from django.apps import apps
from django.db import models

FILLED_BY_MIGRATE = frozenset({"django_content_type", "auth_permission", "auth_group", "auth_group_permissions"})
"""Tables that are not empty on a migrated target. Their rows may have other ids there: the source's replace them."""

_MICROSECOND = timedelta(microseconds=1)
_DAY_MICROSECONDS = 86_400_000_000


@dataclass(frozen=True)
class Column:
    """``kind`` is the internal type of the Django field; of a foreign key, that of the key it refers to."""

    name: str
    kind: str


@dataclass(frozen=True)
class Table:
    """A table with its columns, the primary key first. ``is_numbered``: the database gives the key out."""

    name: str
    columns: tuple[Column, ...]
    is_numbered: bool

    @property
    def key(self) -> Column:
        return self.columns[0]

    @property
    def key_order(self) -> str:
        """The key as PostgreSQL must sort it to have SQLite's order: text by its bytes."""
        return f'"{self.key.name}" COLLATE "C"' if self.key.kind in ("CharField", "TextField") else f'"{self.key.name}"'

    @property
    def names(self) -> str:
        return ", ".join(f'"{column.name}"' for column in self.columns)


def all_tables() -> list[Table]:
    """Return every table of every installed model, those of many-to-many relations too, in the order of names."""
    found = {}
    for model in apps.get_models(include_auto_created=True, include_swapped=True):
        if model._meta.managed and not model._meta.proxy:
            found[model._meta.db_table] = _table(model)
    return [found[name] for name in sorted(found)]


def _table(model: type[models.Model]) -> Table:
    fields = sorted(model._meta.concrete_fields, key=lambda field: not field.primary_key)
    return Table(
        model._meta.db_table,
        tuple(Column(field.column, _kind(field)) for field in fields),
        isinstance(fields[0], models.AutoField),
    )


def _kind(field: Any) -> str:
    while field.is_relation:
        field = field.target_field
    return field.get_internal_type()


def as_postgresql_reads(kind: str, value: Any) -> Any:
    """A value as SQLite keeps it, as COPY takes it. Instants, uuids, JSON and truth need no change (zone: UTC)."""
    if kind == "DurationField" and value is not None:
        days, microseconds = divmod(value, _DAY_MICROSECONDS)
        return f"{days} days {microseconds} microseconds"
    return value


def digest(columns: Iterable[Column], rows: Iterable[tuple], plain: Callable[[str, Any], Any]) -> tuple[int, str]:
    """Return how many rows there are and a hash of all their values, ``plain`` ones."""
    kinds = [column.kind for column in columns]
    count, total = 0, blake2b(digest_size=16)
    for row in rows:
        count += 1
        values = [None if value is None else plain(kind, value) for kind, value in zip(kinds, row, strict=True)]
        total.update(repr(values).encode())
    return count, total.hexdigest()


def plain_of_sqlite(kind: str, value: Any) -> Any:
    """A value of SQLite's in the form in which the two are compared."""
    if kind == "DateTimeField":
        return datetime.fromisoformat(value).isoformat(" ", "microseconds")
    if kind == "JSONField":
        return _plain_json(value)
    return float(value) if kind == "FloatField" else value


def plain_of_postgresql(kind: str, value: Any) -> Any:
    """A value of PostgreSQL's, JSON as text, in the form in which the two are compared."""
    match kind:
        case "DateTimeField":
            return value.astimezone(UTC).replace(tzinfo=None).isoformat(" ", "microseconds")
        case "JSONField":
            return _plain_json(value)
        case "UUIDField":
            return value.hex
        case "DurationField":
            return value // _MICROSECOND
        case "BooleanField":
            return int(value)
        case "DateField" | "TimeField":
            return value.isoformat()
    return value


def _plain_json(text: str) -> str:
    # PostgreSQL keeps numbers as decimals and writes 1e2 as 100.
    return json.dumps(json.loads(text, parse_int=float), sort_keys=True)
