"""/v1/system/diagnostics tells what `manage.py doctor` tells."""

from __future__ import annotations

from datetime import timedelta
from io import StringIO

import pytest
from django.core.management import CommandError, call_command

from scheduler.queries.silent_channels import FAILURES_TOLD
from tests.factories import (
    AlertChannelFactory,
    DeadLetterFactory,
    HeartbeatFactory,
    MaintenanceFactory,
    QueueEntryFactory,
    RunnerFactory,
    TriggerFactory,
)

pytestmark = pytest.mark.django_db


def doctor() -> tuple[str, str]:
    out = StringIO()
    try:
        call_command("doctor", stdout=out)
    except CommandError as error:
        return out.getvalue(), str(error)
    return out.getvalue(), ""


def test_the_api_and_the_doctor_tell_the_same(api, clock, now, monkeypatch):
    monkeypatch.setattr("scheduler.management.commands.doctor.DatabaseClock", lambda: clock)
    for kind in ("serve", "materialize"):
        HeartbeatFactory(kind=kind, beat_at=now, tick_at=now)
    TriggerFactory(job__job_key="demo:broken", config_error="There is no time zone 'Mars'.")
    QueueEntryFactory(available_at=now - timedelta(minutes=2))
    RunnerFactory(last_poll_at=now, drained_at=now)
    DeadLetterFactory()
    MaintenanceFactory(is_on=True, began_at=now)
    AlertChannelFactory(name="ops", failures=FAILURES_TOLD, closed_until=now)
    AlertChannelFactory(failures=FAILURES_TOLD - 1, closed_until=now)
    AlertChannelFactory(failures=FAILURES_TOLD, closed_until=now, deleted_at=now)
    body = api("admin").get("/v1/system/diagnostics").json()
    written, wrong = doctor()
    assert body["problems"] == wrong.splitlines()
    reaper = body["problems"].index("No reap process runs.")
    assert body["problems"][reaper + 1] == "No alert is sent meanwhile: that is the work of the reap process."
    drained = "Every runner that is online is drained, and runs have been due since 2026-03-02T11:58:00+00:00."
    assert drained in body["problems"]
    silent = [problem for problem in body["problems"] if "alert channel" in problem]
    assert silent == ["The alert channel ops of default has not answered 4 attempts. No alert waits for it."]
    assert body["ok"] is False
    lines = dict(line.split(maxsplit=1) for line in written.splitlines())
    for name, version in body["versions"].items():
        if name != "croniq":
            assert lines[name] == version
    assert lines["letters"] == str(body["dead_letters"]) == "1"
    assert body["maintenance"] is True
    assert body["processes"][0] == {
        "kind": "serve",
        "last_beat_at": "2026-03-02T12:00:00.000000Z",
        "last_pass_at": None,
    }
    assert [process["kind"] for process in body["processes"]] == ["serve", "materialize", "reap"]


def test_where_all_is_well_it_says_so(api, now):
    for kind in ("serve", "materialize", "reap"):
        HeartbeatFactory(kind=kind, beat_at=now, tick_at=now)
    body = api().get("/v1/system/diagnostics").json()
    assert (body["ok"], body["problems"], body["pending_migrations"]) == (True, [], [])


def test_with_migrations_to_come_nothing_else_is_looked_at(api, monkeypatch):
    monkeypatch.setattr("scheduler.queries.diagnostics.pending_migrations", lambda: ["scheduler.0009_more"])
    body = api().get("/v1/system/diagnostics").json()
    assert (body["ok"], body["pending_migrations"], body["processes"]) == (False, ["scheduler.0009_more"], [])


def test_a_key_of_one_tenant_does_not_see_what_is_of_all(api):
    assert api("admin", tenant="acme").get("/v1/system/diagnostics").status_code == 403
