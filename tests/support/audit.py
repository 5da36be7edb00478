"""The audit is append-only also for tests; here is how they begin with none."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from importlib import import_module
from typing import Any

from runners.models import AuditCut, AuditEvent

_GUARD = import_module("runners.migrations.0004_append_only_audit")
_UNGUARDED = {
    "postgresql": (
        ["ALTER TABLE runners_auditevent DISABLE TRIGGER USER"],
        ["ALTER TABLE runners_auditevent ENABLE TRIGGER USER"],
    ),
    "sqlite": (["DROP TRIGGER audit_is_not_deleted"], [_GUARD.SQLITE_DELETE]),
}


def flush_unguarded(operations: Any, flush: Callable[..., None], statements: Sequence[str]) -> None:
    """Empty all tables, the audit too, and guard it again, in one transaction."""
    before, after = _UNGUARDED[operations.connection.vendor]
    flush(operations, [*before, *statements, *after] if statements else statements)


def forget_audit() -> None:
    """Delete all events, as a retention of no time at all would."""
    AuditCut.objects.update_or_create(pk=1, defaults={"until": datetime(9999, 1, 1, tzinfo=UTC)})
    AuditEvent.objects.all().delete()
    AuditCut.objects.all().delete()
