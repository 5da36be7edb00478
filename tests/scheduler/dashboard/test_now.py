"""The page "Now": each thing that is wrong is there by its name, and nothing where all is well."""

from __future__ import annotations

import html
import re
from datetime import timedelta

import pytest
from django.contrib.auth.models import User
from django.urls import reverse

from croniq_site.kernel.capabilities import COMMAND, COMMAND_ONLY
from runners.models import Heartbeat
from scheduler.dashboard import now as now_module
from scheduler.dashboard.now import cells, columns
from scheduler.queries import situation as situations
from scheduler.queries.statistics import Bucket
from tests.factories import (
    NOW,
    DeadLetterFactory,
    HeartbeatFactory,
    JobFactory,
    LaneFactory,
    MaintenanceFactory,
    PreferencesFactory,
    QueueEntryFactory,
    RunFactory,
    RunnerFactory,
    RunnerInstanceFactory,
    TriggerFactory,
)
from tests.scheduler.dashboard.conftest import HTMX
from tests.scheduler.dashboard.markup import Page

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def servers_clock(monkeypatch, clock):
    """The clock of this server, which is ``apart`` from the database's."""

    class Apart:
        apart = timedelta()

        def now(self):
            return clock.now() + self.apart

    mine = Apart()
    monkeypatch.setattr(now_module, "SystemClock", lambda: mine)
    return mine


@pytest.fixture(autouse=True)
def processes(now):
    for kind in ("serve", "materialize", "reap"):
        HeartbeatFactory(kind=kind, beat_at=now)


def shown(client) -> str:
    return Page(client.get("/now")).text


def test_it_is_quiet_when_all_is_well(viewer, now):
    TriggerFactory(job__job_key="ops:fine")
    RunFactory(completed=True, job__job_key="ops:good", scheduled_for=now)
    RunnerFactory(last_poll_at=now)
    text = shown(viewer)
    text = text[text.index("All is well") :]  # the menu before it names pages
    for quiet in ("Overdue", "Failing", "Dead letters", "Flapping", "Stale", "no runner has", "Paused", "ops:"):
        assert quiet not in text


def test_what_is_overdue_says_since_when(viewer, now):
    QueueEntryFactory(job__job_key="ops:late", available_at=now - timedelta(minutes=2))
    QueueEntryFactory(job__job_key="ops:later", available_at=now - timedelta(seconds=90))
    text = shown(viewer)
    assert "Needs a look" in text
    assert "ops:late since 2026-03-02 11:58:00 UTC · what waits of ops:late" in text
    assert text.index("ops:late ") < text.index("ops:later ")
    assert "2 waiting" in text


NO_RUNNER = "No runner that serves the tenant default is online."
WHY_OVERDUE = {
    "nobody is there": (None, {}, NO_RUNNER),
    "the runner serves others": ({"client__tenant": "other"}, {}, NO_RUNNER),
    "it lacks what is required": ({}, {"require": ["tape"]}, "No runner that is online has tape."),
    "it executes commands alone": ({"capabilities": [COMMAND_ONLY]}, {}, "this takes a handler"),
    "it is drained": ({"drained_at": NOW}, {}, "is drained and takes no more."),
    "it takes nothing at once": ({"max_inflight": 0}, {}, "The one runner that may take it has no place free."),
    "it may take it": ({"max_inflight": 2}, {}, "it waits for its turn."),
}


@pytest.mark.parametrize(("runner", "lane", "why"), WHY_OVERDUE.values(), ids=WHY_OVERDUE)
@pytest.mark.parametrize("is_own_lane", [False, True])
def test_what_is_overdue_says_why(viewer, now, runner, lane, why, is_own_lane):
    if runner is not None:
        RunnerFactory(last_poll_at=now, **runner)
    lane = LaneFactory(**lane)
    job = JobFactory(job_key="ops:late", lane=LaneFactory(priority=9) if is_own_lane else lane)
    QueueEntryFactory(job=job, lane=lane, own_lane=is_own_lane, available_at=now - timedelta(minutes=2))
    text = shown(viewer)
    assert why in text[text.index("what waits of ops:late") :].partition("When runs fail")[0]


def test_a_runner_with_all_its_places_taken_is_why(viewer, now):
    runner = RunnerFactory(last_poll_at=now, max_inflight=1)
    QueueEntryFactory(claimed=True, holder__runner=runner)
    QueueEntryFactory(job__job_key="ops:late", available_at=now - timedelta(minutes=2))
    assert "what waits of ops:late The one runner that may take it has no place free." in shown(viewer)
    RunnerFactory(last_poll_at=now, max_inflight=0)
    assert "None of the 2 runners that may take it has a place free." in shown(viewer)
    MaintenanceFactory(is_on=True, began_at=now)
    assert "what waits of ops:late All dispatch is held." in shown(viewer)


