"""What is done to many runs: those that were shown, and of them those to which it can be done still."""

from __future__ import annotations

import re
from datetime import timedelta
from urllib.parse import urlencode

import pytest

from runners.models import AuditEvent
from scheduler.dashboard import bulk
from scheduler.models import Job, QueueEntry, Run
from scheduler.queries import run_reach
from tests.factories import JobFactory, QueueEntryFactory, RunFactory
from tests.scheduler.dashboard.markup import Page

NOBODY = "0195f9a0-0000-7000-8000-000000000000"
pytestmark = pytest.mark.django_db
MINUTE = timedelta(minutes=1)
PLACE = "2026-03-02T12:00:00.000000Z,0195f9a0-0000-7000-8000-000000000000"


def confirm(client, query: str) -> Page:
    answer = client.get(f"/runs/bulk?{query}")
    assert answer.status_code == 200
    return Page(answer)


def send(client, page: Page, **more):
    """Press the button of the page that says what would be done."""
    fields = {values["name"]: values["value"] for values in page.all("input", type="hidden") if values["name"]}
    return client.post("/runs/bulk/do", {**fields, **more}, follow=True)


def ids_in(page: Page) -> list[str]:
    [field] = page.all("input", name="ids")
    return [text for text in field["value"].split(",") if text]


@pytest.fixture
def dead(now) -> list[Run]:
    job = JobFactory(job_key="ops:a")
    return [RunFactory(job=job, dead=True, kind="triggered", scheduled_for=now - n * MINUTE) for n in range(1, 4)]


def test_all_that_match_are_cancelled_with_a_reason_and_the_others_stay(operator, now):
    job, other = JobFactory(job_key="ops:a"), JobFactory(job_key="ops:b")
    waiting = [QueueEntryFactory(job=job, run__kind="triggered").run_id for _ in range(2)]
    running = QueueEntryFactory(job=job, claimed=True).run_id
    left = QueueEntryFactory(job=other).run_id
    page = confirm(operator, "do=cancel&all=1&job=ops:a&state=queued")
    assert "Cancel 2 runs?" in page.text
    assert sorted(ids_in(page)) == sorted(map(str, waiting))
    assert not Run.objects.filter(verdict="cancelled").exists()
    answer = send(operator, page, reason="wrong data")
    assert answer.redirect_chain == [("/runs?job=ops%3Aa&state=queued", 302)]
    assert "2 runs cancelled." in Page(answer).text
    assert set(Run.objects.filter(verdict="cancelled").values_list("pk", "reason")) == {
        (run_id, "wrong data") for run_id in waiting
    }
    assert set(QueueEntry.objects.values_list("pk", flat=True)) == {running, left}
    assert set(AuditEvent.objects.values_list("action", "actor_id")) == {("run.cancelled", "otto")}


def test_what_came_was_claimed_or_ended_since_the_look_is_left_alone(operator, now):
    job = JobFactory()
    one, two, three = (QueueEntryFactory(job=job, run__kind="triggered") for _ in range(3))
    page = confirm(operator, "do=cancel&all=1&state=queued")
    came = QueueEntryFactory(job=job, run__kind="triggered").run_id
    claimed = QueueEntryFactory.build(claimed=True, holder=QueueEntryFactory(claimed=True).holder)
    QueueEntry.objects.filter(pk=one.pk).update(
        state=3, attempt=1, holder=claimed.holder, claimed_at=now, lease_expires_at=now, deadline_at=now
    )
    two.delete()
    Run.objects.filter(pk=two.pk).update(verdict="completed", finished_at=now)
    text = Page(send(operator, page)).text
    assert "1 run cancelled." in text
    assert "2 had ended meanwhile." in text
    assert list(Run.objects.filter(verdict="cancelled").values_list("pk", flat=True)) == [three.pk]
    assert QueueEntry.objects.filter(pk__in=[one.pk, came]).count() == 2


