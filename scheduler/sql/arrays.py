"""JSON arrays in a WHERE clause."""

from __future__ import annotations

import json
from typing import Any

from django.db.models import BooleanField, F, Func, Value


class ArrayHolds(Func):
    """True where the JSON array in ``column`` has the text ``item`` among its elements."""

    output_field = BooleanField()
    conditional = True

    def __init__(self, column: str, item: str, **extra: Any) -> None:
        super().__init__(F(column), Value(item), **extra)

    def as_postgresql(self, compiler: Any, connection: Any, **context: Any) -> tuple[str, Any]:
        column, item = self.get_source_expressions()
        sql, params = compiler.compile(column)
        return f"({sql} @> %s::jsonb)", [*params, json.dumps([item.value])]

    def as_sqlite(self, compiler: Any, connection: Any, **context: Any) -> tuple[str, Any]:
        column, item = self.get_source_expressions()
        sql, params = compiler.compile(column)
        return f"EXISTS (SELECT 1 FROM json_each({sql}) WHERE value = %s)", [*params, item.value]  # noqa: S608 - sql is a column
