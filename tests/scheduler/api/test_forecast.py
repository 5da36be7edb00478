"""The forecast: what fires, what a calendar blocks and where that goes, whatever is planned."""

from __future__ import annotations

import time as clock
from datetime import UTC, datetime, timedelta

import pytest

from scheduler.models import Job, QueueEntry, Trigger
from scheduler.queries import forecast as forecasts
from scheduler.queries.fires import trigger_fires
from scheduler.queries.forecast import forecast
from scheduler.services.calendars import edit_calendar
from scheduler.services.jobs import deactivate
from scheduler.services.pause import pause_job
from scheduler.services.skip import skip_next
from tests.factories import JobFactory, TriggerFactory
from tests.scheduler.planning.support import ACTOR, make_job, make_trigger

pytestmark = pytest.mark.django_db

MINUTE, HOUR, DAY = timedelta(minutes=1), timedelta(hours=1), timedelta(days=1)


@pytest.fixture
def working_days(now):
    """Closed at weekends, on 4 March ("stocktaking") and on Austria's holidays."""
    rules = [
        {"effect": "exclude", "name": "weekend", "weekdays": [6, 7]},
        {"effect": "exclude", "name": "stocktaking", "dates": ["2026-03-04"]},
        {"effect": "exclude", "holiday_country": "AT"},
    ]
    edit_calendar({"name": "working", "timezone": "Europe/Vienna", "rules": rules}, now, actor=ACTOR)


def ahead(now, window=HOUR, bucket=None, per_job=10, **options):
    return forecast(now, window, bucket=bucket or window, per_job=per_job, **options)


def at(day: int, hour: int, minute: int = 0) -> datetime:
    return datetime(2026, 3, day, hour, minute, tzinfo=UTC)


def test_fires_are_counted_in_buckets(now) -> None:
    make_trigger(make_job(now, "a:minutely"), now, cron_expression="* * * * *")
    make_trigger(make_job(now, "a:quarterly"), now, every="15m")
    found = ahead(now, bucket=15 * MINUTE)
    assert [(b.start, b.end) for b in found.buckets] == [
        (now + n * 15 * MINUTE, now + (n + 1) * 15 * MINUTE) for n in range(4)
    ]
    assert [(b.fires, b.blocked, b.paused) for b in found.buckets] == [(16, 0, 0)] * 4
    assert [(job.job_key, job.fires, len(job.coming), job.more) for job in found.jobs] == [
        ("a:minutely", 60, 10, 50),
        ("a:quarterly", 4, 4, 0),
    ]
    assert [item.at for item in found.jobs[1].coming] == [now + n * 15 * MINUTE for n in range(1, 5)]
    assert found.is_exact
    assert [item.at for item in found.coming] == sorted(item.at for item in found.coming)


def test_it_is_computed_from_schedules_and_not_from_planned_rows(now) -> None:
    make_trigger(make_job(now), now, cron_expression="0 3 * * *")
    QueueEntry.objects.all().delete()
    for later in (now, now + 5 * DAY + HOUR):
        found = ahead(later, 2 * DAY)
        daily = [at(2, 3) + n * DAY for n in range(31)]
        assert [item.at for item in found.coming] == [three for three in daily if later < three <= later + 2 * DAY]


def test_the_window_begins_after_now_and_holds_its_end(now) -> None:
    make_trigger(make_job(now), now, every="30m")
    assert [item.at for item in ahead(now + 30 * MINUTE).coming] == [now + 60 * MINUTE, now + 90 * MINUTE]


def test_what_is_blocked_is_listed_with_its_rule_and_where_it_went(now, working_days) -> None:
    make_trigger(make_job(now), now, cron_expression="0 9 * * *", timezone="Europe/Vienna", calendar="working")
    found = ahead(now, 7 * DAY)
    (job,) = found.jobs
    assert (job.fires, job.blocked, job.more) == (4, 3, 0)
    assert [(item.at, item.is_blocked, item.rule, item.moved_to) for item in job.coming] == [
        (at(3, 8), False, "", None),
        (at(4, 8), True, "stocktaking", at(5, 8)),
        (at(5, 8), False, "", None),
        (at(6, 8), False, "", None),
        (at(7, 8), True, "weekend", at(9, 8)),
        (at(8, 8), True, "weekend", at(9, 8)),
        (at(9, 8), False, "", None),
    ]
    assert {(item.calendar, item.policy) for item in job.coming if item.is_blocked} == {("working", "advance")}
    assert [(b.fires, b.blocked) for b in found.buckets] == [(4, 3)]


