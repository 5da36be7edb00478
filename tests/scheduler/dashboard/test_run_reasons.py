"""Lists of runs say why each of them waits, and what was done once more."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from runners.services.audit import SYSTEM
from scheduler.models import Job, QueueEntry, Run
from scheduler.queries import bulk
from scheduler.queries.runs import runs_of_ids
from scheduler.queries.waits import notes_of
from scheduler.services.claim import claim_due
from scheduler.services.replays import replay_run
from tests.factories import (
    NOW,
    ConcurrencyGroupFactory,
    JobFactory,
    LaneFactory,
    MaintenanceFactory,
    QueueEntryFactory,
    RunFactory,
    RunnerFactory,
    RunnerInstanceFactory,
    SlotFactory,
)
from tests.scheduler.dashboard.conftest import HTMX
from tests.scheduler.dashboard.markup import Page

pytestmark = pytest.mark.django_db
State = QueueEntry.State
JOB = "ops:waits"
SOON = NOW + timedelta(minutes=5)


def test_a_run_that_went_well_only_at_last_says_so(viewer):
    RunFactory(completed=True, attempt=4)
    RunFactory(completed=True, attempt=1)
    assert Page(viewer.get("/runs")).text.count("well at attempt 4") == 1
    assert "well at attempt 1" not in Page(viewer.get("/runs")).text


def in_group(**job) -> QueueEntry:
    group = ConcurrencyGroupFactory(name="database")
    SlotFactory(budget=f"group:{group.pk}")
    return waiting(state=State.GATED, job=JobFactory(job_key=JOB, concurrency_group=group, **job))


def alone() -> QueueEntry:
    job = JobFactory(job_key=JOB, max_concurrent=1)
    SlotFactory(run__job=job)
    return waiting(state=State.GATED, job=job)


def waiting(*, job=None, at: datetime = NOW, **entry) -> QueueEntry:
    entry = {"available_at": at, "run__scheduled_for": NOW - timedelta(minutes=1), **entry}
    return QueueEntryFactory(job=job or JobFactory(job_key=JOB), **entry)


def needs(*names: str) -> QueueEntry:
    return waiting(job=JobFactory(job_key=JOB, lane=LaneFactory(require=list(names))))


def free(**runner) -> None:
    RunnerFactory(last_poll_at=NOW, max_inflight=1, **runner)


def held() -> QueueEntry:
    return waiting(state=State.HELD, job=JobFactory(job_key=JOB, paused_at=NOW, paused_until=SOON))


def in_maintenance() -> QueueEntry:
    MaintenanceFactory(is_on=True, began_at=NOW, reason="the new disk")
    return waiting()


WHY = {
    "its job is paused": (free, held, "held by the pause , until 2026-03-02 12:05:00 UTC"),
    "a limit of the job": (free, alone, "the job runs as often at once as it may"),
    "a limit of its group": (free, in_group, "its group is full"),
    "all is held": (free, in_maintenance, "all dispatch is held"),
    "an attempt failed": (free, lambda: waiting(at=SOON, attempt=1), "retry 2026-03-02 12:05:00 UTC"),
    "nobody is there": (lambda: None, waiting, "no runner is online"),
    "nobody has it": (free, lambda: needs("tape", "gpu"), "no runner has tape, gpu"),
    "only a drained one has it": (
        lambda: [free(), free(capabilities=["tape"], drained_at=NOW)],
        lambda: needs("tape"),
        "only drained runners could take it",
    ),
    "no place is free": (
        lambda: RunnerFactory(last_poll_at=NOW, max_inflight=0),
        waiting,
        "its runners have no place free",
    ),
    "nothing": (lambda: [free(), MaintenanceFactory(reason="was yesterday")], waiting, "waits for its turn"),
}


@pytest.mark.parametrize(("runners", "entry", "said"), WHY.values(), ids=WHY)
def test_a_run_that_waits_says_why_in_the_list_and_on_the_page_of_its_job(viewer, runners, entry, said):
    runners()
    entry()
    for path in ("/runs", "/runs?state=queued", f"/jobs/{JOB}"):
        text = Page(viewer.get(path)).text
        assert said in text[text.index("What happened") :], path


def test_a_limit_of_the_tenant(viewer, settings):
    settings.CRONIQ_TENANT_MAX_CONCURRENT = 1
    SlotFactory(budget="tenant:default")
    waiting(state=State.GATED)
    assert "its tenant is full" in Page(viewer.get("/runs")).text
    settings.CRONIQ_TENANT_MAX_CONCURRENT = 2
    assert "its tenant is full" not in Page(viewer.get("/runs")).text


def test_the_list_follows_what_keeps_a_run_from_starting(viewer):
    entry = waiting()
    page = Page(viewer.get("/runs"))
    (live,) = [values["hx-get"] for _, values in page.elements if values.get("id") == "runs"]
    assert viewer.get(live, headers=HTMX).status_code == 204
    free()
    assert "waits for its turn" in Page(viewer.get(live, headers=HTMX)).text
    assert entry.run.pk


def test_a_run_that_is_claimed_while_the_list_is_made_waits_for_nothing(now):
    entry = waiting()
    rows = runs_of_ids([entry.pk], now)
    assert len(claim_due(now, 1, RunnerInstanceFactory().pk, [entry.lane_id])) == 1
    note = notes_of(rows, now)[entry.pk]
    assert (rows[0].state, note.is_waiting, note.why) == ("queued", False, None)


def test_the_queries_do_not_grow_with_what_waits(viewer):
    counts = []
    for number in range(3):
        for _ in range(1 + 9 * number):
            group = ConcurrencyGroupFactory()
            waiting(state=State.GATED, job=JobFactory(concurrency_group=group), run__scheduled_for=NOW)
            RunFactory(dead=True, scheduled_for=NOW)
        with CaptureQueriesContext(connection) as asked:
            assert viewer.get("/runs").status_code == 200
        counts.append(len(asked))
    assert len(set(counts)) == 1
    assert counts[0] <= 11


def test_what_was_done_once_more_is_marked_and_leads_to_the_run_that_did_it(viewer, now):
    dead = RunFactory(dead=True, job__job_key=JOB, scheduled_for=now - timedelta(minutes=1), error="exit code 7")
    other = RunFactory(dead=True, job=dead.job, scheduled_for=now - timedelta(minutes=2))
    again = replay_run(dead.pk, now, SYSTEM)
    for path in ("/runs", f"/jobs/{JOB}"):
        page = Page(viewer.get(path))
        assert page.text.count("was done once more") == 1, path
        assert page.all("a", class_="chip", href=f"/runs/{again}")
        assert "was done once more exit code 7" in page.text
    assert Run.objects.get(pk=again).replay_of_id == dead.pk != other.pk


@pytest.fixture
def planned(now):
    """Three runs that are planned: one that nothing holds but its time, one of a paused job, one that nobody takes."""
    free()
    found = {"well": JobFactory(job_key="ops:well"), "paused": JobFactory(job_key="ops:paused", paused_at=now)}
    found["lacks"] = JobFactory(job_key="ops:lacks", lane=LaneFactory(require=["tape"]))
    states = {"paused": State.HELD}
    return {
        name: waiting(job=job, state=states.get(name, State.READY), at=SOON, run__scheduled_for=SOON).run
        for name, job in found.items()
    }


def test_what_is_planned_says_what_holds_it_besides_its_time(viewer, planned):
    page = Page(viewer.get("/runs/planned"))
    for name, said in (
        ("well", "nothing but its time"),
        ("paused", "held by the pause"),
        ("lacks", "no runner has tape"),
    ):
        assert f"ops:{name} {planned[name].pk} {said}" in page.text
    assert not page.all("input", type="checkbox"), "who may not act has nothing to tick"


def test_planned_runs_are_ticked_and_cancelled_and_one_comes_back_to_them(operator, planned):
    page = Page(operator.get("/runs/planned?job=ops:well"))
    assert [box["value"] for box in page.all("input", type="checkbox", form="bulk")] == [str(planned["well"].pk)]
    assert "All matches" not in page.text
    assert "“Run now” on the page of its job makes another one" in page.text
    (way,) = [form["action"] for form in page.all("form", id="bulk")]
    asked = {
        values["name"]: values["value"]
        for values in page.all("input", type="hidden")
        if values["name"] != "csrfmiddlewaretoken"
    }
    answer = operator.get(way, {**asked, "do": "cancel"}, follow=True)
    assert answer.redirect_chain[0][0] == "/runs/planned?list=planned&job=ops%3Awell#bulk"
    assert "Tick some first" in Page(answer).text
    answer = operator.get(way, {**asked, "do": "cancel", "id": str(planned["well"].pk)})
    form = {values["name"]: values["value"] for values in Page(answer).all("input", type="hidden")}
    answer = operator.post("/runs/bulk/do", form, follow=True)
    assert answer.redirect_chain[0][0] == "/runs/planned?list=planned&job=ops%3Awell"
    assert "1 run cancelled." in Page(answer).text
    assert list(Run.objects.filter(verdict="cancelled")) == [planned["well"]]
    assert operator.get(way, {**asked, "do": "rerun", "id": str(planned["well"].pk)}).status_code == 400


def confirm(client, query: str) -> str:
    return Page(client.get(f"/runs/bulk?{query}")).text


@pytest.mark.parametrize("query", ["state=dead", "", "error=code", "last=24h"])
def test_all_that_match_says_what_it_leaves_out_and_why(operator, now, monkeypatch, query):
    runs = [
        RunFactory(dead=True, scheduled_for=now - timedelta(minutes=number), error="exit code 7") for number in range(6)
    ]
    for run in runs[:2]:
        replay_run(run.pk, now, SYSTEM)
    for run in (runs[1], runs[2]):
        Job.objects.filter(pk=run.job_id).update(deleted_at=now)
    text = confirm(operator, f"do=rerun&all=1&{query}")
    assert "Run 3 runs once more?" in text
    assert "2 that match were done once more before" in text
    assert "1 that matches is of a deleted job" in text
    assert ("Of all that match those are meant that failed, died or were cancelled." in text) == ("state" not in query)
    assert "was counted among" not in text
    monkeypatch.setattr(bulk, "LOOKED_AT", 2)
    with CaptureQueriesContext(connection) as asked:
        text = confirm(operator, f"do=rerun&all=1&{query}")
    assert any(one["sql"].endswith("LIMIT 3") for one in asked)  # one more than are told of says that there are more
    assert "is of a deleted job" not in text
    assert "What is left out was counted among the 2 newest that match." in text


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("do=rerun&state=skipped", "What was skipped has not run: “Backfill” on the page of its job makes up for it."),
        ("do=rerun&state=queued", "what has not come to an end cannot be done once more"),
        ("do=rerun&state=held", "what has not come to an end cannot be done once more"),
        ("do=cancel&state=dead", "they cannot be cancelled"),
        ("do=cancel", "what is planned has a list of its own"),
    ],
)
def test_what_cannot_be_done_to_any_run_of_a_state_says_why(operator, query, said):
    text = confirm(operator, f"{query}&all=1")
    assert said in text
    assert "There is nothing to do." in text


def test_what_a_pause_holds_is_cancelled_apart(operator, now):
    for state in (State.READY, State.GATED, State.HELD, State.HELD):
        waiting(state=state, job=JobFactory())
    assert "Cancel 2 runs?" in confirm(operator, "do=cancel&all=1&state=held")
    assert "Cancel 2 runs?" in confirm(operator, "do=cancel&all=1&state=waiting")
    assert "Cancel 4 runs?" in confirm(operator, "do=cancel&all=1&state=queued")
