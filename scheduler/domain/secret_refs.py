"""Texts that may be the name of a secret. The server keeps the name; only the runner knows the value."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from croniq_site.kernel.errors import InvalidInput
from croniq_site.kernel.secret_names import RULE, is_secret_name
from scheduler.domain.inputs import text_of

PREFIX_MOST = 4096
_KEYS = {"secret", "prefix"}


def is_reference(value: Any) -> bool:
    """Whether it is meant as ``{"secret": NAME}``, with or without a ``prefix``, well-formed or not."""
    return isinstance(value, Mapping) and "secret" in value and value.keys() <= _KEYS


def text_or_secret(field: str, value: Any, *, most: int) -> str | dict[str, str]:
    """A text as `text_of` takes it, or a reference: ``{"secret": "TOKEN"}``, with ``"prefix": "Bearer "`` what stands
    before the value."""
    if not isinstance(value, Mapping):
        return text_of(field, value, most=most)
    if not is_reference(value):
        raise InvalidInput.of(field, f'{field} is a text or {{"secret": "NAME"}}, with a prefix if it has one.')
    if not is_secret_name(value["secret"]):
        raise InvalidInput.of(field, RULE)
    reference = {"secret": value["secret"]}
    if value.get("prefix") not in (None, ""):
        reference["prefix"] = text_of(field, value["prefix"], most=PREFIX_MOST)
    return reference


def check_references(field: str, value: Any) -> None:
    """Refuse a reference that is none anywhere in a JSON value, whose depth has been checked."""
    if is_reference(value):
        text_or_secret(field, value, most=PREFIX_MOST)
    elif isinstance(value, Mapping):
        for child in value.values():
            check_references(field, child)
    elif isinstance(value, list):
        for child in value:
            check_references(field, child)
