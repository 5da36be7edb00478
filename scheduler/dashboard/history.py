"""The history of edits on a job's page, and taking one of them back."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from django.contrib import messages
from django.http import HttpRequest
from django.utils.translation import gettext as _

from croniq_site.kernel.errors import NotFound
from croniq_site.kernel.text import is_printable_name
from runners.domain.differences import history_of
from runners.domain.scopes import Principal
from runners.queries.audit import history
from scheduler.dashboard.audit import Line, line_of
from scheduler.dashboard.pages import action, actor_of, address, or_message
from scheduler.models import Job
from scheduler.queries.jobs import job_of_key
from scheduler.services.revert import is_revertible, revert

MOST_EDITS = 10
_SCOPES = frozenset({"jobs:write", "schedules:write"})


@dataclass(frozen=True)
class Edit:
    line: Line
    is_revertible: bool


def edits_of(job: Job) -> list[Edit]:
    """The newest edits of the job and its schedules; one query."""
    return [Edit(line_of(event), is_revertible(event)) for event in history(history_of("job", job.pk), MOST_EDITS)]


@action
def revert_edit(request: HttpRequest, now: datetime, job_key: str) -> str:
    job = job_of_key(job_key) if is_printable_name(job_key) else None
    if job is None:
        raise NotFound(f"There is no job {job_key[:255]!r}.")
    try:
        event_id = UUID(request.POST.get("event_id", ""))
    except ValueError:
        raise NotFound("There is no such edit.") from None
    # Whoever may act may say again when and how it runs, but what is executed only who may say that anyway.
    scopes = _SCOPES | {"jobs:exec"} if request.user.is_superuser else _SCOPES
    who = Principal(0, request.user.get_username(), None, frozenset(scopes))
    of = history_of("job", job.pk)
    if or_message(request, lambda: revert(event_id, of, now, actor_of(request), who)) is not None:
        messages.success(request, _("Taken back. The job and its planned runs are as before that edit."))
    return address("job", job_key=job_key)
