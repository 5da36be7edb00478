"""The palette: who finds what by which text, and what it costs."""

from __future__ import annotations

from uuid import UUID

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from scheduler.queries.finder import MOST_JOBS, MOST_OTHERS, found
from tests.factories import CalendarFactory, JobFactory, RunFactory, RunnerFactory
from tests.scheduler.dashboard.conftest import HTMX, client_of, person
from tests.scheduler.dashboard.markup import Page

pytestmark = pytest.mark.django_db


def choices(client, text: str) -> list[tuple[str, str]]:
    """What is offered: where it leads, and the whole line."""
    answer = client.get("/palette", {"q": text}, headers=HTMX)
    assert answer.status_code == 200
    page = Page(answer)
    assert page.refused == []
    return [(option["data-href"], option["id"]) for option in page.all("li", role="option")]


def urls(client, text: str) -> list[str]:
    return [url for url, _ in choices(client, text)]


def test_jobs_runners_and_calendars_are_found_by_a_part_of_their_name(viewer):
    job = JobFactory(job_key="billing:invoices")
    JobFactory(job_key="billing:old", deleted_at=job.created_at)
    runner = RunnerFactory(runner_id="billing runner")
    calendar = CalendarFactory(name="Billing days")
    assert urls(viewer, "BILLING") == [
        "/jobs/billing:invoices",
        f"/runners/{runner.pk}",
        f"/calendars/{calendar.pk}",
    ]


def test_runs_are_found_by_how_their_id_begins(viewer):
    run = RunFactory(id=UUID("0195f9a0-1234-7000-8000-000000000001"))
    other = RunFactory(id=UUID("0195f9a0-1235-7000-8000-000000000001"))
    assert urls(viewer, "0195f9a0-12") == [f"/runs/{other.pk}", f"/runs/{run.pk}"]
    assert urls(viewer, "0195F9A01234") == [f"/runs/{run.pk}"]
    assert urls(viewer, str(run.pk)) == [f"/runs/{run.pk}"]
    assert urls(viewer, "019") == []  # as half of all runs begin
    assert urls(viewer, "0195f9a0-12zz") == []


def test_pages_are_found_by_their_name_and_are_all_there_is_without_a_text(viewer):
    assert urls(viewer, "dead LET") == ["/letters"]
    assert {"/jobs", "/now", "/runs", "/time-zone", "/password"} <= set(urls(viewer, ""))
    assert {"/admin/", "/settings/clients", "/settings/users", "/settings/doctor"}.isdisjoint(urls(viewer, ""))


def test_what_does_something_is_offered_to_whoever_may_and_leads_to_a_page_that_asks(viewer, operator):
    job = JobFactory(job_key="billing:invoices")
    assert f"/jobs/bulk?do=pause&id={job.pk}" in urls(operator, "pause invo")
    assert f"/jobs/bulk?do=run&id={job.pk}" in urls(operator, "run invo")
    # It is not paused: there is nothing to resume.
    assert urls(operator, "resume invo") == []
    assert "/jobs/new" in urls(operator, "new")
    assert urls(viewer, "pause invo") == urls(viewer, "new") == []
    before = operator.get(f"/jobs/bulk?do=pause&id={job.pk}")
    assert (before.status_code, job.paused_at) == (200, None)


def test_whoever_has_no_role_finds_nothing():
    JobFactory(job_key="billing:invoices")
    assert client_of(person("nemo")).get("/palette?q=invo").status_code == 403


def test_a_tenant_finds_its_own_alone(now):
    mine, theirs = JobFactory(job_key="a:mine", tenant="acme"), JobFactory(job_key="a:theirs", tenant="other")
    runs = [RunFactory(job=mine), RunFactory(job=theirs)]
    runners = [RunnerFactory(runner_id=f"a {tenant}", client__tenant=tenant) for tenant in ("acme", "other")]
    calendars = [CalendarFactory(name=f"a {tenant}", tenant=tenant) for tenant in ("acme", "other")]
    things = found("a", "acme")
    assert (things.jobs, things.runners, things.calendars) == ((mine,), (runners[0],), (calendars[0],))
    for run, tenant in zip(runs, ("acme", "other"), strict=True):
        assert found(str(run.pk), "acme").runs == ((run,) if tenant == "acme" else ())
        assert found(str(run.pk)).runs == (run,)


def test_what_is_found_is_bounded_in_rows_and_queries(operator):
    for number in range(30):
        JobFactory(job_key=f"cafe:{number:02}")
        CalendarFactory(name=f"cafe {number}")
        RunnerFactory(runner_id=f"cafe {number}")
        RunFactory(id=UUID(f"cafe0000-0000-7000-8000-{number:012}"))
    things = found("cafe")
    assert [len(kind) for kind in (things.jobs, things.runs, things.runners, things.calendars)] == [
        MOST_JOBS,
        MOST_OTHERS,
        MOST_OTHERS,
        MOST_OTHERS,
    ]
    with CaptureQueriesContext(connection) as asked:
        operator.get("/palette", {"q": "pause cafe"}, headers=HTMX)
    assert len(asked) <= 8


def test_a_run_is_found_by_its_key_and_not_among_all_runs():
    RunFactory()
    with CaptureQueriesContext(connection) as asked:
        found("0195f9a0")
    [query] = [query["sql"] for query in asked if "scheduler_run" in query["sql"]]
    with connection.cursor() as cursor:
        if connection.vendor == "postgresql":
            cursor.execute("SET LOCAL enable_seqscan = off")
            cursor.execute(f"EXPLAIN {query}")
        else:
            cursor.execute(f"EXPLAIN QUERY PLAN {query}")
        plan = "\n".join(str(row[-1]) for row in cursor.fetchall())
    known = ("scheduler_run_pkey", "USING INDEX sqlite_autoindex_scheduler_run_1 (id>? AND id<?)")
    assert any(name in plan for name in known), plan


@pytest.mark.parametrize("text", ["'\"<%_\\", "\x00", "[", "x" * 5000, "pause ", "🙂" * 300])
def test_any_text_is_answered(operator, text):
    assert isinstance(urls(operator, text), list)


def test_without_a_script_it_is_a_page_with_links(viewer):
    JobFactory(job_key="billing:invoices")
    page = Page(viewer.get("/palette?q=invo"))
    assert page.links("/jobs/") == ["/jobs/billing:invoices"]
    assert "Nothing matches" in Page(viewer.get("/palette?q=zzzz")).text
    [link] = [values for values in page.all("a") if values.get("data-open") == "palette"]
    assert link["href"] == "/palette"
