"""How many queries each page asks, compared with `baseline.json`: a page that asks more says so here first."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from calendars.models import Calendar
from runners.models import Runner
from scheduler.dashboard.pages import page
from scheduler.dashboard.urls import urlpatterns
from scheduler.models import DeadLetter, Job, Run
from scheduler.services.seed import seed_demo
from tests.factories import HeartbeatFactory, QueueEntryFactory, SkippedSpanFactory
from tests.scheduler.dashboard.conftest import client_of, person

pytestmark = pytest.mark.django_db

BASELINE = Path(__file__).with_name("baseline.json")
MOST = 15
NONE = {"runner-named"}
"""An address that leads to another."""
ADMINS = {"settings-doctor"}
"""Pages for administrators alone."""


@pytest.fixture
def paths(now) -> dict[str, str]:
    """An address of each page, in an installation in which each has something to show."""
    seed_demo(30, 400, now)
    for kind in ("serve", "materialize", "reap"):
        HeartbeatFactory(kind=kind, beat_at=now)
    key = "billing:invoices"
    SkippedSpanFactory(job=Job.objects.get(job_key=key), reason="downtime")
    calendar, letter = Calendar.objects.first().pk, DeadLetter.objects.first()
    run = Run.objects.filter(verdict="completed").first().pk
    QueueEntryFactory(job=Job.objects.get(job_key=key), available_at=now - timedelta(minutes=2))  # overdue
    return {
        "jobs": "/jobs?status=overdue",
        "jobs-confirm": "/jobs/bulk?do=pause&all=1",
        "job-preview": "/jobs/preview?t0-text=0+2+*+*+*",
        "now": "/now",
        "job": f"/jobs/{key}",
        "runs": "/runs",
        "runs-confirm": "/runs/bulk?do=rerun&all=1&tag=eu&error=exit",
        "planned": "/runs/planned",
        "run": f"/runs/{run}",
        "log": f"/runs/{run}/log?times=relative&q=step&level=info",
        "log-stream": f"/runs/{run}/log/stream",
        "log-raw": f"/runs/{run}/log/raw",
        "next": "/next",
        "overlap": "/overlap",
        "letters": "/letters",
        "letters-confirm": "/letters/confirm?do=replay",
        "letter": f"/letters/{letter.pk}",
        "missed": "/missed",
        "missed-job": f"/missed/{key}",
        "budgets": "/budgets",
        "alerts": "/alerts",
        "audit": "/audit",
        "calendars": "/calendars",
        "calendar": f"/calendars/{calendar}",
        "calendar-year": f"/calendars/{calendar}/year",
        "runners": "/runners",
        "runner": f"/runners/{Runner.objects.first().pk}",
        "settings-tenants": "/settings/tenants",
        "settings-doctor": "/settings/doctor",
        "palette": "/palette?q=invo",
        "banner": "/banner",
    }


def test_each_page_asks_as_many_queries_as_the_baseline_says(operator, paths):
    admin = client_of(person("ada", "admin"))
    found = {}
    for name, path in paths.items():
        with CaptureQueriesContext(connection) as asked:
            assert (admin if name in ADMINS else operator).get(path).status_code == 200, name
        statements = [query["sql"] for query in asked if not query["sql"].startswith(("SAVEPOINT", "RELEASE"))]
        found[name] = len(statements)
    assert found == json.loads(BASELINE.read_text()), f"if that is meant: {json.dumps(found, indent=2)}"
    assert {name: number for name, number in found.items() if number > MOST} == {}


def test_each_page_is_in_the_baseline():
    views = {pattern.name: pattern.callback for pattern in urlpatterns}
    pages = {name for name, view in views.items() if view.__code__.co_qualname.startswith(page.__name__ + ".")}
    assert {"now", "letters", "log-raw", *NONE} <= pages
    assert pages - NONE == set(json.loads(BASELINE.read_text()))