def test_a_fire_that_is_no_run_says_whether_the_materializer_is_there(viewer, now, clock):
    before = now - timedelta(minutes=5)
    TriggerFactory(
        job__job_key="ops:late", created_at=before, anchor_at=before, cursor_at=before, next_materialize_at=before
    )
    assert "ops:late since 2026-03-02 11:56:00 UTC" in shown(viewer)
    assert "The materializer is behind: a fire that is past is no run yet." in shown(viewer)
    Heartbeat.objects.filter(kind="materialize").update(beat_at=now - timedelta(seconds=61))
    assert "No materializer is at work: its fires do not become runs." in shown(viewer)


def test_a_job_fails_whose_newest_run_did(viewer, now):
    for key, verdicts in (("ops:bad", ["completed", "dead"]), ("ops:well-again", ["dead", "completed"])):
        job = JobFactory(job_key=key)
        for age, verdict in enumerate(reversed(verdicts)):
            state = {"completed": True} if verdict == "completed" else {"dead": True, "error": "exit code 7"}
            RunFactory(job=job, scheduled_for=now - timedelta(minutes=age + 1), **state)
    # Neither a run that is skipped nor one that goes on makes it well again.
    bad = JobFactory._meta.model.objects.get(job_key="ops:bad")
    at = now + timedelta(0)
    RunFactory(job=bad, scheduled_for=at - timedelta(seconds=1), verdict="skipped", problem="skipped", finished_at=at)
    QueueEntryFactory(job=bad, run__scheduled_for=at - timedelta(seconds=2), claimed=True)
    text = shown(viewer)
    assert "Failing 1 ops:bad" in text
    assert "exit code 7" in text
    assert "ops:well-again" not in text
    assert "1 running" in text


def test_letters_by_job_and_capabilities_that_nobody_has(viewer, now):
    job = JobFactory(job_key="ops:letters", lane=LaneFactory(require=["tape"]))
    for _ in range(2):
        DeadLetterFactory(job=job)
    text = shown(viewer)
    assert "Dead letters 1 job ops:letters 2" in text
    assert "Capabilities that no runner has 1 Jobs require them: their runs wait. tape ops:letters" in text
    RunnerFactory(last_poll_at=now, capabilities=["tape"])
    assert "Capabilities" not in shown(viewer)


def test_a_capability_that_nobody_has_names_the_jobs_that_wait_for_it(viewer, now, monkeypatch):
    monkeypatch.setattr(situations, "MOST_JOBS_NAMED", 2)
    for key in "abc":
        JobFactory(job_key=f"ops:{key}", lane=LaneFactory(require=["tape"]))
    JobFactory(job_key="ops:off", lane=LaneFactory(require=["tape"]), is_active=False)
    JobFactory(job_key="eu:d", tenant="eu", lane=LaneFactory(require=["tape"], tenant="eu"))
    RunnerFactory(last_poll_at=now, capabilities=["tape"], client__tenant="eu")
    page = Page(viewer.get("/now"))
    assert "tape ops:a , ops:b and 1 more that require tape" in page.text
    (more,) = [link for link in page.links("/jobs") if "needs=" in link]
    listed = ["eu:d", "ops:a", "ops:b", "ops:c", "ops:off"]
    assert Page(viewer.get(more)).links("/jobs/") == [f"/jobs/{key}" for key in listed]


def test_runners_that_flap_or_fell_silent(viewer, now):
    flapping = RunnerFactory(runner_id="twins", last_poll_at=now)
    for age in (1, 2, 3):
        RunnerInstanceFactory(runner=flapping, deposed_at=now - timedelta(minutes=age))
    RunnerFactory(runner_id="silent", last_poll_at=now - timedelta(seconds=61))
    RunnerFactory(runner_id="long-gone", last_poll_at=now - timedelta(days=1))
    text = shown(viewer)
    assert "Flapping runners 1" in text
    assert "twins" in text
    assert "Stale runners 1" in text
    assert "silent" in text
    assert "long-gone" not in text


def test_the_schedulers_own_silence(viewer, now, clock):
    clock.set(now + timedelta(seconds=61))
    HeartbeatFactory(kind="serve", beat_at=clock.now())
    HeartbeatFactory(kind="reap", beat_at=clock.now())
    text = shown(viewer)
    assert "The materialize process gave no sign of life" in text
    assert "The reap process" not in text
    assert "materialize silent since" in text
    assert "reap alive" in text


