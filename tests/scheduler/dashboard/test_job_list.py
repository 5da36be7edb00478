"""The list of jobs: what it says of their last runs, what narrows it down, and what is done to many at once."""

from __future__ import annotations

from datetime import timedelta

import pytest

from runners.models import AuditEvent
from scheduler.dashboard import bulk, jobs
from scheduler.dashboard.sparks import HEIGHT, spark_of
from scheduler.models import Job, Run
from scheduler.queries.job_record import LAST, records
from tests.factories import JobFactory, QueueEntryFactory, RunFactory
from tests.scheduler.dashboard.markup import Page

pytestmark = pytest.mark.django_db
KEYS = ("ops:a", "ops:b", "ops:c")


def keys_on(client, path: str) -> list[str]:
    return [link.removeprefix("/jobs/") for link in Page(client.get(path)).links("/jobs/ops:")]


@pytest.fixture
def three() -> list[Job]:
    return [JobFactory(job_key=key) for key in KEYS]


def ended(job: Job, at, verdict: str = "completed", **fields) -> Run:
    problem = None if verdict == "completed" else verdict
    return RunFactory(job=job, scheduled_for=at, verdict=verdict, problem=problem, finished_at=at, **fields)


# What it says


def test_the_record_is_that_of_the_newest_ended_runs(now):
    job, other = JobFactory(), JobFactory()
    for minute in range(1, LAST + 5):
        ended(
            job, now - timedelta(minutes=minute), "dead" if minute in (3, LAST + 2) else "completed", duration_ms=minute
        )
    ended(other, now, "skipped")
    QueueEntryFactory(job=job, claimed=True, run__scheduled_for=now)
    ended(job, now + timedelta(minutes=1), "skipped")
    found = records([job.pk, other.pk, JobFactory().pk], now)
    assert [run.duration_ms for run in found[job.pk].runs] == list(range(LAST, 0, -1))
    assert found[job.pk].success_rate == (LAST - 1) / LAST
    assert found[job.pk].p95_ms == LAST
    assert found[job.pk].runs[-1].scheduled_for == now - timedelta(minutes=1)
    assert (found[other.pk].success_rate, found[other.pk].p95_ms) == (None, None)
    assert len(found) == 2


def test_equal_instants_keep_fractions_and_order(now):
    job = JobFactory()
    runs = [ended(job, now - timedelta(seconds=1, microseconds=500 * half)) for half in (2, 1, 0)]
    assert [run.id for run in records([job.pk], now)[job.pk].runs] == [run.id for run in runs]


def test_a_bar_tells_how_long_and_by_its_shape_what_became_of_a_run(now):
    job = JobFactory()
    for minute, (verdict, took) in enumerate(
        [("completed", 1000), ("dead", 500), ("cancelled", None), ("skipped", None)], start=1
    ):
        ended(job, now - timedelta(minutes=minute), verdict, duration_ms=took)
    spark = spark_of(records([job.pk], now)[job.pk])
    assert [bar.kind for bar in spark.bars] == ["gap", "hollow", "bad", "ran"]
    assert [float(bar.height) for bar in spark.bars] == [1.5, 3.0, 9.5, 19.0]
    assert all(float(bar.y) + float(bar.height) == HEIGHT for bar in spark.bars)
    assert spark.words == "The last 4 runs, oldest first: 1 cancelled, 1 completed, 1 dead, 1 skipped"
    assert spark.success == "50 %"


def test_one_failure_of_many_is_not_a_hundred_percent(now):
    job = JobFactory()
    for minute in range(1, LAST):
        ended(job, now - timedelta(minutes=minute), duration_ms=7)
    assert spark_of(records([job.pk], now)[job.pk]).success == "100 %"
    ended(job, now, "failed")
    assert spark_of(records([job.pk], now)[job.pk]).success == "95 %"


def test_each_job_shows_its_bars_and_who_manages_it(viewer, now):
    job = JobFactory(job_key="ops:a", managed_by="file")
    JobFactory(job_key="ops:b")
    ended(job, now - timedelta(minutes=1), duration_ms=1500)
    page = Page(viewer.get("/jobs"))
    [spark] = page.all("svg", class_="spark")
    assert spark["aria-label"] == "The last 1 runs, oldest first: 1 completed"
    for said in ("jobs file", "100 % well · p95 1.50 s"):
        assert said in page.text


# What narrows it down


