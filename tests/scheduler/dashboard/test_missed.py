"""What did not fire, why, and what becomes of it."""

from __future__ import annotations

from datetime import timedelta

import pytest

from runners.models import AuditEvent
from scheduler.models import Job, QueueEntry, Run
from scheduler.services.missed_work import dismiss_missed
from tests.factories import (
    CalendarFactory,
    CalendarRuleFactory,
    JobFactory,
    RunFactory,
    SkippedSpanFactory,
    TriggerFactory,
)
from tests.scheduler.dashboard.markup import Page
from tests.scheduler.planning.support import ACTOR

pytestmark = pytest.mark.django_db

MINUTE, HOUR, DAY = timedelta(minutes=1), timedelta(hours=1), timedelta(days=1)


@pytest.fixture
def backup(now):
    """Every hour, for the last two days."""
    trigger = TriggerFactory(job__job_key="ops:backup", every=HOUR, anchor_at=now - 2 * DAY, created_at=now - 2 * DAY)
    return trigger.job


def skipped(job, at, reason="paused", recorded_at=None) -> Run:
    return RunFactory(
        job=job, scheduled_for=at, verdict="skipped", problem="skipped", reason=reason, finished_at=recorded_at or at
    )


def form_of(page: Page, action: str) -> dict[str, str]:
    """What the hidden fields of the first form with this address send."""
    names: dict[str, str] = {}
    is_inside = False
    for tag, values in page.elements:
        if tag == "form":
            if is_inside:
                break
            is_inside = values.get("action") == action
        elif tag == "input" and is_inside and values["name"] != "csrfmiddlewaretoken":
            names[values["name"]] = values["value"]
    return names


def test_each_job_says_how_many_and_why(viewer, backup, now):
    for hours in (1, 2):
        skipped(backup, now - hours * HOUR)
    skipped(backup, now - 3 * HOUR, "queue_full")
    SkippedSpanFactory(
        job=backup, first_at=now - 9 * HOUR, last_at=now - 5 * HOUR, count=5, reason="downtime", recorded_at=now
    )
    text = Page(viewer.get("/missed")).text
    assert "8 fires of 1 job did not become runs" in text
    assert "2 while it was paused 2026-03-02 10:00:00 UTC to 2026-03-02 11:00:00 UTC" in text
    assert "1 because its queue was full 2026-03-02 09:00:00 UTC" in text
    assert "5 while nobody was there to start it 2026-03-02 03:00:00 UTC to 2026-03-02 07:00:00 UTC" in text


def test_what_ran_is_to_come_is_long_ago_or_of_a_deleted_job_is_not_missed(viewer, backup, now):
    RunFactory(job=backup, completed=True, scheduled_for=now - HOUR)
    skipped(backup, now + HOUR, "skip_next", recorded_at=now)
    skipped(backup, now - 8 * DAY)
    skipped(JobFactory(deleted_at=now), now - HOUR)
    assert "Nothing was missed" in Page(viewer.get("/missed")).text
    assert "1 fire of 1 job" in Page(viewer.get("/missed?window=31d")).text
    assert viewer.get("/missed?window=1y").status_code == 400


def test_the_latest_alone_is_run(operator, backup, now):
    earlier, latest = skipped(backup, now - 2 * HOUR), skipped(backup, now - HOUR)
    form = form_of(Page(operator.get("/missed")), "/missed/ops:backup/run")
    answer = operator.post("/missed/ops:backup/run", form, follow=True)
    assert "1 run of ops:backup made." in Page(answer).text
    assert list(QueueEntry.objects.values_list("run_id", flat=True)) == [latest.pk]
    assert Run.objects.get(pk=earlier.pk).verdict == "skipped"
    assert "Nothing was missed" in Page(answer).text  # the others were let be


def test_all_are_run_after_it_was_said_which(operator, backup, now):
    made = [skipped(backup, now - hours * HOUR) for hours in (1, 2, 3)]
    page = Page(operator.get("/missed/ops:backup"))
    assert "Run 3 fires that were missed?" in page.text
    form = form_of(page, "/missed/ops:backup/run")
    answer = operator.post("/missed/ops:backup/run", form, follow=True)
    assert "3 runs of ops:backup made." in Page(answer).text
    assert set(QueueEntry.objects.values_list("run_id", flat=True)) == {run.pk for run in made}
    assert operator.get("/missed/ops:backup").status_code == 404


