"""What the forms that pause a job, or many, say of it."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from django.http import HttpRequest
from django.utils.translation import gettext as _

from croniq_site.kernel.errors import InvalidInput
from scheduler.dashboard.times import full_text
from scheduler.dashboard.typed_times import time_in, zone_of
from scheduler.domain.inputs import text_of
from scheduler.services.pause import KEPT


def pause_in(request: HttpRequest, now: datetime) -> dict[str, Any]:
    """``reason`` and ``until`` for `pause_job`; what a form does not ask for stays as it is. Raises InvalidInput with
    all that is wrong, by field."""
    form, said, wrong = request.POST, {"reason": KEPT, "until": KEPT}, {}
    if "reason" in form:
        try:
            said["reason"] = text_of("reason", form["reason"].strip(), most=255)
        except InvalidInput as refused:
            wrong |= refused.fields
    if "until" in form:
        try:
            said["until"] = _end_in(request, now)
        except InvalidInput as refused:
            wrong |= refused.fields
    if wrong:
        raise InvalidInput(" ".join(texts[0] for texts in wrong.values()), fields=wrong)
    return said


def _end_in(request: HttpRequest, now: datetime) -> datetime | None:
    until = time_in(request, request.POST, "until")
    if until is not None and until <= now:
        zone = zone_of(request, request.POST)
        words = _("This is past. Write a time after {now}, or nothing: then the pause lasts until somebody resumes.")
        raise InvalidInput.of("until", words.format(now=full_text(now, zone)))
    return until