def test_of_ticked_ones_the_page_says_which_cannot(operator, dead):
    running = QueueEntryFactory(claimed=True).run_id
    ticked = "&".join(f"id={run_id}" for run_id in (dead[0].pk, dead[2].pk, running))
    page = confirm(operator, f"do=rerun&{ticked}&state=dead")
    assert "Run 2 runs once more?" in page.text
    assert "1 that you ticked has not run to an end" in page.text
    assert set(ids_in(page)) == {str(dead[0].pk), str(dead[2].pk)}
    page = confirm(operator, f"do=rerun&{ticked}&{ticked}")
    assert "1 that you ticked has not run to an end" in page.text  # however often its id is said
    page = confirm(operator, f"do=cancel&{ticked}")
    assert ids_in(page) == [str(running)]
    assert "2 that you ticked have ended" in page.text


def test_runs_are_done_once_more_for_the_same_instant_and_only_once(operator, dead):
    page = confirm(operator, "do=rerun&all=1&state=dead")
    assert "3 runs are made once more." in Page(send(operator, page)).text
    again = Run.objects.filter(kind="replay")
    assert set(again.values_list("replay_of", "scheduled_for")) == {(run.pk, run.scheduled_for) for run in dead}
    assert "3 were done once more before." in Page(send(operator, page)).text
    assert again.count() == 3
    assert "There is nothing to do." in confirm(operator, "do=rerun&all=1&state=dead").text


def test_who_stands_in_the_form_twice_is_one(operator, dead):
    page = confirm(operator, "do=rerun&all=1")
    ids = ids_in(page)
    assert "3 runs are made once more." in Page(send(operator, page, ids=",".join([*ids, *ids]))).text


def test_of_many_refusals_some_are_told_and_the_others_counted(operator, dead, monkeypatch):
    monkeypatch.setattr(bulk, "REFUSALS_TOLD", 1)
    page = confirm(operator, "do=rerun&all=1")
    Job.objects.update(deleted_at=Job.objects.first().created_at)
    text = Page(send(operator, page)).text
    assert text.count("The job was deleted") == 1
    assert "2 more were refused." in text


def test_a_refusal_is_told_and_the_others_are_done(operator, dead, now):
    page = confirm(operator, "do=rerun&all=1")
    other = RunFactory(dead=True)
    Job.objects.filter(pk=other.job_id).update(deleted_at=now)
    answer = send(operator, page, ids=",".join([str(other.pk), *ids_in(page)]), expected="4")
    assert "3 runs are made once more." in Page(answer).text
    assert f"{other.pk}: The job was deleted" in Page(answer).text


def test_more_than_a_hundred_are_typed(operator, dead, monkeypatch):
    monkeypatch.setattr(bulk, "TYPED_ABOVE", 2)
    page = confirm(operator, "do=rerun&all=1")
    assert "Type 3 to say that you mean all of them" in page.text
    for typed in ({}, {"typed": "2"}):
        answer = send(operator, page, **typed)
        assert answer.status_code == 400
        assert "typed" in Page(answer).text
    assert Run.objects.count() == 3
    assert "3 runs are made once more." in Page(send(operator, page, typed=" 3 ")).text


def test_all_that_match_are_those_that_one_look_finds(operator, dead, now, monkeypatch):
    monkeypatch.setattr(run_reach, "LOOKED_AT", 1)
    Run.objects.filter(pk=dead[1].pk).update(runner_id="usual")
    page = confirm(operator, "do=rerun&all=1&runner=runner")
    assert ids_in(page) == [str(dead[0].pk)]
    assert "back to 2026-03-02 11:58:00 UTC" in page.text
    # A problem has an index of its own: all are meant.
    assert len(ids_in(confirm(operator, "do=rerun&all=1&state=dead"))) == 3


@pytest.mark.parametrize("state", ["queued", "claimed", "skipped"])
def test_what_cannot_be_done_once_more_is_not(operator, now, state):
    QueueEntryFactory()
    QueueEntryFactory(claimed=True)
    RunFactory(verdict="skipped", problem="skipped", finished_at=now)
    assert "There is nothing to do." in confirm(operator, f"do=rerun&all=1&state={state}").text
    assert "There is nothing to do." in confirm(operator, "do=cancel&all=1&state=dead").text