def test_runs_that_wait_while_no_runner_is_there(viewer, now):
    QueueEntryFactory(available_at=now - timedelta(minutes=2))
    RunnerFactory(last_poll_at=now - timedelta(hours=1))
    assert "No runner is online, and runs have been due since 2026-03-02 11:58:00 UTC ." in shown(viewer)
    times = Page(viewer.get("/now")).all("time", datetime="2026-03-02T11:58:00.000000Z")
    assert len(times) == 2, "the instant in a sentence is one of the page's times, as that of the job"
    RunnerFactory(last_poll_at=now, drained_at=now)
    text = shown(viewer)
    assert "No runner is online" not in text, "one that is drained is there all the same, and said to be so"
    assert "Every runner that is online is drained, and runs have been due since 2026-03-02 11:58:00 UTC ." in text
    RunnerFactory(last_poll_at=now)
    assert "Every runner that is online is drained" not in shown(viewer)


def test_what_somebody_holds_is_shown_and_is_no_trouble(viewer, now):
    JobFactory(job_key="ops:paused", paused_at=now, paused_reason="moving house")
    MaintenanceFactory(is_on=True, began_at=now, reason="the new disk")
    text = shown(viewer)
    assert "All is well" in text
    assert "ops:paused" in text
    assert "moving house" in text
    assert "All dispatch is held. the new disk" in text


def test_until_when_all_is_held_is_said_apart_from_the_reason(viewer, now):
    MaintenanceFactory(is_on=True, began_at=now, until=now + timedelta(hours=1), reason="db upgrade")
    assert "All dispatch is held until 2026-03-02 13:00:00 UTC . db upgrade" in shown(viewer)


def test_of_many_some_are_named_and_all_are_counted(viewer, now, monkeypatch):
    monkeypatch.setattr(situations, "MOST_NAMED", 2)
    for number in range(5):
        JobFactory(job_key=f"ops:paused-{number}", paused_at=now - timedelta(minutes=number))
    page = Page(viewer.get("/now"))
    assert "Paused 5 ops:paused-0" in page.text
    assert "ops:paused-2" not in page.text
    assert "and 3 more" in page.text
    assert len(page.links(f"{reverse('jobs')}?status=paused")) == 2, "the number and the rest both lead to all of them"


def test_it_follows_what_happens_and_is_left_alone_while_nothing_does(viewer, now, clock):
    [live] = [values["hx-get"] for values in Page(viewer.get("/now")).all("div") if values.get("id") == "now"]
    clock.set(now + timedelta(seconds=5))
    assert viewer.get(live, headers=HTMX).status_code == 204
    DeadLetterFactory(job__job_key="ops:letters")
    assert "ops:letters" in Page(viewer.get(live, headers=HTMX)).text


def test_the_queries_do_not_grow_with_what_is_wrong(viewer, now, django_assert_max_num_queries):
    for number in range(12):
        job = JobFactory(job_key=f"ops:{number}", paused_at=now if number % 2 else None)
        RunFactory(job=job, dead=True, scheduled_for=now)
        DeadLetterFactory(job=job)
        QueueEntryFactory(job=job, available_at=now - timedelta(minutes=2))
    with django_assert_max_num_queries(15):
        assert viewer.get("/now").status_code == 200


def test_the_columns_of_the_chart(now):
    hours = [Bucket(now, 0, 0, 0, 0, 9), Bucket(now, 90, 4, 6, 0, 0), Bucket(now, 1, 0, 0, 0, 0)]
    none, full, low = columns(hours)
    assert (none.completed_height, none.failed_height) == ("0.00", "0.00")
    assert (full.completed_y, full.completed_height) == ("10.00", "90.00")
    assert (full.failed_y, full.failed_height, full.failed) == ("0.00", "10.00", 10)
    assert low.completed_height == "3.00"  # one run beside a hundred is still seen
    assert columns([Bucket(now, 0, 0, 0, 0, 0)])[0].completed_height == "0.00"


def test_the_heat_of_hours():
    failures = [[0] * 24 for _ in range(7)]
    failures[0][1], failures[6][23] = 1, 8
    drawn = cells(failures, "UTC")
    assert [cell.heat for cell in drawn if cell.heat] == [1, 4]
    assert drawn[-1].words == "Sunday 23:00 UTC: 8 failed"
    assert {cell.heat for cell in cells([[0] * 24] * 7, "UTC")} == {0}


def test_the_hours_at_which_runs_fail_are_those_of_the_viewers_clock(viewer, now):
    RunFactory(dead=True, scheduled_for=now - timedelta(hours=1))
    assert "by weekday and hour in UTC; most of them on Monday at 11:00 (1)" in shown(viewer)
    PreferencesFactory(user=User.objects.get(username="vera"))
    assert "by weekday and hour in Europe/Vienna; most of them on Monday at 12:00 (1)" in shown(viewer)


def test_of_a_deleted_job_nothing_is_told(viewer, now):
    gone = JobFactory(job_key="ops:gone", deleted_at=now, paused_at=now)
    RunFactory(job=gone, scheduled_for=now - timedelta(minutes=1), dead=True, error="exit code 7")
    text = shown(viewer)
    assert "All is well" in text
    assert "ops:gone" not in text


