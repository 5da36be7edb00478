"""What the tests of the imports have in common."""

from __future__ import annotations

import io

from django.core.management import call_command

from runners.models import AuditEvent
from scheduler.models import Job, QueueEntry, Run, Trigger


def run(command: str, *arguments: str) -> str:
    """Call the command and return what it said."""
    out = io.StringIO()
    call_command(command, *arguments, stdout=out)
    return out.getvalue()


def snapshot() -> list:
    """Every row that an import may write."""
    rows = [list(model.objects.order_by("pk").values()) for model in (Job, Trigger, Run, QueueEntry)]
    return [*rows, AuditEvent.objects.count()]