@pytest.mark.parametrize(
    ("policy", "goes_to"),
    [("defer", at(8, 23)), ("following", at(9, 8)), ("preceding", at(6, 8))],
)
def test_a_moved_fire_says_from_where_and_its_occurrence_to_where(now, working_days, policy, goes_to) -> None:
    trigger = make_trigger(
        make_job(now),
        now,
        cron_expression="0 9 * * sat",
        timezone="Europe/Vienna",
        calendar="working",
        on_blocked=policy,
    )
    (job,) = ahead(now, 7 * DAY).jobs
    moved = [item for item in job.coming if not item.is_blocked]
    hollow = [item for item in job.coming if item.is_blocked]
    assert [(item.at, item.moved_from) for item in moved] == [(goes_to, at(7, 8))]
    assert [(item.at, item.rule, item.moved_to) for item in hollow] == [(at(7, 8), "weekend", goes_to)]
    assert [fire.at for fire in trigger_fires(trigger, after=now, until=now + 7 * DAY)] == [goes_to]
    assert (job.fires, job.blocked) == (1, 1)


def test_a_fire_that_moves_out_of_the_window_is_not_counted_and_its_occurrence_is_hollow(now, working_days) -> None:
    make_trigger(
        make_job(now), now, cron_expression="0 9 * * sat", timezone="UTC", calendar="working", on_blocked="following"
    )
    (job,) = ahead(now, 6 * DAY).jobs
    assert (job.fires, job.blocked) == (0, 1)
    assert job.coming[0].moved_to == at(9, 9)


def test_a_daily_window_is_no_calendar(now, working_days) -> None:
    make_trigger(
        make_job(now), now, cron_expression="0 * * * *", timezone="UTC", window="09:00-11:00", calendar="working"
    )
    (job,) = ahead(now, 3 * DAY).jobs
    # 3 March 09:00 and 10:00 fire, the 4th is closed, the 5th fires; what is outside of the window is nothing at all.
    assert [(item.at, item.is_blocked) for item in job.coming] == [
        (at(day, hour), day == 4) for day in (3, 4, 5) for hour in (9, 10)
    ]
    assert (job.fires, job.blocked) == (4, 2)


def test_bounds_of_a_trigger(now) -> None:
    make_trigger(
        make_job(now),
        now,
        cron_expression="* * * * *",
        not_before=(now + 10 * MINUTE).isoformat(),
        not_after=(now + 20 * MINUTE).isoformat(),
    )
    found = ahead(now, bucket=15 * MINUTE)
    assert [b.fires for b in found.buckets] == [6, 5, 0, 0]
    assert found.coming[0].at == now + 10 * MINUTE


def test_a_trigger_made_later_than_the_window_begins(now) -> None:
    make_trigger(make_job(now), now + 30 * MINUTE, cron_expression="* * * * *")
    assert [b.fires for b in ahead(now).buckets] == [30]


def test_paused_jobs_are_flagged_and_do_not_count(now) -> None:
    make_trigger(make_job(now, "a:paused"), now, every="10m")
    make_trigger(make_job(now, "a:runs"), now, every="20m")
    pause_job("a:paused", now, actor=ACTOR, until=now + DAY)
    found = ahead(now)
    assert [(b.fires, b.paused) for b in found.buckets] == [(3, 6)]
    assert [(job.job_key, job.is_paused, job.paused_until, job.fires) for job in found.jobs] == [
        ("a:paused", True, now + DAY, 6),
        ("a:runs", False, None, 3),
    ]
    assert {item.job_key for item in found.coming if item.is_paused} == {"a:paused"}


def test_a_pause_with_an_end_holds_what_comes_before_it_and_no_more(now) -> None:
    make_trigger(make_job(now, "a:paused"), now, every="10m")
    make_trigger(make_job(now, "a:runs"), now, every="20m")
    pause_job("a:paused", now, actor=ACTOR, until=now + 20 * MINUTE)
    found = ahead(now, bucket=30 * MINUTE)
    # What falls due at the end itself is held: a job that is resumed skips what is due by then.
    assert [(b.start, b.fires, b.paused) for b in found.buckets] == [(now, 2, 2), (now + 30 * MINUTE, 5, 0)]
    assert [(job.job_key, job.fires, job.held, job.starts) for job in found.jobs] == [
        ("a:paused", 6, 2, 4),
        ("a:runs", 3, 0, 3),
    ]
    assert [item.is_paused for item in found.jobs[0].coming] == [True] * 2 + [False] * 4
    assert found.is_exact