@pytest.mark.parametrize(
    ("form", "field"),
    [
        ({"do": "fly"}, "do"),
        ({"do": "cancel"}, "ids"),
        ({"do": "cancel", "all": "1"}, "ids"),
        ({"do": "cancel", "ids": "x"}, "ids"),
        ({"do": "cancel", "ids": NOBODY, "expected": "many"}, "expected"),
        ({"do": "cancel", "ids": NOBODY, "expected": "²"}, "expected"),
        pytest.param(
            {"do": "cancel", "ids": NOBODY, "expected": "9" * 5000},
            "expected",
            id="5000 digits",
        ),
        ({"do": "cancel", "ids": ",".join([NOBODY] * 2001)}, "ids"),
        ({"do": "cancel", "ids": NOBODY, "reason": "x" * 256}, "reason"),
        ({"do": "cancel", "ids": NOBODY, "reason": "\x00"}, "reason"),
        ({"do": "cancel", "ids": NOBODY, "kind": "odd"}, "kind"),
    ],
)
def test_nonsense_is_refused_by_its_field_and_nothing_is_done(operator, dead, form, field):
    answer = operator.post("/runs/bulk/do", {"expected": "1", **form})
    assert answer.status_code == 400
    assert field in Page(answer).text.replace("Reason", "reason")
    assert not AuditEvent.objects.exists()


@pytest.mark.parametrize(
    ("path", "shown", "place"),
    [
        ("/runs/bulk", "/runs", {"job": "ops:a", "state": "dead", "head": PLACE, "before": PLACE}),
        ("/jobs/bulk", "/jobs", {"q": "ops", "status": "active", "after": "ops:"}),
    ],
)
def test_who_ticks_nothing_stays_where_he_was_and_is_told_beside_the_button(operator, dead, path, shown, place):
    do = {"/runs/bulk": "cancel", "/jobs/bulk": "pause"}[path]
    answer = operator.get(path, {"do": do, **place}, follow=True)
    assert answer.redirect_chain == [(f"{shown}?{urlencode(place)}#bulk", 302)]
    [form] = re.findall(r'<form class="bulk" id="bulk".*?</form>', answer.content.decode(), re.DOTALL)
    assert "Tick some first" in form
    assert answer.content.decode().count("Tick some first") == 1
    assert all(f'name="{name}" value="{value}"' in form for name, value in place.items())
    assert "Tick some first" not in operator.get(shown, place).content.decode()


def test_a_form_that_was_cut_on_its_way_does_nothing(operator, dead):
    page = confirm(operator, "do=rerun&all=1")
    answer = send(operator, page, ids=str(dead[0].pk))
    assert "1 match by now, not 3: nothing was done" in Page(answer).text
    assert Run.objects.count() == 3


@pytest.mark.parametrize(("query", "field"), [("do=cancel&id=x", "id"), ("do=fly&all=1", "do"), ("all=1", "do")])
def test_a_page_that_asks_for_nothing_says_so(operator, query, field):
    answer = operator.get(f"/runs/bulk?{query}")
    assert answer.status_code == 400
    assert field in Page(answer).text


def test_what_may_not_be_pressed_is_not_shown(viewer, operator, dead):
    assert not Page(viewer.get("/runs")).all("input", type="checkbox")
    page = Page(operator.get("/runs?state=dead"))
    assert len(page.all("input", type="checkbox", form="bulk")) == 3
    assert page.all("input", type="hidden", name="state", value="dead")
    page = confirm(viewer, "do=rerun&all=1")
    assert "You may look at this, not do it." in page.text
    assert not [values for values in page.all("form") if values["action"] == "/runs/bulk/do"]
    assert viewer.post("/runs/bulk/do", {"do": "rerun", "ids": str(dead[0].pk)}).status_code == 403
    assert Run.objects.count() == 3
