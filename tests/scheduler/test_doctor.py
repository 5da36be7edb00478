"""`manage.py doctor` says which versions decide, who is alive, and what is wrong."""

from __future__ import annotations

from datetime import timedelta
from importlib.metadata import version
from io import StringIO

import pytest
from django.core.management import CommandError, call_command

from croniq_site.kernel.capabilities import COMMAND, COMMAND_ONLY
from croniq_site.kernel.clock import DatabaseClock
from runners.models import Heartbeat
from runners.services.audit import Event, record_events
from scheduler.models import QueueEntry
from scheduler.queries import trouble
from scheduler.queries.followed_rules import FOLLOWED
from tests.factories import (
    DeadLetterFactory,
    HeartbeatFactory,
    JobFactory,
    LaneFactory,
    MaintenanceFactory,
    QueueEntryFactory,
    RunnerFactory,
    TriggerFactory,
)

pytestmark = pytest.mark.django_db


def doctor() -> tuple[str, str]:
    """What it writes, and what it finds wrong."""
    out = StringIO()
    try:
        call_command("doctor", stdout=out)
    except CommandError as error:  # the command's exit code is 1
        return out.getvalue(), str(error)
    return out.getvalue(), ""


@pytest.fixture
def alive() -> None:
    for kind in trouble.PROCESSES:
        HeartbeatFactory(kind=kind, beat_at=DatabaseClock().now())


def test_the_versions_that_decide_are_shown(alive, database):
    written, wrong = doctor()
    lines = dict(line.split(maxsplit=1) for line in written.splitlines())
    assert (lines["tzdata"], lines["holidays"]) == (version("tzdata"), version("holidays"))
    assert lines["database"].lower().startswith(database)
    assert (wrong, written.splitlines()[-1]) == (
        "",
        "The installation is well. Whether jobs fail or are late is on the page Now.",
    )


def test_a_process_that_is_not_there_or_silent_is_told(alive):
    Heartbeat.objects.filter(kind="serve").delete()
    Heartbeat.objects.filter(kind="reap").update(beat_at=DatabaseClock().now() - timedelta(minutes=5))
    Heartbeat.objects.filter(kind="materialize").update(ended_at=DatabaseClock().now())
    _, wrong = doctor()
    assert "No serve process runs." in wrong
    assert "No materialize process runs." in wrong
    assert "The reap process gave no sign of life since" in wrong


def test_broken_schedules_are_named_with_their_reasons(alive, monkeypatch):
    monkeypatch.setattr(trouble, "MOST_NAMED", 2)
    for n in range(3):
        TriggerFactory(job__job_key=f"demo:{n}", config_error="There is no time zone 'Mars'.")
    _, wrong = doctor()
    assert wrong.splitlines() == [
        "A schedule of demo:0 is broken: There is no time zone 'Mars'.",
        "A schedule of demo:1 is broken: There is no time zone 'Mars'.",
        "1 more schedules are broken.",
    ]


def test_what_waits_for_nobody_is_wrong_and_what_is_held_is_said(alive):
    now = DatabaseClock().now()
    QueueEntryFactory(available_at=now - timedelta(minutes=2))
    JobFactory(lane=LaneFactory(require=["tape"]))
    DeadLetterFactory()
    MaintenanceFactory(is_on=True, began_at=now, reason="the new disk")
    written, wrong = doctor()
    assert "No runner is online, and runs have been due since" in wrong
    assert "No runner that is online has tape, which jobs require." in wrong
    lines = dict(line.split(maxsplit=1) for line in written.splitlines())
    assert lines["maintenance"] == "all dispatch is held until somebody ends it. the new disk"
    assert lines["letters"] == "1"
    RunnerFactory(last_poll_at=now, capabilities=["tape"])
    assert doctor()[1] == ""


def test_what_waits_while_all_who_are_online_are_drained_is_wrong(alive):
    now = DatabaseClock().now()
    entry = QueueEntryFactory(available_at=now - timedelta(minutes=2))
    RunnerFactory(last_poll_at=now, drained_at=now)
    RunnerFactory(last_poll_at=now - timedelta(hours=1))
    since = entry.available_at.isoformat(timespec="seconds")
    assert doctor()[1] == f"Every runner that is online is drained, and runs have been due since {since}."
    taking = RunnerFactory(last_poll_at=now)
    assert doctor()[1] == "", "one of them takes work"
    taking.delete()
    QueueEntry.objects.update(available_at=now - timedelta(seconds=30))
    assert doctor()[1] == "", "a drain for the minute of a deployment is nobody's trouble"


def test_jobs_whose_handler_nobody_has_are_named(alive):
    for number in range(3):
        JobFactory(job_key=f"demo:{number}", lane=LaneFactory())
    RunnerFactory(last_poll_at=DatabaseClock().now(), capabilities=[COMMAND, COMMAND_ONLY])
    assert doctor()[1] == (
        "Every runner that is online executes commands or HTTP requests only, and this takes a handler: a runner of "
        "your own code, with an SDK. Runs wait of demo:0 and of 2 more jobs."
    )
    RunnerFactory(last_poll_at=DatabaseClock().now(), capabilities=[])
    assert doctor()[1] == ""


def test_runs_that_were_planned_by_other_rules_are_told(alive, now):
    record_events([Event(FOLLOWED, "site", "rules", diff={"versions": {"tzdata": "2001.1"}})], now)
    assert "Runs are planned by tzdata 2001.1" in doctor()[1]


def test_a_database_that_lacks_migrations_is_told(monkeypatch):
    monkeypatch.setattr("scheduler.queries.diagnostics.pending_migrations", lambda: ["scheduler.0002_more"])
    assert "lacks migrations: scheduler.0002_more" in doctor()[1]
