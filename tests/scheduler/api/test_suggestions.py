"""What is refused names what may have been meant."""

from __future__ import annotations

import pytest

from croniq_site.kernel.errors import InvalidInput
from runners.services.clients import create_client
from scheduler.services.calendars import edit_calendar
from tests.factories import JobFactory

pytestmark = pytest.mark.django_db


def test_a_scope_that_is_misspelled(now):
    with pytest.raises(InvalidInput) as refused:
        create_client("ci", ["jobs:reed", "work:pol"], now)
    assert refused.value.fields["scopes"] == [
        "Unknown scopes: jobs:reed, work:pol. Did you mean 'jobs:read'? Did you mean 'work:poll'?"
    ]


def test_a_calendar_of_a_schedule_that_is_misspelled(api, now):
    edit_calendar({"name": "working-days", "timezone": "UTC", "rules": []}, now)
    edit_calendar({"name": "workings-day", "timezone": "UTC", "rules": []}, now, tenant="other")
    JobFactory(job_key="a:b")
    body = {"job_key": "a:b", "cron_expression": "0 2 * * *", "calendar": "workingdays"}
    answer = api().post("/v1/schedules", body)
    assert answer.json()["fields"]["calendar"] == ["There is no calendar of that name. Did you mean 'working-days'?"]
    body["calendar"] = "holidays"
    assert api().post("/v1/schedules", body).json()["fields"]["calendar"] == ["There is no calendar of that name."]


@pytest.mark.parametrize(
    ("country", "hint"),
    [
        ("GER", "Did you mean 'DE'?"),
        ("DEU", "Did you mean 'DE'?"),
        ("Germany", "Did you mean 'DE'?"),
        ("UK", "Did you mean 'GB'?"),
        ("at", "Did you mean 'AT'?"),
        ("XX", "Use the two letters of ISO 3166, such as 'AT'."),
    ],
)
def test_a_country_that_is_said_otherwise(now, country, hint):
    rules = [{"effect": "exclude", "holiday_country": country}]
    with pytest.raises(InvalidInput) as refused:
        edit_calendar({"name": "shop", "timezone": "UTC", "rules": rules}, now)
    assert hint in str(refused.value.fields)