def test_more_ends_of_pauses_than_are_counted_to_are_said_not_to_be_exact(now, monkeypatch) -> None:
    monkeypatch.setattr(forecasts, "MOST_PAUSE_ENDS", 1)
    for number in (1, 2):
        make_trigger(make_job(now, f"a:{number}"), now, every="10m")
        pause_job(f"a:{number}", now, actor=ACTOR, until=now + number * 10 * MINUTE)
    found = ahead(now)
    assert [(job.held, job.starts) for job in found.jobs] == [(1, 5), (6, 0)]
    assert not found.is_exact


def test_an_end_of_a_pause_that_has_come_holds_nothing_of_what_is_to_come(now) -> None:
    make_trigger(make_job(now, "a:paused"), now, every="10m")
    pause_job("a:paused", now - HOUR, actor=ACTOR, until=now)
    assert [(b.fires, b.paused) for b in ahead(now).buckets] == [(6, 0)]


def test_what_is_switched_off_does_not_fire(now) -> None:
    make_trigger(make_job(now, "a:off"), now, every="10m")
    deactivate("a:off", now, ACTOR)
    make_trigger(make_job(now, "a:disabled"), now, every="10m", enabled=False)
    make_trigger(make_job(now, "a:deleted"), now, every="10m")
    Job.objects.filter(job_key="a:deleted").update(deleted_at=now)
    found = ahead(now)
    assert (found.jobs, found.buckets[0].fires) == ((), 0)


def test_a_broken_trigger_is_listed_and_stops_only_itself(now) -> None:
    for key in ("a:good", "a:known", "a:zone", "a:cron"):
        make_trigger(make_job(now, key), now, cron_expression="*/10 * * * *")
    Trigger.objects.filter(job__job_key="a:known").update(config_error="It is broken.")
    Trigger.objects.filter(job__job_key="a:zone").update(timezone="Nowhere/Land")
    Trigger.objects.filter(job__job_key="a:cron").update(cron_expression="rubbish")
    found = ahead(now)
    assert [(b.job_key, bool(b.error)) for b in found.broken] == [("a:cron", True), ("a:known", True), ("a:zone", True)]
    assert "Nowhere/Land" in next(b.error for b in found.broken if b.job_key == "a:zone")
    assert [job.job_key for job in found.jobs] == ["a:good"]


def test_two_triggers_that_meet_are_one_run(now) -> None:
    job = make_job(now)
    make_trigger(job, now, cron_expression="*/10 * * * *")
    make_trigger(job, now, cron_expression="*/15 * * * *")
    found = ahead(now)
    assert [b.fires for b in found.buckets] == [8]  # :10 :15 :20 :30 :40 :45 :50 :60
    assert [item.at.minute for item in found.coming] == [10, 15, 20, 30, 40, 45, 50, 0]
    assert found.is_exact


def test_too_many_to_walk_through_is_said(now, monkeypatch) -> None:
    monkeypatch.setattr(forecasts, "MOST_WALKED", 5)
    job = make_job(now)
    make_trigger(job, now, cron_expression="*/10 * * * *")
    make_trigger(job, now, cron_expression="*/15 * * * *")
    found = ahead(now)
    assert (found.buckets[0].fires, found.is_exact) == (10, False)


def test_what_all_together_list_is_bounded_and_the_rest_counted(now, monkeypatch) -> None:
    for n in range(4):
        make_trigger(make_job(now, f"a:{n}"), now, every="10m")
    whole = ahead(now)
    monkeypatch.setattr(forecasts, "MOST_LISTED", 10)
    found = ahead(now)
    assert found.coming == whole.coming[:10]
    assert [(len(job.coming), job.more) for job in found.jobs] == [(3, 3), (3, 3), (2, 4), (2, 4)]
    monkeypatch.setattr(forecasts, "MOST_TRIGGERS", 3)
    assert (ahead(now).left_out, len(ahead(now).jobs)) == (1, 3)


