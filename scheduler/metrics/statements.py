"""The database series of django-prometheus, by a hook instead of its database backends.

Those make a class of cursors for each cursor, which takes longer than many a statement of ours; the hook is given to
the connections of the threads that answer pages and the API. The connections that claim have none.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from django.db.backends.base.base import BaseDatabaseWrapper
from django_prometheus.db import errors_total, execute_many_total, execute_total, query_duration_seconds


def observe(connection: BaseDatabaseWrapper) -> None:
    """Count and time the statements of this connection from now on."""
    labels = connection.alias, connection.vendor
    executed, executed_many = execute_total.labels(*labels), execute_many_total.labels(*labels)
    seconds = query_duration_seconds.labels(*labels)

    def timed(execute: Callable, sql: str, params: Any, many: bool, context: dict[str, Any]) -> Any:
        began = time.perf_counter()
        try:
            return execute(sql, params, many, context)
        except Exception as error:
            errors_total.labels(*labels, type(error).__name__).inc()
            raise
        finally:
            seconds.observe(time.perf_counter() - began)
            executed.inc()
            if many:
                executed_many.inc()

    connection.execute_wrappers.append(timed)
