"""What is refused names what may have been meant."""

from __future__ import annotations

from difflib import SequenceMatcher

import pytest

from croniq_site.kernel.errors import InvalidInput
from croniq_site.kernel.suggestions import COMPARED, did_you_mean
from runners.services.clients import create_client
from scheduler.queries import jobs
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


def test_a_job_that_is_misspelled_is_told_by_the_keys_that_the_caller_may_read(api):
    for key, tenant in (("billing:invoices", "default"), ("billing:invoice", "other"), ("ops:backup", "default")):
        JobFactory(job_key=key, tenant=tenant)
    JobFactory(job_key="biling:invoices", deleted_at="2026-01-01T00:00:00Z")

    def told(client, key: str) -> set[str]:
        answers = [
            client.get(f"/v1/jobs/{key}"),
            client.post(f"/v1/jobs/{key}/pause", {}),
            client.post("/v1/trigger", {"job_key": key}),
            client.post("/v1/schedules", {"job_key": key, "every": "5m"}),
        ]
        assert {answer.status_code for answer in answers} == {404}
        return {answer.json()["message"] for answer in answers}

    none = "There is no job 'biling:invoices'."
    assert told(api(tenant="default"), "biling:invoices") == {f"{none} Did you mean 'billing:invoices'?"}
    assert told(api(tenant="other"), "biling:invoices") == {f"{none} Did you mean 'billing:invoice'?"}
    assert told(api(tenant="third"), "biling:invoices") == {none}
    # Another tenant's is as good as none, in what is said of it too.
    assert told(api(tenant="default"), "billing:invoice") == {
        "There is no job 'billing:invoice'. Did you mean 'billing:invoices'?"
    }
    assert told(api(), "nothing:like-it") == {"There is no job 'nothing:like-it'."}
    # Who may not read jobs learns none of their names.
    blind = api("jobs:trigger").post("/v1/trigger", {"job_key": "biling:invoices"})
    assert blind.json()["message"] == none


def test_of_many_jobs_those_next_to_the_key_are_looked_at(monkeypatch):
    for number in range(9):
        JobFactory(job_key=f"a:{number}")
    monkeypatch.setattr(jobs, "KEYS_AROUND", 2)
    assert jobs.keys_around("a:4") == ["a:3", "a:2", "a:5", "a:6"]


def test_few_of_many_names_are_compared_letter_by_letter(monkeypatch):
    """That takes as long as both are long together: with 2,000 long ones it would be seconds."""
    compared = []
    ratio = SequenceMatcher.ratio
    monkeypatch.setattr(SequenceMatcher, "ratio", lambda self: compared.append(self.a) or ratio(self))
    names = [f"nightly:{number:04d}:invoices" for number in range(300)]
    assert did_you_mean("nightly:0123:invoicse", names) == " Did you mean 'nightly:0123:invoices'?"
    assert len(compared) <= 2 * COMPARED  # each is asked for its likeness twice


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