def test_the_fires_of_equal_schedules_are_worked_out_once_whenever_they_were_made(
    now, working_days, monkeypatch
) -> None:
    asked = []
    monkeypatch.setattr(
        forecasts, "trigger_fires", lambda trigger, **how: asked.append(1) or trigger_fires(trigger, **how)
    )
    for n, policy in enumerate(["advance", "defer", "preceding"] * 2):
        job = make_job(now - n * DAY, f"a:{n}")
        made = {"cron_expression": "0 9 * * *", "calendar": "working", "on_blocked": policy}
        make_trigger(job, now - n * DAY, **made)
    found = ahead(now, 7 * DAY)
    # To count what a policy moves it is walked through, once for each policy.
    assert len(asked) == 3 + 2
    assert len({(job.fires, job.blocked) for job in found.jobs}) == 3 - 1
    for one, other in zip(found.jobs[:3], found.jobs[3:], strict=True):
        assert [(item.at, item.moved_from) for item in one.coming] == [(i.at, i.moved_from) for i in other.coming]


def test_with_many_jobs_each_lists_less(now, monkeypatch) -> None:
    for n in range(4):
        make_trigger(make_job(now, f"a:{n}"), now, every="1m")
    monkeypatch.setattr(forecasts, "MOST_LISTED", 13)
    monkeypatch.setattr(forecasts, "LEAST_OF_A_JOB", 2)
    asked = []
    monkeypatch.setattr(
        forecasts, "trigger_fires", lambda trigger, **how: asked.append(how) or trigger_fires(trigger, **how)
    )
    ahead(now, per_job=50)
    assert [how["count"] for how in asked] == [13]
    monkeypatch.setattr(forecasts, "LEAST_OF_A_JOB", 40)
    ahead(now, per_job=50)
    assert asked[-1]["count"] == 40


def test_another_tenants_jobs_are_not_told(now) -> None:
    make_trigger(make_job(now, "a:mine", tenant="one"), now, every="10m")
    make_trigger(make_job(now, "a:theirs", tenant="two"), now, every="10m")
    assert [job.job_key for job in ahead(now, tenant="one").jobs] == ["a:mine"]
    assert len(ahead(now).jobs) == 2


def test_the_number_of_queries_does_not_grow(now, working_days, django_assert_num_queries) -> None:
    for n in range(3):
        make_trigger(make_job(now, f"a:{n}"), now, cron_expression=f"{n} * * * *", calendar="working")
    with django_assert_num_queries(3):
        ahead(now, 7 * DAY)
    for n in range(3, 20):
        make_trigger(make_job(now, f"a:{n}"), now, cron_expression=f"{n} * * * *", calendar="working")
    with django_assert_num_queries(3):
        ahead(now, 7 * DAY)


def test_a_thousand_minutely_jobs_for_a_month_in_seconds(now, working_days) -> None:
    calendar_id = make_trigger(make_job(now, "a:first"), now, every="1h", calendar="working").calendar_id
    lane = Job.objects.get().lane
    jobs = [JobFactory.build(job_key=f"b:{n}", lane=lane, concurrency_group=None) for n in range(1000)]
    Job.objects.bulk_create(jobs)
    Trigger.objects.bulk_create(
        TriggerFactory.build(
            job=job,
            kind="cron",
            cron_expression=f"0-{n % 50 + 2},{n % 50 + 3}-59 * * * *",
            every=None,
            anchor_at=None,
            timezone=["UTC", "Europe/Vienna"][n % 2],
            calendar_id=calendar_id if n % 4 == 0 else None,
            created_at=now,
        )
        for n, job in enumerate(jobs)
    )
    begin = clock.process_time()
    found = ahead(now, 31 * DAY, bucket=HOUR)
    spent = clock.process_time() - begin
    assert len(found.jobs) == 1001
    assert next(job.fires for job in found.jobs if job.job_key == "b:1") == 31 * 24 * 60
    assert len(found.coming) <= forecasts.MOST_LISTED
    assert found.is_exact
    assert spent < 6


def test_a_fire_that_was_taken_out_is_listed_as_skipped_and_counts_nowhere(api, now) -> None:
    job = make_job(now, "a:hourly")
    make_trigger(job, now, every="1h")
    make_trigger(make_job(now, "a:other"), now, every="1h")
    for _ in range(2):
        skip_next("a:hourly", now, ACTOR)
    found = ahead(now, 4 * HOUR, HOUR, per_job=3)
    assert [bucket.fires for bucket in found.buckets] == [1, 1, 2, 2]
    hourly = found.jobs[0]
    assert [(item.at - now, item.is_skipped) for item in hourly.coming] == [
        (HOUR, True),
        (2 * HOUR, True),
        (3 * HOUR, False),
    ]
    assert (hourly.fires, hourly.more) == (2, 1)
    body = api("jobs:read").get("/v1/dashboard/forecast?window_minutes=60&jobs=1").json()
    assert [(job["count"], job["fires"][0]["skipped"]) for job in body["jobs"]] == [(0, True), (1, False)]
    assert body["total"] == 1
    # What the schedule does not fire any more is no fire that is skipped.
    job.triggers.all().delete()
    make_trigger(job, now, every="90m")
    hourly = ahead(now, 2 * HOUR).jobs[0]
    assert (hourly.fires, [item.is_skipped for item in hourly.coming]) == (1, [False])