def test_a_gap_without_runs_is_made_up_for_too(operator, backup, now):
    SkippedSpanFactory(
        job=backup, first_at=now - 5 * HOUR, last_at=now - 3 * HOUR, count=3, reason="downtime", recorded_at=now
    )
    form = form_of(Page(operator.get("/missed/ops:backup")), "/missed/ops:backup/run")
    operator.post("/missed/ops:backup/run", form)
    instants = Run.objects.order_by("scheduled_for").values_list("scheduled_for", flat=True)
    assert list(instants) == [now - 5 * HOUR, now - 4 * HOUR, now - 3 * HOUR]
    assert "Nothing was missed" in Page(operator.get("/missed")).text


def test_nothing_is_run_where_it_would_be_another_number(operator, backup, now):
    first, latest = skipped(backup, now - 2 * HOUR), skipped(backup, now - HOUR)
    form = form_of(Page(operator.get("/missed/ops:backup")), "/missed/ops:backup/run")
    assert form["expected"] == "2"
    alone = {**form, "since": latest.scheduled_for.isoformat(), "expected": "1"}
    operator.post("/missed/ops:backup/run", alone)
    answer = operator.post("/missed/ops:backup/run", form, follow=True)
    assert "It would be 1 runs by now, not 2. Nothing was done" in Page(answer).text
    assert Run.objects.get(pk=first.pk).verdict == "skipped"


def test_what_cannot_be_run_says_why_and_stays(operator, backup, now):
    skipped(backup, now - HOUR)
    Job.objects.update(paused_at=now)
    page = Page(operator.get("/missed/ops:backup"))
    assert "is paused; resume it first" in page.text
    form = form_of(Page(operator.get("/missed")), "/missed/ops:backup/run")
    answer = operator.post("/missed/ops:backup/run", form, follow=True)
    assert "is paused; resume it first" in Page(answer).text
    assert "1 fire of 1 job" in Page(answer).text


def test_what_no_schedule_fires_any_more_is_not_run_and_stays(operator, now):
    skipped(JobFactory(job_key="ops:backup"), now - HOUR)
    form = form_of(Page(operator.get("/missed")), "/missed/ops:backup/run")
    answer = operator.post("/missed/ops:backup/run", form, follow=True)
    assert "0 runs of ops:backup made. The job has no schedule that is enabled." in Page(answer).text
    assert "1 fire of 1 job" in Page(answer).text


def test_what_somebody_dismissed_is_gone_and_what_is_recorded_later_is_not(operator, backup, now, clock):
    skipped(backup, now - HOUR)
    skipped(JobFactory(job_key="ops:other"), now - HOUR)
    form = form_of(Page(operator.get("/missed")), "/missed/ops:backup/dismiss")
    clock.set(now + MINUTE)
    # It fell due before the look at the page, and was recorded after it.
    skipped(backup, now - 2 * HOUR, "downtime", recorded_at=now + timedelta(seconds=30))
    text = Page(operator.post("/missed/ops:backup/dismiss", form, follow=True)).text
    assert "1 while nobody was there to start it" in text
    assert "while it was paused 2026-03-02 11:00:00" in text  # ops:other's
    assert "2 fires of 2 jobs" in text
    event = AuditEvent.objects.get(action="job.missed_dismissed")
    assert (event.actor_id, event.target_id) == ("otto", "ops:backup")


def test_an_earlier_look_never_takes_back_a_later_one(now, backup):
    assert dismiss_missed("ops:backup", now, now, ACTOR)
    assert not dismiss_missed("ops:backup", now - HOUR, now, ACTOR)
    assert not dismiss_missed("ops:backup", now, now, ACTOR)
    assert Job.objects.get().missed_seen_at == now
    assert AuditEvent.objects.filter(action="job.missed_dismissed").count() == 1


def test_nobody_has_seen_what_is_to_come(operator, backup, now):
    for seen_at in ((now + HOUR).isoformat(), "", "soon"):
        assert operator.post("/missed/ops:backup/dismiss", {"seen_at": seen_at}).status_code == 400
    assert Job.objects.get().missed_seen_at is None


def test_what_a_calendar_closed_is_told_by_number_and_needs_nothing(viewer, now):
    calendar = CalendarFactory(name="weekdays")
    CalendarRuleFactory(calendar=calendar, weekdays=[1, 2, 3, 4, 5])
    # The fixed now is a Monday noon: of the last seven days Saturday and Sunday were closed.
    since = now - 30 * DAY
    TriggerFactory(job__job_key="ops:office", every=6 * HOUR, anchor_at=since, created_at=since, calendar=calendar)
    TriggerFactory(job__job_key="ops:always", every=6 * HOUR, anchor_at=since, created_at=since)
    TriggerFactory(job__job_key="ops:new", calendar=calendar, created_at=now)
    text = Page(viewer.get("/missed")).text
    assert "Nothing was missed" in text
    assert "ops:office weekdays 8" in text
    assert "ops:always" not in text
    assert "ops:new" not in text