@pytest.mark.parametrize(
    ("query", "left"),
    [
        ("", "abcde"),
        ("?tag=eu", "ab"),
        ("?status=active", "ade"),
        ("?status=paused", "b"),
        ("?status=inactive", "c"),
        ("?source=file", "d"),
        ("?source=api&tag=eu&status=active", "a"),
        ("?q=OPS:a&tag=eu", "a"),
        ("?tag=e", ""),
    ],
)
def test_filters_stand_in_the_address(viewer, now, query, left):
    JobFactory(job_key="ops:a", tags=["eu", "night"])
    JobFactory(job_key="ops:b", tags=["eu"], paused_at=now)
    JobFactory(job_key="ops:c", is_active=False)
    JobFactory(job_key="ops:d", managed_by="file")
    JobFactory(job_key="ops:e", tags=["europe"])
    assert keys_on(viewer, f"/jobs{query}") == [f"ops:{name}" for name in left]


def test_tags_have_their_numbers_and_choosing_one_keeps_the_rest_of_the_address(viewer):
    JobFactory(job_key="ops:a", tags=["eu", "night"])
    JobFactory(job_key="ops:b", tags=["eu"])
    page = Page(viewer.get("/jobs?q=ops&tag=night"))
    assert "eu 2 night 1" in page.text
    chips = [values["href"] for values in page.all("a", class_="chip")]
    assert chips == ["/jobs?q=ops&tag=eu", "/jobs?q=ops"]


@pytest.mark.parametrize("query", ["status=dead", "source=nobody", "status=%00"])
def test_a_filter_that_there_is_not_is_refused(viewer, query):
    assert viewer.get(f"/jobs?{query}").status_code == 400


def test_the_next_page_keeps_the_filters(viewer, three, monkeypatch):
    monkeypatch.setattr(jobs, "PAGE_ROWS", 2)
    Job.objects.update(tags=["eu"])
    [more] = [link for link in Page(viewer.get("/jobs?tag=eu&status=active")).links("/jobs?") if "after=" in link]
    assert "tag=eu" in more
    assert "status=active" in more
    assert keys_on(viewer, more) == ["ops:c"]


# What is done to many


def post(client, what: str, expected: int, ticked=None, **more):
    which = {"all": "1"} if ticked is None else {"ids": ",".join(str(job.pk) for job in ticked)}
    return client.post("/jobs/bulk/do", {"do": what, "expected": str(expected), **which, **more}, follow=True)


def test_the_page_says_how_many_it_would_be_before_anything_is_done(operator, three, now):
    Job.objects.filter(job_key="ops:b").update(paused_at=now)
    page = Page(operator.get("/jobs/bulk?do=pause&all=1&q=ops"))
    assert "Pause: 2 jobs?" in page.text
    assert "1 more that you chose is paused already" in page.text
    assert [values["value"] for values in page.all("input", name="expected")] == ["2"]
    assert page.all("input", name="q")[0]["value"] == "ops"
    assert Job.objects.filter(paused_at__isnull=False).count() == 1


def test_pausing_the_ticked_ones_with_a_reason_leaves_the_others(operator, three, now):
    answer = post(operator, "pause", 2, three[:2], reason="the move", until="2026-03-03T08:00")
    assert "2 jobs paused." in Page(answer).text
    assert answer.redirect_chain == [("/jobs", 302)]
    found = list(Job.objects.order_by("job_key").values_list("paused_reason", "paused_until"))
    assert found == [("the move", now.replace(day=3, hour=8)), ("the move", now.replace(day=3, hour=8)), ("", None)]
    assert AuditEvent.objects.filter(action="job.paused", actor_id="otto").count() == 2
    assert "1 job resumed." in Page(post(operator, "resume", 1, three[1:])).text


def test_all_that_match_are_those_of_the_filters_alone(operator, three):
    JobFactory(job_key="billing:x")
    assert "3 jobs paused." in Page(post(operator, "pause", 3, q="ops")).text
    assert list(Job.objects.filter(paused_at=None).values_list("job_key", flat=True)) == ["billing:x"]


def test_where_others_match_than_were_shown_nothing_is_done(operator, three):
    answer = post(operator, "delete", 2)
    assert "3 match by now, not 2: nothing was done" in Page(answer).text
    assert Job.objects.filter(deleted_at=None).count() == 3