# The API.


def test_the_wire(api, now, working_days) -> None:
    trigger = make_trigger(
        make_job(now, "a:nine"), now, cron_expression="0 9 * * *", timezone="Europe/Vienna", calendar="working"
    )
    broken = make_trigger(make_job(now, "a:broken"), now, every="10m")
    Trigger.objects.filter(pk=broken.pk).update(config_error="It is broken.")
    client = api("jobs:read")
    body = client.get("/v1/dashboard/forecast").json()
    assert (body["window_minutes"], body["bucket_minutes"], body["total"], body["exact"]) == (60, 5, 0, True)
    assert (body["start"], body["end"]) == ("2026-03-02T12:00:00.000000Z", "2026-03-02T13:00:00.000000Z")
    assert len(body["buckets"]) == 12
    assert body["buckets"][0] == {
        "start": "2026-03-02T12:00:00.000000Z",
        "end": "2026-03-02T12:05:00.000000Z",
        "count": 0,
        "blocked": 0,
        "paused": 0,
    }
    assert body["config_errors"] == [{"job_key": "a:broken", "trigger_id": str(broken.pk), "error": "It is broken."}]
    assert "jobs" not in body
    body = client.get("/v1/dashboard/forecast?window_minutes=2880&jobs=1").json()
    assert (body["bucket_minutes"], body["total"]) == (15, 1)
    (job,) = body["jobs"]
    assert {name: job[name] for name in ("job_key", "paused", "paused_until", "count", "blocked", "more")} == {
        "job_key": "a:nine",
        "paused": False,
        "paused_until": None,
        "count": 1,
        "blocked": 1,
        "more": 0,
    }
    assert job["fires"][1] == {
        "at": "2026-03-04T08:00:00.000000Z",
        "trigger_id": str(trigger.pk),
        "blocked": True,
        "skipped": False,
        "paused": False,
        "moved_from": None,
        "calendar": "working",
        "rule": "stocktaking",
        "on_blocked": "advance",
        "moved_to": "2026-03-05T08:00:00.000000Z",
    }


@pytest.mark.parametrize("window", [1, 60, 1440, 10_080, 44_640])
def test_windows_have_buckets_that_fit(api, now, window: int) -> None:
    make_trigger(make_job(now), now, every="1m")
    body = api("jobs:read").get(f"/v1/dashboard/forecast?window_minutes={window}").json()
    assert body["total"] == window == sum(bucket["count"] for bucket in body["buckets"])
    assert len(body["buckets"]) <= 300
    assert body["buckets"][-1]["end"] == body["end"]


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("window_minutes=0", "window_minutes"),
        ("window_minutes=44641", "window_minutes"),
        ("window_minutes=-5", "window_minutes"),
        ("window_minutes=1e3", "window_minutes"),
        ("window_minutes=\u0665", "window_minutes"),
        ("window_minutes=" + "9" * 5000, "window_minutes"),
        ("bucket_minutes=0", "bucket_minutes"),
        ("bucket_minutes=NaN", "bucket_minutes"),
        ("window_minutes=44640&bucket_minutes=1", "bucket_minutes"),
        ("jobs=yes", "jobs"),
    ],
)
def test_nonsense_is_refused_by_the_parameters_name(api, query: str, field: str) -> None:
    answer = api("jobs:read").get(f"/v1/dashboard/forecast?{query}")
    assert answer.status_code == 400
    assert set(answer.json()["fields"]) == {field}


def test_who_may_ask(api, now) -> None:
    make_trigger(make_job(now, "a:mine", tenant="one"), now, every="10m")
    make_trigger(make_job(now, "a:theirs", tenant="two"), now, every="10m")
    assert api("schedules:read").get("/v1/dashboard/forecast").status_code == 403
    body = api("jobs:read", tenant="two").get("/v1/dashboard/forecast?jobs=1").json()
    assert [job["job_key"] for job in body["jobs"]] == ["a:theirs"]
    assert body["total"] == 6
