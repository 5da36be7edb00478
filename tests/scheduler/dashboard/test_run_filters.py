"""What narrows the list of runs down, how far back it looks for it, and what an older page says of newer runs."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.db import connection

from scheduler.dashboard import runs
from scheduler.models import QueueEntry, Run
from scheduler.queries import run_reach
from scheduler.queries.run_reach import jobs_of, reach
from scheduler.queries.runs import RunFilter, run_list
from tests.factories import JobFactory, QueueEntryFactory, RunFactory
from tests.scheduler.dashboard.conftest import HTMX
from tests.scheduler.dashboard.markup import Page
from tests.scheduler.named_runs import ended, named_runs

pytestmark = pytest.mark.django_db
MINUTE, HOUR = timedelta(minutes=1), timedelta(hours=1)


def shown(client, path: str) -> list[str]:
    return [values["id"][4:] for values in Page(client.get(path)).all("a") if values.get("id", "").startswith("run-")]


@pytest.fixture
def named(now) -> dict[str, str]:
    return named_runs(now)


@pytest.mark.parametrize(
    ("query", "letters"),
    [
        ("", "feabcd"),
        ("kind=triggered", "fc"),
        ("kind=replay", "d"),
        ("attempt=2", "eb"),
        ("attempt=3", "b"),
        ("error=DISK+full", "bc"),
        ("error=full:", "b"),
        ("error=d.sk", ""),
        ("error=disk&state=failed", "c"),
        ("error=disk&state=completed", ""),
        ("tag=eu", "eabcd"),
        ("tag=night&state=dead", "b"),
        ("tag=nig", ""),
        ("tenant=acme", "fcd"),
        ("tenant=acme&tag=eu&runner=r1", "d"),
        ("runner=r1", "fad"),
        ("job=ops:a&attempt=2", "eb"),
        ("last=1h", "fea"),
        ("last=24h&state=dead", "b"),
        ("since=2026-03-02T09:00&until=2026-03-02T11:30", "bc"),
        ("since=2026-03-02T10:00:00%2B01:00&until=2026-03-02T11:00:00%2B01:00", "c"),
        ("job=no:such", ""),
    ],
)
def test_filters_narrow_the_list_down_and_stay_in_the_address(viewer, named, query, letters):
    answer = viewer.get(f"/runs?{query}")
    page = Page(answer)
    assert "".join(named[values["id"][4:]] for values in page.all("a") if values.get("id", "")[:4] == "run-") == letters
    [part] = page.all("div", id="runs")
    live = viewer.get(part["hx-get"], headers=HTMX)
    assert live.status_code == 204  # the part asks for the same again


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("kind=odd", "kind"),
        ("last=2h", "last"),
        ("attempt=0", "attempt"),
        ("attempt=1001", "attempt"),
        ("attempt=x", "attempt"),
        ("attempt=%D9%A1", "attempt"),
        pytest.param("attempt=" + "9" * 5000, "attempt", id="a number of 5000 digits"),
        ("since=yesterday", "since"),
        ("until=0001-01-01T00:00", "until"),
        ("since=2026-03-02T10:00&until=2026-03-02T10:00", "until"),
        ("last=1h&since=2026-03-02T10:00", "last"),
        ("state=wrong", "state"),
    ],
)
def test_a_filter_that_there_is_not_is_refused_where_it_is_written(viewer, query, field):
    answer = viewer.get(f"/runs?{query}")
    assert answer.status_code == 400
    page = Page(answer)
    wrong = [one for tag in ("input", "select") for one in page.all(tag) if "aria-invalid" in one]
    assert [one["name"] for one in wrong] == [field]
    assert page.all("p", id=wrong[0]["aria-describedby"])
    assert viewer.get(f"/runs?{query}", headers=HTMX).status_code == 400


def test_all_filters_that_are_wrong_are_told_at_once_and_what_was_written_stays(viewer):
    page = Page(viewer.get("/runs?job=ops:a&state=odd&attempt=x&since=soon&kind=odd"))
    wrong = [one["name"] for tag in ("select", "input") for one in page.all(tag) if "aria-invalid" in one]
    assert wrong == ["state", "kind", "attempt", "since"]
    assert page.all("input", name="job", value="ops:a")
    assert page.all("input", name="attempt", value="x")
    assert "There is no 'odd' here. There are: " in page.text
    assert "running, completed" in page.text


@pytest.mark.parametrize(("word", "letters"), [("running", "f"), ("Running", "f"), ("success", "a"), ("waiting", "e")])
def test_a_state_is_known_by_the_words_of_the_page_too(viewer, named, word, letters):
    assert "".join(named[run_id] for run_id in shown(viewer, f"/runs?state={word}")) == letters


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("before=x", "before"),
        ("before=2026-03-02T10:00:00Z,0195f9a0-0000-7000-8000-000000000000&head=x", "head"),
    ],
)
def test_a_place_that_there_is_not_names_its_field(viewer, query, field):
    answer = viewer.get(f"/runs?{query}")
    assert answer.status_code == 400
    assert field in Page(answer).text


@pytest.mark.parametrize("name", ["job", "runner", "error", "tag", "tenant"])
def test_odd_bytes_match_nothing_and_break_nothing(viewer, named, name):
    for text in ("%00", "%ff", "%ED%A0%80", "%5B", "%28", "%25", "x" * 5000):
        assert shown(viewer, f"/runs?{name}={text}") == []


def test_the_last_hour_moves_in_a_tab_left_open(viewer, clock, named):
    [part] = Page(viewer.get("/runs?last=1h")).all("div", id="runs")
    clock.tick(31 * MINUTE)
    answer = viewer.get(part["hx-get"], headers=HTMX)
    assert answer.status_code == 200
    assert "".join(named[run_id] for run_id in shown(viewer, "/runs?last=1h")) == "fe"


# How far back


def test_a_filter_without_an_index_looks_back_in_steps_and_loses_nothing(viewer, now, monkeypatch):
    monkeypatch.setattr(run_reach, "LOOKED_AT", 5)
    monkeypatch.setattr(runs, "LOOKED_AT", 5)
    job = JobFactory()
    wanted = []
    for minute in range(1, 24):
        # Several of one instant, also where a look ends.
        run = ended(job, now - minute // 3 * MINUTE, kind="triggered", runner_id="rare" if minute % 7 == 0 else "usual")
        if minute % 7 == 0:
            wanted.append(str(run.pk))
    seen, path, looks = [], "/runs?runner=rare", 0
    while path:
        page = Page(viewer.get(path))
        seen += shown(viewer, path)
        path, looks = next(iter(values["href"] for values in page.all("a", rel="next")), ""), looks + 1
        assert ("among the newest runs, 5 at a time" in page.text) == bool(path)
    assert seen == wanted
    assert looks >= 3


@pytest.mark.parametrize(
    ("filters", "is_bounded"),
    [
        ({}, False),
        ({"state": "dead"}, False),
        ({"state": "queued", "runner_id": "r"}, False),
        ({"since": 30}, False),
        ({"runner_id": "r"}, True),
        ({"kind": "replay"}, True),
        ({"least_attempt": 2}, True),
        ({"error_text": "x"}, True),
        ({"state": "completed"}, True),
        ({"state": "dead", "kind": "replay"}, True),
        ({"runner_id": "r", "since": 3}, False),
    ],
)
def test_what_an_index_answers_is_looked_for_to_the_end(now, monkeypatch, filters, is_bounded):
    monkeypatch.setattr(run_reach, "LOOKED_AT", 10)
    monkeypatch.setattr(run_reach, "ERRORS_LOOKED_AT", 10)
    job = JobFactory()
    for minute in range(1, 21):
        ended(job, now - minute * MINUTE, "dead", kind="triggered")
    if "since" in filters:
        filters = {**filters, "since": now - filters["since"] * MINUTE}
    reached = reach(RunFilter(**filters), now, 5)
    assert reached == (now - 11 * MINUTE if is_bounded else None)
    assert reach(RunFilter(job_ids=(job.pk,)), now, 5) is None
    assert reach(RunFilter(job_ids=(job.pk,), state="dead"), now, 5) is None


def test_a_page_of_several_jobs_is_full_where_it_ends(now, monkeypatch):
    monkeypatch.setattr(run_reach, "LOOKED_AT", 12)
    often, rare = JobFactory(tags=["eu"]), JobFactory(tags=["eu"])
    for minute in range(1, 40):
        ended(often, now - minute * MINUTE)
        ended(JobFactory(tags=[]), now - minute * MINUTE)
    old = ended(rare, now - 100 * HOUR)
    filters = RunFilter(job_ids=jobs_of(tag="eu"))
    reached = reach(filters, now, 9)
    assert reached == now - 10 * MINUTE
    assert len(run_list(now, run_reach.within(filters, reached), 9)) == 9
    before = (now - 39 * MINUTE, old.pk)
    assert reach(filters, now, 9, before) is None
    assert [run.id for run in run_list(now, filters, 9, before)][-1] == old.pk


def test_of_two_indexes_the_one_that_leads_farther_is_taken(now, monkeypatch):
    monkeypatch.setattr(run_reach, "LOOKED_AT", 4)
    jobs = [JobFactory(), JobFactory()]
    for job in jobs:
        for minute in range(1, 8):
            ended(job, now - minute * MINUTE)
    for hour in range(1, 7):
        ended(jobs[0], now - hour * HOUR, "dead")
    filters = RunFilter(job_ids=tuple(job.pk for job in jobs), state="dead")
    assert reach(filters, now, 2) == now - 5 * HOUR  # by its jobs alone it were minutes


def test_errors_are_read_through_by_their_own_number(now, monkeypatch):
    monkeypatch.setattr(run_reach, "ERRORS_LOOKED_AT", 3)
    job = JobFactory()
    for minute in range(1, 30):
        ended(job, now - minute * MINUTE)
    for hour in range(1, 6):
        ended(job, now - hour * HOUR, "dead", error="boom")
    assert reach(RunFilter(error_text="boom"), now, 5) == now - 4 * HOUR
    assert reach(RunFilter(error_text="boom", state="failed"), now, 5) is None


# An older page


def test_an_older_page_says_how_many_have_come_since_and_asks_again(viewer, now, monkeypatch):
    monkeypatch.setattr(runs, "PAGE_ROWS", 2)
    job = JobFactory(job_key="ops:a")
    for minute in range(1, 6):
        ended(job, now - minute * MINUTE, kind="triggered")
    [older] = Page(viewer.get("/runs?job=ops:a")).all("a", rel="next")
    page = Page(viewer.get(older["href"]))
    assert "No newer runs. These rows stand still." in page.text
    [line] = page.all("p", id="newer")
    assert viewer.get(line["hx-get"], headers=HTMX).status_code == 204
    for _ in range(3):
        ended(job, now, kind="triggered")
    ended(JobFactory(), now)  # of another job: no news here
    answer = viewer.get(line["hx-get"], headers=HTMX)
    assert "3 newer runs." in Page(answer).text
    assert not Page(answer).all("table")
    [again] = Page(answer).all("p", id="newer")
    assert viewer.get(again["hx-get"], headers=HTMX).status_code == 204
    [yet_older] = Page(viewer.get(older["href"])).all("a", rel="next")
    assert "3 newer runs." in Page(viewer.get(yet_older["href"])).text
    monkeypatch.setattr(run_reach, "MOST_COUNTED", 2)
    monkeypatch.setattr(runs, "MOST_COUNTED", 2)
    assert "2 newer runs or more." in Page(viewer.get(older["href"])).text


# By which way they are found


def test_the_usual_filters_read_the_runs_by_an_index(now, database):
    if database != "postgresql":
        pytest.skip("the plan is PostgreSQL's; SQLite's look at the same indexes is in test_run_list_plan")
    jobs = [JobFactory(tags=["eu"]) for _ in range(3)]
    history = [
        RunFactory.build(job=jobs[minute % 3], kind="triggered", completed=True, scheduled_for=now - minute * MINUTE)
        for minute in range(1, 601)
    ]
    Run.objects.bulk_create(history)
    QueueEntry.objects.bulk_create([QueueEntryFactory.build(run=history[0], job=jobs[0])])
    ids = jobs_of(tag="eu")
    before = (history[300].scheduled_for, history[300].pk)
    looks = {
        "all": RunFilter(),
        "job": RunFilter(job_ids=ids[:1]),
        "jobs": RunFilter(job_ids=ids),
        "dead": RunFilter(state="dead"),
        "completed": RunFilter(state="completed"),
        "queued": RunFilter(state="queued"),
        "error": RunFilter(error_text="x"),
        "runner": RunFilter(runner_id="r"),
        "window": RunFilter(since=now - HOUR, until=now),
    }

    def plans_of(name, look, *settings) -> list[str]:
        found: list[str] = []

        def explain(execute, sql, params, many, context):
            if sql.startswith("SELECT") and '"scheduler_run"' in sql:
                with connection.cursor() as cursor:
                    cursor.execute(f"EXPLAIN {sql}", params)
                    found.append("\n".join(row[0] for row in cursor.fetchall()))
            return execute(sql, params, many, context)

        with connection.cursor() as cursor:
            for setting in ("enable_seqscan", "enable_sort"):
                cursor.execute(f"SET LOCAL {setting} = {'off' if setting in settings else 'on'}")
        with connection.execute_wrapper(explain):
            look(looks[name])
        assert found, name
        return found

    def page(filters) -> None:
        run_list(now, run_reach.within(filters, reach(filters, now, 50, before)), 51, before)

    def newer(filters) -> None:
        run_reach.newer_runs(filters, now, before, 50)

    with connection.cursor() as cursor:
        cursor.execute("ANALYZE scheduler_run")
    # A few hundred rows are read fastest as a whole: an index that is there is seen where that, or to sort, is dear.
    plans = {name: plans_of(name, page, "enable_seqscan") for name in looks}
    plans |= {f"newer than {name}": plans_of(name, newer, "enable_sort") for name in ("all", "job", "dead", "window")}
    assert [name for name, found in plans.items() if "Seq Scan on scheduler_run" in "".join(found)] == []
    # The last statement of a look reads the rows.
    assert [name for name, found in plans.items() if "_problem" in found[-1]] == ["dead", "error", "newer than dead"]