def linked(client, words: str) -> tuple[int, str]:
    """A number of the page's head and the address that it leads to."""
    page = client.get("/now").content.decode()
    found = re.search(rf'<a href="([^"]*)"><b class="num">(\d+)</b> {words}', page)
    assert found is not None, words
    return int(found[2]), html.unescape(found[1])


@pytest.mark.parametrize(
    ("words", "number"),
    [
        ("running", 1),
        ("waiting", 4),
        ("held by a pause", 2),
        *[("completed since", 2), ("dead since", 1), ("failed since", 3)],
    ],
)
def test_each_number_leads_to_a_list_of_as_many(viewer, now, words, number):
    job = JobFactory(job_key="ops:job")
    QueueEntryFactory(job=job, claimed=True, run__scheduled_for=now - timedelta(minutes=1))
    for minutes in (2, 3):
        at = now - timedelta(minutes=minutes)
        QueueEntryFactory(job=job, available_at=at, run__scheduled_for=at)
    QueueEntryFactory(job=job, state=1, run__scheduled_for=now - timedelta(minutes=4))
    for minutes in (6, 7):
        QueueEntryFactory(job=job, state=2, run__scheduled_for=now - timedelta(minutes=minutes))
    # One that failed waits for its next attempt; a planned one waits for nothing yet.
    later = now + timedelta(minutes=5)
    QueueEntryFactory(job=job, attempt=1, available_at=later, run__scheduled_for=now - timedelta(minutes=5))
    QueueEntryFactory(job=job, available_at=later, run__scheduled_for=later)
    for hours in (0, 23, 25):
        at = now - timedelta(hours=hours, minutes=30)
        RunFactory(job=job, completed=True, scheduled_for=at)
    RunFactory(job=job, dead=True, scheduled_for=now - timedelta(minutes=40))
    for minutes in (41, 42, 43):
        at = now - timedelta(minutes=minutes)
        RunFactory(job=job, verdict="failed", problem="failed", finished_at=at, scheduled_for=at)
    counted, address = linked(viewer, words)
    rows = Page(viewer.get(address)).links("/runs/0")
    assert (counted, len(set(rows))) == (number, number)


@pytest.mark.parametrize(("title", "status"), [("Overdue", "overdue"), ("Failing", "failing"), ("Paused", "paused")])
def test_what_is_wrong_with_jobs_leads_to_the_list_of_those(viewer, now, title, status):
    QueueEntryFactory(job__job_key="ops:overdue", available_at=now - timedelta(minutes=2))
    before = now - timedelta(minutes=5)
    TriggerFactory(
        job__job_key="ops:overdue-2", created_at=before, anchor_at=before, cursor_at=before, next_materialize_at=before
    )
    for key in ("ops:failing", "ops:failing-2"):
        RunFactory(job__job_key=key, dead=True, scheduled_for=now)
    for key in ("ops:paused", "ops:paused-2"):
        JobFactory(job_key=key, paused_at=now)
    page = viewer.get("/now").content.decode()
    assert f'<a class="plain" href="/jobs?status={status}">{title} <span class="count num">2</span></a>' in page
    assert Page(viewer.get(f"/jobs?status={status}")).links("/jobs/") == [
        f"/jobs/ops:{status}",
        f"/jobs/ops:{status}-2",
    ]


def test_letters_that_were_replayed_or_whose_job_is_gone_are_no_work(viewer, now):
    done = DeadLetterFactory(job__job_key="ops:done")
    RunFactory(job=done.job, kind="replay", replay_of=done.run, completed=True)
    DeadLetterFactory(job__job_key="ops:gone", job__deleted_at=now)
    text = shown(viewer)
    assert "All is well" in text
    assert "ops:" not in text


@pytest.mark.parametrize(
    ("seconds", "said", "is_well"),
    [(0.5, "this server's is 0.50 s ahead of the database's", True), (-3, "3 s behind the database's", False)],
)
def test_how_far_the_clocks_are_apart(viewer, servers_clock, seconds, said, is_well):
    servers_clock.apart = timedelta(seconds=seconds)
    text = shown(viewer)
    assert said in text
    assert ("All is well" in text) == is_well
    assert ("what is due is decided by the database's" in text) != is_well


def test_jobs_that_no_runner_takes_though_somebody_has_each_capability(viewer, now):
    JobFactory(job_key="ops:handler", lane=LaneFactory(require=[], prefer=[]))
    RunnerFactory(last_poll_at=now, capabilities=[COMMAND, COMMAND_ONLY])
    text = shown(viewer)
    assert "Needs a look" in text
    assert "Jobs that no runner takes 1 Every runner that is online executes commands or HTTP requests only" in text
    assert "ops:handler" in text
    RunnerFactory(last_poll_at=now, capabilities=["invoices"])
    assert "All is well" in shown(viewer)