def test_what_came_to_match_since_it_was_shown_takes_nobodys_place(operator, three):
    """As many match as were shown, and another one is among them."""
    Job.objects.filter(job_key__in=["ops:a", "ops:b"]).update(tags=["old"])
    page = Page(operator.get("/jobs/bulk?do=delete&all=1&tag=old"))
    form = {values["name"]: values["value"] for values in page.all("input", type="hidden")}
    Job.objects.filter(job_key="ops:b").update(tags=[])
    Job.objects.filter(job_key="ops:c").update(tags=["old"])
    assert "1 match by now, not 2: nothing was done" in Page(operator.post("/jobs/bulk/do", form, follow=True)).text
    Job.objects.filter(job_key="ops:b").update(tags=["old"])
    assert "2 jobs deleted." in Page(operator.post("/jobs/bulk/do", form, follow=True)).text
    assert Job.objects.get(deleted_at=None).job_key == "ops:c"


def test_more_than_a_hundred_are_typed(operator, three, monkeypatch):
    monkeypatch.setattr(bulk, "TYPED_ABOVE", 2)
    assert Page(operator.get("/jobs/bulk?do=delete&all=1")).all("input", id="typed")
    assert post(operator, "delete", 3).status_code == 400
    assert post(operator, "delete", 3, typed="2").status_code == 400
    assert Job.objects.filter(deleted_at=None).count() == 3
    assert "3 jobs deleted." in Page(post(operator, "delete", 3, typed=" 3 ")).text
    assert not Job.objects.filter(deleted_at=None).exists()


def test_run_now_makes_one_run_each_however_often_the_form_is_sent(operator, three):
    page = Page(operator.get(f"/jobs/bulk?do=run&id={three[0].pk}&id={three[1].pk}"))
    form = {values["name"]: values["value"] for values in page.all("input", type="hidden")}
    for _ in range(2):
        assert "2 jobs started." in Page(operator.post("/jobs/bulk/do", form, follow=True)).text
    assert sorted(Run.objects.values_list("job__job_key", flat=True)) == ["ops:a", "ops:b"]
    assert "1 job started." in Page(post(operator, "run", 1, three[:1], token="x" * 300)).text


def test_tags_are_given_and_taken_and_the_others_stay(operator, three):
    Job.objects.filter(job_key="ops:a").update(tags=["old", "kept"])
    assert "1 job tagged." in Page(post(operator, "tag", 1, three[:1], add="eu, night", remove="old")).text
    assert Job.objects.get(job_key="ops:a").tags == ["eu", "kept", "night"]
    for wrong in ({}, {"add": "eu", "remove": "eu"}):
        assert post(operator, "tag", 1, three[:1], **wrong).status_code == 400


def test_what_the_jobs_file_manages_stays_and_says_so(operator, three):
    Job.objects.filter(job_key="ops:a").update(managed_by="file")
    text = Page(post(operator, "delete", 3)).text
    assert "2 jobs deleted." in text
    assert "ops:a: " in text
    assert list(Job.objects.filter(deleted_at=None).values_list("job_key", flat=True)) == ["ops:a"]


@pytest.mark.parametrize(
    "form",
    [
        {"do": "fly", "all": "1", "expected": "3"},
        {"do": "pause", "expected": "3"},
        {"do": "pause", "ids": "x", "expected": "1"},
        {"do": "pause", "ids": "9" * 30, "expected": "1"},
        {"do": "pause", "all": "1", "expected": "-1"},
        {"do": "pause", "all": "1", "expected": "3", "until": "yesterday"},
        {"do": "pause", "all": "1", "expected": "3", "until": "2026-03-01T00:00"},
        {"do": "pause", "all": "1", "expected": "3", "reason": "x" * 256},
        {"do": "tag", "all": "1", "expected": "3", "add": "\x00"},
        {"do": "pause", "all": "1", "expected": "3", "status": "gone"},
    ],
)
def test_nonsense_is_refused_and_nothing_is_done(operator, three, form):
    before = list(Job.objects.values())
    assert operator.post("/jobs/bulk/do", form).status_code == 400
    assert list(Job.objects.values()) == before


def test_what_may_not_be_pressed_is_not_shown(viewer, operator, three):
    assert not Page(viewer.get("/jobs")).all("input", type="checkbox")
    assert len(Page(operator.get("/jobs")).all("input", type="checkbox", form="bulk")) == 3
    page = Page(viewer.get("/jobs/bulk?do=pause&all=1"))
    assert "You may look at this, not do it." in page.text
    assert not [values for values in page.all("form") if values["action"] == "/jobs/bulk/do"]
