"""Every call of the API, read from the URL conf, and one that is taken for each: a call that is in no table is found by
the tests that go through all of them (audit, tenants, scopes)."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from django.urls import URLPattern, URLResolver, get_resolver

from runners.api.views import ApiView
from runners.models import AuditEvent
from runners.services.audit import Actor
from runners.services.clients import create_client, make_key
from runners.services.people import create_person
from scheduler.models import Run
from scheduler.services.alerts.definitions import create_channel, save_rule
from scheduler.services.alerts.exemptions import make_exemption
from scheduler.services.calendars import edit_calendar
from scheduler.services.groups import save_group
from scheduler.services.jobs import deactivate, save_job
from scheduler.services.maintenance import begin_maintenance
from scheduler.services.pause import pause_job
from scheduler.services.triggers import save_trigger
from tests.factories import (
    AlertFactory,
    DeadLetterFactory,
    QueueEntryFactory,
    RunFactory,
    RunLogFactory,
    RunnerFactory,
)

ACTOR = Actor("user", "founder")
ABSENT = "018f4e9c-8a1b-7c3d-9e2f-0123456789ab"


@dataclass(frozen=True)
class Call:
    """A method of a path. ``name`` is as in docs/scopes.md: "GET /v1/jobs/{job_key}"."""

    method: str
    name: str
    view: type[ApiView]

    @property
    def scope(self) -> str:
        return self.view.required_scope[self.method]

    @property
    def parameters(self) -> list[str]:
        return re.findall(r"{(\w+)}", self.name)

    def path(self, parts: dict[str, object]) -> str:
        path = self.name.partition(" ")[2]
        for name in self.parameters:
            path = path.replace(f"{{{name}}}", str(parts[name]))
        return path


def all_calls() -> list[Call]:
    """Every method of every view of the API, in the order of the URL conf."""
    return [
        Call(method.upper(), f"{method.upper()} /{route}", view)
        for route, view in _views(get_resolver().url_patterns)
        for method in view.http_method_names
        if method != "head" and hasattr(view, method)
    ]


def _views(patterns: list) -> Iterator[tuple[str, type[ApiView]]]:
    for pattern in patterns:
        if isinstance(pattern, URLResolver):
            yield from _views(pattern.url_patterns)
        elif isinstance(pattern, URLPattern):
            view = getattr(pattern.callback, "cls", None) or getattr(pattern.callback, "view_class", None)
            if view is not None and issubclass(view, ApiView):
                yield re.sub(r"<(?:\w+:)?(\w+)>", r"{\1}", str(pattern.pattern)), view


@dataclass(frozen=True)
class World:
    """At least one thing of each kind that belongs to ``tenant``; all their names begin with it. ``parts``: what stands
    in paths and bodies."""

    tenant: str
    now: datetime
    parts: dict[str, Any]


def build_world(tenant: str, now: datetime) -> World:
    yesterday = now - timedelta(days=1)
    rules = [{"effect": "exclude", "dates": ["2026-03-05"], "name": f"{tenant} holiday"}]
    calendar = edit_calendar(
        {"name": f"{tenant}-calendar", "timezone": "UTC", "rules": rules}, yesterday, tenant=tenant
    ).calendar
    edit_calendar({"description": f"{tenant} words"}, yesterday, calendar=calendar, tenant=tenant)
    spare = edit_calendar({"name": f"{tenant}-spare", "timezone": "UTC"}, yesterday, tenant=tenant).calendar
    save_group(f"{tenant}-group", 9, yesterday, ACTOR, tenant)
    save_group(f"{tenant}-spare", 9, yesterday, ACTOR, tenant)
    job = _job(f"{tenant}:job", tenant, yesterday, concurrency_group=f"{tenant}-group")
    trigger, _ = save_trigger(job, {"every": "15m", "calendar": f"{tenant}-calendar"}, yesterday)
    save_job({"job_key": job.job_key, "description": f"{tenant} words"}, yesterday, ACTOR, partial=True)
    _job(f"{tenant}:off", tenant, yesterday)
    deactivate(f"{tenant}:off", yesterday, ACTOR)
    _job(f"{tenant}:paused", tenant, yesterday)
    pause_job(f"{tenant}:paused", yesterday, actor=ACTOR, reason=f"{tenant} pause")
    client = create_client(f"{tenant}-client", ["api-clients:admin"], now, tenant=tenant)
    key, _ = make_key(client, now)
    runner = RunnerFactory(
        runner_id=f"{tenant}-runner", client=client, capabilities=[f"{tenant}-gpu"], tags=[f"{tenant}-tag"]
    )
    drained = RunnerFactory(runner_id=f"{tenant}-drained", client=client, drained_at=now)
    waiting = QueueEntryFactory(job=job)
    QueueEntryFactory(job=job, claimed=True, holder__runner=runner, holder__instance_id=f"{tenant}-instance")
    # Other runs of the job are of other milliseconds.
    finished = RunFactory(job=job, completed=True, runner_id=f"{tenant}-runner")
    line = RunLogFactory(run=waiting.run, message=f"{tenant} said")
    dead = RunFactory(job=job, dead=True, error=f"{tenant} error", runner_id=f"{tenant}-runner")
    letter = DeadLetterFactory(job=job, run=dead, error=f"{tenant} error", metadata={"x": f"{tenant} metadata"})
    cancelled = RunFactory(job=job, verdict=Run.Verdict.CANCELLED, problem="cancelled", finished_at=now)
    told = create_channel({"name": f"{tenant}-mail", "kind": "email", "target": "a@b.example"}, now, ACTOR, tenant)
    spare_told = create_channel(
        {"name": f"{tenant}-hook", "kind": "webhook", "target": "https://b.example/x"}, now, ACTOR, tenant
    )
    rule = save_rule({"name": f"{tenant}-rule", "kind": "failed", "channels": [told.name]}, now, ACTOR, tenant)
    exempt = make_exemption({"effect": "snooze", "duration": "1h", "note": f"{tenant} note"}, now, ACTOR, tenant)
    AlertFactory(rule=rule, channel=told, tenant=tenant, job_key=job.job_key)
    edits = AuditEvent.objects.filter(tenant=tenant)
    return World(
        tenant,
        now,
        {
            "tenant": tenant,
            "job_key": job.job_key,
            "off": f"{tenant}:off",
            "paused": f"{tenant}:paused",
            "trigger_id": trigger.pk,
            "calendar_id": calendar.pk,
            "spare_calendar": spare.pk,
            "calendar": f"{tenant}-calendar",
            "name": f"{tenant}-group",
            "spare_group": f"{tenant}-spare",
            "execution_id": waiting.run_id,
            "finished": finished.pk,
            "line_id": line.pk,
            "cancelled": cancelled.pk,
            "letter_id": letter.pk,
            "client_id": client.pk,
            "key_id": key.pk,
            "channel_id": told.pk,
            "channel": told.name,
            "spare_channel": spare_told.pk,
            "rule_id": rule.pk,
            "exemption_id": exempt.pk,
            "runner_id": runner.runner_id,
            "runner_pk": runner.pk,
            "drained": drained.runner_id,
            "drained_pk": drained.pk,
            "user_id": create_person(f"{tenant}-user", now)[0].pk,
            "job_edit": edits.filter(action="job.updated", target_id=job.job_key).latest("pk").event_id,
            "calendar_edit": edits.filter(action="calendar.updated").latest("pk").event_id,
        },
    )


def _job(job_key: str, tenant: str, now: datetime, **fields: Any) -> Any:
    fields = {"job_key": job_key, "tenant": tenant, "tags": [f"{tenant}-tag"], "require": [f"{tenant}-none"], **fields}
    return save_job(fields, now, ACTOR)[0]


@dataclass(frozen=True)
class Write:
    """A call that changes something. ``body``: strings in it are formatted with the world's parts, and so are those of
    ``parts``, which say what stands in the path where it is not the usual. ``before``: what has to be done first."""

    body: dict[str, Any] = field(default_factory=dict)
    action: str = ""
    parts: dict[str, str] = field(default_factory=dict)
    before: Callable[[World], object] | None = None

    def said(self, world: World) -> dict[str, Any]:
        return _filled(self.body, world.parts)


def _filled(value: Any, parts: dict[str, Any]) -> Any:
    if isinstance(value, dict):
        return {name: _filled(item, parts) for name, item in value.items()}
    if isinstance(value, list):
        return [_filled(item, parts) for item in value]
    if isinstance(value, str) and (found := re.fullmatch(r"{(\w+)}", value)):
        filled = parts[found[1]]
        return filled if isinstance(filled, int) else str(filled)
    return value.format(**parts) if isinstance(value, str) else value


def path_of(call: Call, world: World) -> str:
    """The path of the call, with what the world has."""
    write = WRITES.get(call.name)
    own = {} if write is None else {name: _filled(text, world.parts) for name, text in write.parts.items()}
    return call.path({**world.parts, **own})


_JOB = "/v1/jobs/{job_key}"
WRITES: dict[str, Write] = {
    "POST /v1/trigger": Write({"job_key": "{job_key}"}, "job.triggered"),
    "POST /v1/jobs": Write({"job_key": "{tenant}:new"}, "job.created"),
    "POST /v1/jobs/register": Write({"job_key": "{tenant}:registered", "schedule": "5m"}, "job.created"),
    f"PUT {_JOB}": Write({"description": "other"}, "job.updated"),
    f"DELETE {_JOB}": Write({}, "job.deleted"),
    f"POST {_JOB}/activate": Write({}, "job.updated", {"job_key": "{off}"}),
    f"POST {_JOB}/deactivate": Write({}, "job.updated"),
    f"POST {_JOB}/pause": Write({"reason": "x"}, "job.paused"),
    f"POST {_JOB}/resume": Write({}, "job.resumed", {"job_key": "{paused}"}),
    f"POST {_JOB}/skip-next": Write({}, "job.next_skipped"),
    f"POST {_JOB}/backfill": Write({"from": "2026-03-02T00:00:00Z", "until": "2026-03-02T12:00:00Z"}, "job.backfilled"),
    f"POST {_JOB}/revert": Write({"event_id": "{job_edit}"}, "job.reverted"),
    "POST /v1/jobs/bulk-pause": Write({"job_keys": ["{job_key}"]}, "job.paused"),
    "POST /v1/jobs/bulk-resume": Write({"job_keys": ["{paused}"]}, "job.resumed"),
    "POST /v1/jobs/bulk-delete": Write({"job_keys": ["{job_key}"]}, "job.deleted"),
    "POST /v1/jobs/bulk-tag": Write({"job_keys": ["{job_key}"], "add": ["y"]}, "job.updated"),
    "PUT /v1/system/maintenance": Write({"reason": "x"}, "maintenance.began"),
    "DELETE /v1/system/maintenance": Write(
        {}, "maintenance.ended", before=lambda world: begin_maintenance(world.now, ACTOR)
    ),
    "POST /v1/schedules": Write({"job_key": "{job_key}", "every": "2h"}, "trigger.created"),
    "PUT /v1/schedules/{trigger_id}": Write({"every": "2h"}, "trigger.updated"),
    "DELETE /v1/schedules/{trigger_id}": Write({}, "trigger.deleted"),
    "PUT /v1/concurrency-groups/{name}": Write({"max_concurrent": 3}, "group.updated"),
    "DELETE /v1/concurrency-groups/{name}": Write({}, "group.deleted", {"name": "{spare_group}"}),
    "POST /v1/calendars": Write({"name": "{tenant}-new", "timezone": "UTC"}, "calendar.created"),
    "PUT /v1/calendars/{calendar_id}": Write({"timezone": "Asia/Tokyo"}, "calendar.updated"),
    "DELETE /v1/calendars/{calendar_id}": Write({}, "calendar.deleted", {"calendar_id": "{spare_calendar}"}),
    "POST /v1/calendars/{calendar_id}/revert": Write({"event_id": "{calendar_edit}"}, "calendar.reverted"),
    "POST /v1/executions/{execution_id}/cancel": Write({}, "run.cancelled"),
    "POST /v1/executions/bulk-cancel": Write({"ids": ["{execution_id}"]}, "run.cancelled"),
    "POST /v1/executions/bulk-replay": Write({"ids": ["{cancelled}"]}, "run.replayed"),
    "POST /v1/dead-letters/{letter_id}/replay": Write({}, "dead_letter.replayed"),
    "DELETE /v1/dead-letters/{letter_id}": Write({}, "dead_letter.deleted"),
    "POST /v1/dead-letters/bulk-delete": Write({"ids": ["{letter_id}"]}, "dead_letters.deleted"),
    "POST /v1/dead-letters/bulk-replay": Write({"ids": ["{letter_id}"]}, "dead_letter.replayed"),
    "POST /v1/api-clients": Write({"name": "{tenant}-other", "scopes": ["api-clients:admin"]}, "api_client.created"),
    "PUT /v1/api-clients/{client_id}": Write({"name": "{tenant}-renamed"}, "api_client.updated"),
    "POST /v1/api-keys": Write({"client_id": "{client_id}"}, "api_key.issued"),
    "DELETE /v1/api-keys/{key_id}": Write({}, "api_key.revoked"),
    "POST /v1/api-keys/{key_id}/rotate": Write({}, "api_key.rotated"),
    "POST /v1/users": Write({"username": "{tenant}-new", "roles": ["viewer"]}, "user.created"),
    "PUT /v1/users/{user_id}": Write({"roles": ["operator"]}, "user.updated"),
    "DELETE /v1/users/{user_id}": Write({}, "user.deleted"),
    "POST /v1/users/{user_id}/password": Write({}, "user.updated"),
    "POST /v1/alert-channels": Write(
        {"name": "{tenant}-new", "kind": "webhook", "target": "https://b.example/secret"}, "alert_channel.created"
    ),
    "DELETE /v1/alert-channels/{channel_id}": Write({}, "alert_channel.deleted", {"channel_id": "{spare_channel}"}),
    "POST /v1/alert-channels/{channel_id}/test": Write({}, "alert_channel.tested"),
    "POST /v1/alert-rules": Write(
        {"name": "{tenant}-new", "kind": "failed", "channels": ["{channel}"]}, "alert_rule.created"
    ),
    "PUT /v1/alert-rules/{rule_id}": Write(
        {"name": "{tenant}-rule", "kind": "failed", "channels": ["{channel}"], "throttle": "1m"}, "alert_rule.updated"
    ),
    "POST /v1/alert-exemptions": Write({"effect": "snooze", "duration": "1h", "note": "x"}, "alert_exemption.created"),
    "DELETE /v1/alert-exemptions/{exemption_id}": Write({}, "alert_exemption.ended"),
    "DELETE /v1/alert-rules/{rule_id}": Write({}, "alert_rule.deleted"),
    "DELETE /v1/runners/{runner_id}": Write({}, "runner.released"),
    "POST /v1/runners/{runner_id}/drain": Write({"reason": "x"}, "runner.drained"),
    "POST /v1/runners/{runner_id}/resume": Write({}, "runner.resumed", {"runner_id": "{drained}"}),
}
"""By name: a call that is taken, and what the audit calls what it did."""

CHANGES_NOTHING = {"POST /v1/calendars/{calendar_id}/what-if": {"timezone": "Asia/Tokyo"}}
"""Calls that only ask, with a body that is taken."""
WORK = {"POST /v1/work/poll", "POST /v1/work/ack", "POST /v1/work/renew", "POST /v1/work/{execution_id}/events"}
"""The work itself: what it does stands in runs, attempts and lines, and only what goes wrong in it in the audit."""
