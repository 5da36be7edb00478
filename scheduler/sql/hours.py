"""The hour in which an instant lies, as the database can group by it."""

from __future__ import annotations

from typing import Any

from django.db.models import DateTimeField, Func


class HourOf(Func):
    """The beginning of the UTC hour of an instant. On SQLite, where Django's own calls Python for every row, the first
    characters of the text that the instant is kept as."""

    output_field = DateTimeField()
    arity = 1

    def as_postgresql(self, compiler: Any, connection: Any, **context: Any) -> tuple[str, Any]:
        return self.as_sql(compiler, connection, template="date_trunc('hour', %(expressions)s, 'UTC')", **context)

    def as_sqlite(self, compiler: Any, connection: Any, **context: Any) -> tuple[str, Any]:
        return self.as_sql(compiler, connection, template="substr(%(expressions)s, 1, 13)", **context)
