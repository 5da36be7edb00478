"""What a jobs file declares (docs/jobs-as-code.md) is changed there, and nowhere else."""

from __future__ import annotations

from croniq_site.kernel.errors import Conflict
from runners.models import AuditEvent

FILE = "file"
"""``managed_by`` of what a jobs file declares; also what a writer says that writes on its behalf."""

APPLIED = "jobs_file.applied"

_UNADOPT = {"job": "{}", "calendar": "--calendar {}", "group": "--group {}"}


def refuse_file_managed(kind: str, name: str, managed_by: str, tenant: str, *, by: str) -> None:
    """Refuse (`Conflict` ``file_managed``) a write to a job, calendar or group of a jobs file by whoever does not write
    for that file. ``managed_by``: the row's. The sentence names the file that was applied last, and the commands."""
    if managed_by != FILE or by == FILE:
        return
    applied = AuditEvent.objects.filter(action=APPLIED, tenant=tenant).order_by("-pk").first()
    file = applied.target_id if applied is not None else "croniq.yaml"
    raise Conflict(
        f"The {kind} {name!r} is declared in the jobs file {file}: change it there and run 'manage.py jobs apply', or "
        f"take it from the file with 'manage.py jobs unadopt {_UNADOPT[kind].format(name)}'.",
        code="file_managed",
    )
