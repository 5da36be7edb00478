"""/ready and `doctor`: may this server have traffic, and is all of the installation at work?"""

from __future__ import annotations

from datetime import timedelta
from io import StringIO

import pytest
from django.core.management import CommandError, call_command
from django.db import OperationalError, connection
from django.db.migrations.recorder import MigrationRecorder
from rest_framework.test import APIClient

from croniq_site.kernel.clock import DatabaseClock
from runners.api import authentication
from scheduler.queries import readiness
from scheduler.queries.health import site_health
from scheduler.queries.trouble import PROCESSES
from tests.factories import HeartbeatFactory
from tests.scheduler.metrics.scrapes import scraped
from tests.support.races import Session, in_thread

pytestmark = pytest.mark.django_db

SECOND = timedelta(seconds=1)


def asked(path: str = "/ready") -> tuple[int, dict]:
    answer = APIClient().get(path)
    return answer.status_code, answer.json()


@pytest.fixture
def at_work(now, clock) -> None:
    HeartbeatFactory(kind="materialize", tick_at=now - 1.5 * SECOND)
    HeartbeatFactory(kind="materialize", tick_at=now - 500 * SECOND)
    HeartbeatFactory(kind="reap", tick_at=now - 60 * SECOND)


def test_all_is_well(at_work):
    assert asked() == (
        200,
        {
            "status": "ready",
            "checks": {
                "database": {"ok": True},
                "migrations": {"ok": True, "pending": 0},
                "materializer": {"ok": True, "age_seconds": 1.5},
                "reaper": {"ok": True, "age_seconds": 60.0},
            },
        },
    )
    assert asked("/ready?workers=1")[0] == 200


def test_a_pass_in_an_hour_to_come_is_none_also_where_no_reaper_mends_that(at_work, now, clock):
    """The clock was set back."""
    clock.set(now - timedelta(hours=1))
    checks = asked()[1]["checks"]
    assert {name: checks[name]["ok"] for name in ("materializer", "reaper")} == {"materializer": False, "reaper": False}
    assert site_health(clock.now()).scheduler_last_tick_at is None
    assert scraped().value("croniq_materializer_last_tick_timestamp_seconds") is None


def test_a_silent_worker_is_named_and_takes_no_server_away_unless_asked_for(at_work, clock):
    clock.tick(SECOND)
    status, body = asked()
    assert (status, body["status"]) == (200, "degraded")
    assert {name: check["ok"] for name, check in body["checks"].items()} == {
        "database": True,
        "migrations": True,
        "materializer": True,
        "reaper": False,
    }
    status, body = asked("/ready?workers=1")
    assert (status, body["status"]) == (503, "not_ready")
    assert asked("/ready?workers=nonsense")[0] == 400


def test_a_worker_that_never_was_there_is_named(clock):
    status, body = asked("/ready?workers=true")
    assert status == 503
    assert body["checks"]["materializer"] == body["checks"]["reaper"] == {"ok": False, "age_seconds": None}


def test_a_migration_that_is_not_applied_keeps_the_traffic_away(at_work):
    assert asked()[0] == 200
    MigrationRecorder(connection).record_unapplied("scheduler", "0002_tally")
    status, body = asked()
    assert (status, body["status"]) == (503, "not_ready")
    assert body["checks"]["migrations"] == {"ok": False, "pending": 1}
    MigrationRecorder(connection).record_applied("scheduler", "0002_tally")
    assert asked()[0] == 200


def test_a_database_that_is_away_is_503_without_a_word_of_where_it_is(clock, monkeypatch):
    def fail() -> None:
        raise OperationalError("connection to server at 10.1.2.3 failed for user croniq")

    monkeypatch.setattr(clock, "now", fail)
    assert authentication.CLOCK is clock
    status, body = asked()
    assert (status, body["status"]) == (503, "not_ready")
    assert {name: check["ok"] for name, check in body["checks"].items()} == {
        "database": False,
        "migrations": None,
        "materializer": None,
        "reaper": None,
    }
    assert "10.1.2.3" not in str(body)


@pytest.mark.django_db(transaction=True)
def test_a_table_that_is_locked_keeps_no_monitor_waiting(database, monkeypatch):
    monkeypatch.setattr(readiness, "LOCK_SECONDS", 0.1)

    def lock() -> None:
        with connection.cursor() as cursor:
            if database == "postgresql":
                cursor.execute("LOCK TABLE scheduler_queueentry, runners_heartbeat IN ACCESS EXCLUSIVE MODE")
            else:
                cursor.execute("UPDATE scheduler_queueentry SET attempt = attempt")

    ways = ("/metrics", "/health", "/ready")
    with Session() as other:
        other.begin()
        other.run(lock)
        answers = in_thread(lambda: [APIClient().get(way).status_code for way in ways]).result(20)
    assert answers == ([503, 503, 200] if database == "postgresql" else [200] * 3)
    assert [APIClient().get(way).status_code for way in ways] == [200] * 3


def doctor() -> tuple[list[str], str]:
    out = StringIO()
    try:
        call_command("doctor", stdout=out)
    except CommandError as error:  # the command's exit code is 1
        return out.getvalue().splitlines(), str(error)
    return out.getvalue().splitlines(), ""


def test_doctor_shows_the_same_checks_and_fails_by_them():
    now = DatabaseClock().now()
    for kind in PROCESSES:
        HeartbeatFactory(kind=kind, beat_at=now, tick_at=now)
    written, wrong = doctor()
    assert wrong == ""
    checks = {
        line.split()[0]: line.split(maxsplit=1)[1]
        for line in written
        if line.startswith(("migrations", "materialize ", "reap "))
    }
    assert checks["migrations"] == "applied"
    assert "last pass" in checks["materialize"]
    # It beats, but its passes fail: a sign of life is not work.
    for kind, told in (("materialize", "materialize"), ("reap", "reap")):
        beats = HeartbeatFactory(kind=kind, beat_at=now, tick_at=None)
        beats.__class__.objects.filter(kind=kind).update(tick_at=now - 100 * SECOND)
        assert f"No {told} process has finished a pass since" in doctor()[1]


def test_doctor_says_that_the_database_is_away(monkeypatch):
    def fail(*args: object) -> None:
        raise OperationalError("away")

    monkeypatch.setattr(connection, "cursor", fail)
    assert "The database cannot be opened" in doctor()[1]
