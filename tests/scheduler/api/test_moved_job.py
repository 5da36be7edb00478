"""A job moves to another tenant; its schedule keeps the calendar of the one that it left."""

from __future__ import annotations

import pytest
from rest_framework.test import APIClient

from croniq_site.kernel.clock import DatabaseClock
from runners.services.clients import issue_key
from tests.factories import ApiClientFactory

pytestmark = pytest.mark.django_db(transaction=True)


def client_of(tenant: str | None) -> APIClient:
    client = APIClient()
    client.default_format = "json"
    owner = ApiClientFactory(scopes=["admin"], tenant=tenant)
    client.credentials(HTTP_AUTHORIZATION=f"ApiKey {issue_key(owner, DatabaseClock().now())}")
    return client


def test_no_schedule_follows_a_calendar_of_another_tenant():
    """Refused at the move, as a group that the new tenant lacks is; or the schedule is the new tenant's own."""
    operator, mine, theirs = client_of(None), client_of("mine"), client_of("theirs")
    rule = {"effect": "include", "weekdays": [1, 2, 3]}
    assert mine.post("/v1/calendars", {"name": "secret-days", "timezone": "UTC", "rules": [rule]}).status_code == 201
    assert mine.post("/v1/jobs", {"job_key": "a:b"}).status_code == 201
    made = mine.post("/v1/schedules", {"job_key": "a:b", "every": "1h", "calendar": "secret-days"}).json()
    moved = operator.put("/v1/jobs/a:b", {"tenant": "theirs"})
    if moved.status_code == 200:
        seen = theirs.get(f"/v1/schedules/{made['trigger_id']}").json()
        assert seen["calendar"] != "secret-days", "a schedule is gated by a calendar that its tenant cannot see"
