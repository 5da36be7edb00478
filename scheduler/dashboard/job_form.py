"""Make and edit a job with its schedules, with a preview of what they will do."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from django.conf import settings
from django.contrib import messages
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import render
from django.utils.translation import gettext

from calendars.queries.lists import calendar_list
from croniq_site.kernel.errors import CroniqError, InvalidInput, NotFound
from croniq_site.kernel.text import is_printable_name
from runners.domain.scopes import Principal
from scheduler.dashboard import job_fields
from scheduler.dashboard.job_fields import Errors, TriggerForm
from scheduler.dashboard.pages import actor_of, address, form, page
from scheduler.dashboard.refusals import errors_of, in_words
from scheduler.domain.actions import action_text
from scheduler.models import Job, Trigger
from scheduler.queries.definitions import job_definition, trigger_definition, usual_job
from scheduler.queries.jobs import job_of_key
from scheduler.services.jobs import DEFAULT_TENANT
from scheduler.services.whole_job import TriggerEdit, preview_trigger, save_whole_job, version_of

MOST_CALENDARS = 500
EXEC = "scheduler.exec_job"
PREVIEW_KEY = "new:job"
"""In place of a key that is not written yet: `H` in a cron expression is spread by the key."""


@dataclass
class JobForm:
    """All that the form shows. ``refusal``: what is wrong with the whole of it."""

    job_key: str
    texts: dict[str, str]
    does: str
    what: str
    is_active: bool
    triggers: list[TriggerForm]
    seen: str
    errors: Errors
    refusal: str = ""


@form
def new_job(request: HttpRequest, now: datetime) -> HttpResponse:
    if request.method != "POST":
        return _shown(
            request, None, JobForm("", job_fields.texts_of(usual_job()), "handler", "", True, [], "", {}), now
        )
    return _saved(request, None, now)


@form
def edit_job(request: HttpRequest, now: datetime, job_key: str) -> HttpResponse:
    job = job_of_key(job_key) if is_printable_name(job_key) else None
    if job is None:
        raise NotFound(f"There is no job {job_key[:255]!r}.")
    if request.method == "POST":
        return _saved(request, job, now)
    definition = job_definition(job)
    does, what = job_fields.action_texts(job.action)
    triggers = [
        job_fields.form_of_definition(number, trigger.pk, trigger_definition(trigger))
        for number, trigger in enumerate(_triggers(job).values())
    ]
    texts = job_fields.texts_of(definition)
    shown = JobForm(job_key, texts, does, what, job.is_active, triggers, version_of(job), {})
    return _shown(request, job, shown, now)


@page
def preview(request: HttpRequest, now: datetime) -> HttpResponse:
    """The part of the form that says what one schedule will do; asked for while somebody writes it."""
    number = request.GET.get("number", "0")
    if not (number.isascii() and number.isdigit() and len(number) < 4):
        raise InvalidInput.of("number", "This is the number of a schedule.")
    one = job_fields.trigger_form(request.GET, int(number))
    trigger = Trigger.objects.select_related("job").filter(pk=one.trigger_id).first() if one.id else None
    job_key = _preview_key(request.GET.get("key") or request.GET.get("job_key", ""))
    job = job_of_key(job_key) if job_key != PREVIEW_KEY else None
    _look_ahead(one, trigger, job_key, job.tenant if job is not None else DEFAULT_TENANT, now)
    return render(request, "dashboard/_preview.html", {"one": one})


def _triggers(job: Job) -> dict[UUID, Trigger]:
    rows = job.triggers.select_related("calendar").prefetch_related("calendar__rules").order_by("created_at", "pk")
    rows = rows[: job_fields.MOST_TRIGGERS]
    return {trigger.pk: trigger for trigger in rows}


def _preview_key(text: str) -> str:
    return text if not job_fields.key_error(text) else PREVIEW_KEY


def _look_ahead(one: TriggerForm, trigger: Trigger | None, job_key: str, tenant: str, now: datetime) -> None:
    if one.is_blank or one.is_removed:
        return
    try:
        fields, unread = one.wire(), {}
    except InvalidInput as refused:
        # What else is wrong is said with it.
        fields, unread = one.wire_besides(), _by_form_field(refused)
    try:
        one.preview = preview_trigger(fields, now, job_key=job_key, tenant=tenant, trigger=trigger)
    except InvalidInput as refused:
        one.errors = _by_form_field(refused)
    if unread:
        # That it says no time was not said by whoever wrote one.
        besides = {name: text for name, text in one.errors.items() if name != "schedule"}
        one.preview, one.errors = None, besides | unread


def _by_form_field(refused: InvalidInput) -> Errors:
    """What was refused of a schedule, by the field of the form that it is about."""
    known = {"timezone", "calendar", "on_blocked", "window"}
    told = errors_of(refused, job_fields.TRIGGER_LABELS, whole="schedule")
    return {name if name in known else "schedule": text for name, text in told.items()}


def _shown(request: HttpRequest, job: Job | None, shown: JobForm, now: datetime, status: int = 200) -> HttpResponse:
    tenant = job.tenant if job is not None else DEFAULT_TENANT
    rows = _triggers(job) if job is not None else {}
    for one in shown.triggers:
        if not one.errors and one.preview is None:
            trigger = rows.get(one.trigger_id) if one.trigger_id else None
            _look_ahead(one, trigger, _preview_key(shown.job_key), tenant, now)
    # Room for one more; not beside a new one that was refused.
    has_room = not any(one.is_blank if status == 200 else not one.id for one in shown.triggers)
    if has_room and len(shown.triggers) < job_fields.MOST_TRIGGERS:
        shown.triggers.append(TriggerForm(len(shown.triggers)))
    context = {
        "job": job,
        "form": shown,
        "is_wrong": bool(shown.errors) or any(one.errors for one in shown.triggers),
        "fields": [(one, shown.texts[one.name], shown.errors.get(one.name, "")) for one in job_fields.FIELDS],
        "calendars": [calendar.name for calendar in calendar_list(tenant=tenant, limit=MOST_CALENDARS)],
        "policies": job_fields.ON_BLOCKED.items(),
        "default_zone": settings.CRONIQ_TIME_ZONE,
        "may_exec": request.user.has_perm(EXEC),
        "runs": action_text(job.action) if job is not None else "",
        "is_of_file": job is not None and job.managed_by == "file",
    }
    return render(request, "dashboard/job_form.html", context, status=status)


def _saved(request: HttpRequest, job: Job | None, now: datetime) -> HttpResponse:
    values = request.POST
    shown = JobForm(
        job_key=job.job_key if job is not None else values.get("job_key", "").strip(),
        texts=job_fields.job_texts(values),
        does=values.get("does", "handler"),
        what=values.get("what", ""),
        is_active="is_active" in values,
        triggers=job_fields.trigger_forms(values),
        seen=values.get("seen", ""),
        errors={},
    )
    fields, shown.errors = job_fields.read_job(shown.texts)
    shown.errors |= job_fields.key_error(shown.job_key)
    may_exec = request.user.has_perm(EXEC)
    if may_exec and "does" in values:
        try:
            fields["action"] = job_fields.read_action(shown.does, shown.what)
        except InvalidInput as refused:
            shown.errors |= {"action": " ".join(errors_of(refused, job_fields.LABELS).values())}
    elif job is not None:
        shown.does, shown.what = job_fields.action_texts(job.action)
    rows = _triggers(job) if job is not None else {}
    tenant = job.tenant if job is not None else DEFAULT_TENANT
    for one in shown.triggers:
        _look_ahead(one, rows.get(one.trigger_id) if one.trigger_id else None, _preview_key(shown.job_key), tenant, now)
    is_wrong = bool(shown.errors) or any(one.errors for one in shown.triggers)
    if "preview" in values:
        return _shown(request, job, shown, now)
    if is_wrong:
        return _shown(request, job, shown, now, status=400)
    fields |= {"job_key": shown.job_key, "is_active": shown.is_active}
    return _sent(request, job, shown, fields, now)


def _sent(request: HttpRequest, job: Job | None, shown: JobForm, fields: dict[str, Any], now: datetime) -> HttpResponse:
    told = [one for one in shown.triggers if not one.is_blank]
    edits = [TriggerEdit(one.trigger_id, None if one.is_removed else one.wire()) for one in told]
    try:
        save_whole_job(
            fields,
            edits,
            now,
            actor_of(request),
            _principal(request),
            seen=shown.seen if job is not None else None,
        )
    except CroniqError as refused:
        if refused.status not in (400, 409):
            raise
        for name, texts in refused.fields.items():
            start, _, rest = name.partition(".")
            number, _, field = rest.partition(".")
            if start == "triggers" and number.isdigit():
                told[int(number)].errors |= _by_form_field(InvalidInput.of(field, texts[0]))
            else:
                shown.errors[start] = in_words(texts[0], start, job_fields.LABELS)
        shown.refusal = refused.message if refused.status == 409 else ""
        return _shown(request, job, shown, now, status=refused.status)
    if job is not None:
        messages.success(request, gettext("Saved."))
    elif any(edit.fields is not None for edit in edits):
        messages.success(request, gettext("Made."))
    else:
        words = gettext("Made. It has no schedule: it runs only when somebody asks, by “Run now” or over the API.")
        messages.success(request, words)
    for one in told:
        if one.note and not one.is_removed:
            messages.info(request, one.note)
    return HttpResponseRedirect(address("job", job_key=shown.job_key))


def _principal(request: HttpRequest) -> Principal:
    scopes = {"jobs:write", "schedules:write"} | ({"jobs:exec"} if request.user.has_perm(EXEC) else set())
    return Principal(0, request.user.get_username(), None, frozenset(scopes))
