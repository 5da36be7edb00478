"""A client of the API for each test, at a clock that stands still."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

import pytest
from django.db.models import Model
from rest_framework.test import APIClient

from croniq_site.kernel.clock import ManualClock
from runners.api import authentication
from runners.services.clients import issue_key
from tests.factories import (
    ApiClientFactory,
    CalendarFactory,
    CalendarRuleFactory,
    ConcurrencyGroupFactory,
    DeadLetterFactory,
    JobFactory,
    QueueEntryFactory,
    RunFactory,
    RunLogFactory,
    RunnerFactory,
    TriggerFactory,
)

Api = Callable[..., APIClient]


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch, now: datetime) -> ManualClock:
    """The clock that every request is answered by."""
    clock = ManualClock(now)
    monkeypatch.setattr(authentication, "CLOCK", clock)
    return clock


@pytest.fixture
def api(db: None, clock: ManualClock) -> Api:
    """Make a client with a key of these scopes (all, where none is named), of a tenant or of none."""

    def make(*scopes: str, tenant: str | None = None) -> APIClient:
        owner = ApiClientFactory(scopes=list(scopes) or ["admin"], tenant=tenant)
        client = APIClient()
        client.default_format = "json"
        client.credentials(HTTP_AUTHORIZATION=f"ApiKey {issue_key(owner, clock.now())}")
        client.owner = owner
        return client

    return make


@pytest.fixture
def everything(db: None) -> dict[str, Model]:
    """At least one row of whatever the API lists."""
    job = JobFactory(tags=["x"])
    calendar = CalendarFactory()
    CalendarRuleFactory(calendar=calendar)
    TriggerFactory(job=job, calendar=calendar)
    RunnerFactory()
    ConcurrencyGroupFactory()
    QueueEntryFactory(claimed=True, job=job)
    DeadLetterFactory(job=job)
    run = RunFactory(job=job, completed=True)
    RunLogFactory(run=run)
    return {"job": job, "run_with_log": run}
