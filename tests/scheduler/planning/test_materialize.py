"""Fires become runs: each once, at instants that do not depend on when a pass happens to run."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from django.db import DataError, OperationalError

from runners.models import AuditEvent
from scheduler.models import Job, Lane, QueueEntry, Run, Trigger
from scheduler.queries import fires as queries
from scheduler.services import materialize as passes
from scheduler.services import planning
from scheduler.services.jobs import save_job
from scheduler.services.materialize import materialize
from scheduler.services.pause import pause_job
from scheduler.services.triggers import save_trigger
from scheduler.sql.planned import BatchSize, batch_size
from tests.conftest import NOW
from tests.factories import CalendarFactory, CalendarRuleFactory, ConcurrencyGroupFactory, TriggerFactory
from tests.scheduler.planning.support import ACTOR, make_job, make_trigger, planned
from tests.support.races import Session, together

pytestmark = pytest.mark.django_db

SECOND = timedelta(seconds=1)
MINUTE = timedelta(minutes=1)
HOUR = timedelta(hours=1)


@pytest.fixture
def short_horizon(settings):
    """A minute ahead only, so that the passes of a short test really plan."""
    settings.CRONIQ_HORIZON_SECONDS = 60


def test_a_five_second_job_looked_at_every_second_for_two_minutes_has_exactly_24_runs(clock, short_horizon):
    created = clock.now()
    job = make_job(created)
    make_trigger(job, created, every="5s")
    inserted = 0
    clock.tick(timedelta(milliseconds=400))  # passes never fall on the instants themselves
    for _ in range(120):
        inserted += materialize(clock.tick()).inserted
    assert inserted > 12  # the save planned one minute, the passes the others
    due = Run.objects.filter(job=job, scheduled_for__lte=clock.now()).order_by("scheduled_for")
    assert [run.scheduled_for for run in due] == [created + 5 * k * SECOND for k in range(1, 25)]


def test_irregular_passes_and_a_restart_in_between_do_not_shift_the_instants(clock, short_horizon):
    created = clock.now()
    job = make_job(created)
    make_trigger(job, created, every="7s")
    for pause in (1, 13, 2, 31, 59, 3, 7, 44):
        materialize(clock.tick(pause * SECOND + timedelta(milliseconds=137)))
    instants = planned(job)
    assert instants == [created + 7 * k * SECOND for k in range(1, len(instants) + 1)]
    assert instants[-1] > clock.now()


def test_the_runs_are_what_the_job_says_and_claimable_at_their_instant(clock):
    job = make_job(clock.now(), timeout="9s", lease="8s", max_retries=4, max_losses=1, require=["x"])
    make_trigger(job, clock.now(), every="30m")
    run, entry = Run.objects.order_by("scheduled_for")[0], QueueEntry.objects.order_by("available_at")[0]
    at = clock.now() + 30 * MINUTE
    assert (run.scheduled_for, run.occurrence_at, run.kind, run.verdict, run.metadata) == (
        at,
        at,
        "scheduled",
        None,
        None,
    )
    assert (entry.available_at, entry.state, entry.attempt) == (at, QueueEntry.State.READY, 0)
    assert (entry.lane_id, entry.own_lane, entry.max_attempts, entry.max_losses) == (job.lane_id, False, 5, 1)
    assert (entry.timeout_seconds, entry.lease_seconds) == (9, 8)


def test_where_two_triggers_of_a_job_meet_there_is_one_run(clock):
    job = make_job(clock.now())
    make_trigger(job, clock.now(), cron_expression="*/10 * * * *")
    make_trigger(job, clock.now(), cron_expression="*/15 * * * *")
    assert [at.minute for at in planned(job)] == [10, 15, 20, 30, 40, 45, 50, 0]
    assert Run.objects.count() == QueueEntry.objects.count() == 8


@pytest.mark.django_db(transaction=True)
def test_many_materializers_at_one_moment_plan_each_fire_once(now):
    jobs = [make_job(now, f"demo:job-{n}") for n in range(8)]
    for job in jobs:
        make_trigger(job, now, every="1m")
    later = now + 50 * MINUTE
    summaries = together([lambda: materialize(later) for _ in range(6)])
    assert sum(summary.inserted for summary in summaries) == 8 * 50
    for job in jobs:
        assert planned(job) == [now + k * MINUTE for k in range(1, 111)]
    assert set(Trigger.objects.values_list("cursor_at", "config_error")) == {(later + HOUR, "")}
    assert not AuditEvent.objects.filter(action="trigger.broken").exists()


@pytest.mark.django_db(transaction=True)
def test_a_trigger_that_another_materializer_has_in_hand_is_left_to_it(now, database):
    if database == "sqlite":
        pytest.skip("SQLite has one writer: the second transaction does not begin before the first has ended")
    first, second = make_job(now, "demo:first"), make_job(now, "demo:second")
    make_trigger(first, now, every="1m")
    Trigger.objects.update(next_materialize_at=now)
    with Session() as ours, Session() as theirs:
        theirs.begin()
        theirs.run(lambda: passes._lock_due(now))
        make_trigger(second, now, every="1m")
        Trigger.objects.filter(job=second).update(next_materialize_at=now)
        assert ours.start(materialize, now).result(10).triggers == 1
        theirs.rollback()
        assert ours.run(materialize, now).triggers == 1


@pytest.mark.django_db(transaction=True)
def test_a_pass_does_not_plan_by_a_definition_that_is_being_edited(now, database):
    job = make_job(now)
    make_trigger(job, now, every="10m")
    later = now + 45 * MINUTE
    with Session() as passing, Session() as editing:
        editing.begin()
        editing.run(lambda: save_job({"job_key": "demo:job", "require": ["gpu"]}, now, ACTOR))
        summary = passing.start(materialize, later)
        if database == "postgresql":  # SQLite: the pass waits for the edit
            assert summary.result(10).triggers == 0
        editing.commit()
        summary.result(20)
        passing.run(materialize, later)
    assert len(planned(job)) == 10
    assert set(QueueEntry.objects.values_list("lane__require__0", flat=True)) == {"gpu"}


class Died(BaseException):
    """The process ends here: nothing in the product catches it."""


@pytest.mark.parametrize("step", ["insert_planned", "_record_skipped", "move_cursors", "record_events"])
def test_a_pass_that_breaks_anywhere_leaves_neither_runs_nor_a_moved_cursor(clock, monkeypatch, step):
    job = make_job(clock.now())
    make_trigger(job, clock.now(), every="1m")
    before = list(Trigger.objects.values_list("cursor_at", "next_materialize_at"))
    clock.tick(50 * MINUTE)
    real = getattr(planning, step)

    def breaks(*args, **kwargs):
        real(*args, **kwargs)
        raise Died

    with monkeypatch.context() as patch:
        patch.setattr(planning, step, breaks)
        with pytest.raises(Died):
            materialize(clock.now())
    assert planned(job) == [clock.now() - 50 * MINUTE + k * MINUTE for k in range(1, 61)]
    assert list(Trigger.objects.values_list("cursor_at", "next_materialize_at")) == before
    assert materialize(clock.now()).inserted == 50
    assert len(planned(job)) == 110


def break_trigger(trigger: Trigger, how: str) -> None:
    """Write nonsense past the services, as a person with a database shell can."""
    rows = Trigger.objects.filter(pk=trigger.pk)
    if how == "zone":
        rows.update(timezone="Europe/Atlantis")
    elif how == "cron":
        rows.update(cron_expression="61 25 * * *")
    elif how == "period":
        rows.update(kind="interval", cron_expression="", every=timedelta(seconds=-5), anchor_at=trigger.created_at)
    else:
        calendar = CalendarFactory(timezone="Mars/Olympus" if how == "calendar zone" else "UTC")
        CalendarRuleFactory(calendar=calendar, weekdays=[99] if how == "calendar rule" else [1])
        rows.update(calendar=calendar)


@pytest.mark.parametrize("how", ["zone", "cron", "period", "calendar zone", "calendar rule"])
def test_a_trigger_that_is_nonsense_stops_only_itself_and_says_why(clock, how):
    good, bad = make_job(clock.now(), "demo:good"), make_job(clock.now(), "demo:bad")
    broken = make_trigger(bad, clock.now(), cron_expression="* * * * *")
    fine = make_trigger(bad, clock.now(), every="10m")
    make_trigger(good, clock.now(), every="10m")
    break_trigger(broken, how)
    planned_before = len(planned(bad))
    clock.tick(45 * MINUTE)
    summary = materialize(clock.now())
    assert (summary.triggers, summary.broken, summary.is_done) == (3, 1, True)
    assert len(planned(good)) == 10
    assert len(planned(bad)) == planned_before + 4
    broken.refresh_from_db()
    fine.refresh_from_db()
    assert broken.config_error
    assert fine.config_error == ""
    assert broken.next_materialize_at == clock.now() + HOUR
    # It is tried again in an hour, and told of once.
    for _ in range(3):
        clock.tick(HOUR)
        assert materialize(clock.now()).broken == 1
    assert AuditEvent.objects.filter(action="trigger.broken", target_id=str(broken.pk)).count() == 1
    # An edit mends it.
    save_trigger(
        bad,
        {"cron_expression": "0 * * * *", "timezone": "UTC", "calendar": None, "on_blocked": "advance"},
        clock.now(),
        trigger=broken,
    )
    broken.refresh_from_db()
    assert broken.config_error == ""
    assert broken.next_materialize_at > clock.now()


def test_a_row_that_the_database_chokes_on_stops_only_itself(clock, monkeypatch):
    good, bad = make_job(clock.now(), "demo:good"), make_job(clock.now(), "demo:bad")
    triggers = [make_trigger(job, clock.now(), every="10m") for job in (good, bad)]
    clock.tick(45 * MINUTE)
    real = planning.insert_planned

    def chokes(runs, now):
        if any(run.job_id == bad.pk for run in runs):
            # A real failure of a statement, after which PostgreSQL takes no other in this transaction.
            Lane.objects.create(tenant=good.lane.tenant, route=good.lane.route, priority=good.lane.priority)
        return real(runs, now)

    with monkeypatch.context() as patch:
        patch.setattr(planning, "insert_planned", chokes)
        summary = materialize(clock.now())
    assert (summary.triggers, summary.broken, summary.is_done) == (2, 1, True)
    assert (len(planned(good)), len(planned(bad))) == (10, 6)
    for trigger in triggers:
        trigger.refresh_from_db()
    assert triggers[0].config_error == ""
    assert triggers[1].config_error.startswith("IntegrityError")
    assert triggers[1].next_materialize_at == clock.now() + HOUR
    assert materialize(clock.tick(HOUR)).broken == 0
    triggers[1].refresh_from_db()
    assert triggers[1].config_error == ""


def test_a_calendar_that_never_opens_is_told_of_and_costs_no_more_passes(clock):
    job = make_job(clock.now())
    calendar = CalendarFactory(name="shut")
    rule = CalendarRuleFactory(calendar=calendar, weekdays=[1, 2, 3, 4, 5, 6, 7])
    trigger = make_trigger(job, clock.now(), every="1m", calendar="shut")
    type(rule).objects.update(effect="exclude")
    materialize(clock.tick(HOUR))
    materialize(clock.tick(HOUR))
    trigger.refresh_from_db()
    assert "closed" in trigger.config_error
    assert trigger.next_materialize_at is None


def test_at_most_a_thousand_runs_of_a_trigger_are_planned_ahead(clock):
    job = make_job(clock.now())
    make_trigger(job, clock.now(), every="1s")
    summary = materialize(clock.now())
    assert (summary.is_done, len(planned(job))) == (True, 1000)
    for _ in range(40):
        materialize(clock.tick(20 * SECOND))
        ahead = [at for at in planned(job) if at > clock.now()]
        assert 400 <= len(ahead) <= 1000
    instants = planned(job)
    assert instants == [instants[0] + k * SECOND for k in range(len(instants))]


def test_no_transaction_holds_more_than_a_batch_of_runs(clock, monkeypatch, database):
    if database == "sqlite":
        assert batch_size().runs == 500
    monkeypatch.setattr(passes, "batch_size", lambda: BatchSize(100, 500))
    sizes = []
    real = planning.carry_out
    monkeypatch.setattr(
        passes, "carry_out", lambda plans, now: sizes.append(sum(len(p.fires) for p in plans)) or real(plans, now)
    )
    for n in range(7):
        make_trigger(make_job(clock.now(), f"demo:job-{n}"), clock.now(), every="20s")
    assert materialize(clock.tick(50 * MINUTE)).inserted == 7 * 150
    assert sum(sizes) == 1050
    assert max(sizes) == 500


def test_whoever_has_many_fires_waits_for_the_others_after_each_hundred(clock, monkeypatch):
    """Else the jobs of every second have their hour planned before any other has its next fire."""
    jobs = [make_job(clock.now(), f"demo:job-{n}") for n in range(4)]
    for job in jobs:
        make_trigger(job, clock.now(), every="20m" if job is jobs[3] else "2s")
    QueueEntry.objects.all().delete()
    Run.objects.all().delete()
    Trigger.objects.update(cursor_at=clock.now(), next_materialize_at=clock.now())
    Trigger.objects.filter(job=jobs[3]).update(next_materialize_at=clock.tick())
    now = clock.tick()
    assert materialize(now, limit=303).inserted == 303
    assert [len(planned(job)) for job in jobs] == [100, 100, 100, 3]
    assert max(planned(jobs[0])) == now - 2 * SECOND + 100 * 2 * SECOND
    monkeypatch.setattr(passes, "RUNS_A_TURN", 7)
    assert materialize(now, limit=21).inserted == 21
    assert [len(planned(job)) for job in jobs] == [107, 107, 107, 3]


def test_a_pass_is_bounded_and_says_that_there_is_more(clock):
    for n in range(3):
        make_trigger(make_job(clock.now(), f"demo:job-{n}"), clock.now(), every="1m")
    clock.tick(50 * MINUTE)
    first = materialize(clock.now(), limit=70)
    assert (first.inserted, first.is_done) == (70, False)
    assert first.next_due_at <= clock.now()
    second = materialize(clock.now(), limit=500)
    assert (second.inserted, second.is_done) == (80, True)
    assert second.next_due_at > clock.now()


def test_a_sparse_schedule_is_left_alone_until_its_fire_is_near(clock):
    job = make_job(clock.now())
    trigger = make_trigger(job, clock.now(), cron_expression="0 9 1 6 *")
    fire = datetime(2026, 6, 1, 9, tzinfo=UTC)
    assert planned(job) == []
    assert trigger.next_materialize_at == fire - 30 * MINUTE
    assert materialize(fire - 31 * MINUTE).triggers == 0
    assert materialize(fire - 30 * MINUTE).inserted == 1
    assert planned(job) == [fire]


def test_once_fires_once_and_is_done(clock):
    job = make_job(clock.now())
    at = clock.now() + 3 * HOUR
    trigger = make_trigger(job, clock.now(), run_at=at.isoformat())
    assert planned(job) == []
    materialize(clock.tick(2 * HOUR + 30 * MINUTE))
    assert planned(job) == [at]
    materialize(clock.tick(HOUR))
    trigger.refresh_from_db()
    assert (trigger.next_materialize_at, trigger.config_error) == (None, "")
    assert planned(job) == [at]


def test_the_bounds_of_a_trigger_are_inclusive_and_its_end_is_the_end(clock):
    job = make_job(clock.now())
    start = clock.now()
    trigger = make_trigger(
        job,
        start,
        cron_expression="*/10 * * * *",
        not_before=(start + 20 * MINUTE).isoformat(),
        not_after=(start + 40 * MINUTE).isoformat(),
    )
    assert planned(job) == [start + 20 * MINUTE, start + 30 * MINUTE, start + 40 * MINUTE]
    assert trigger.next_materialize_at is None
    assert trigger.config_error == ""


def test_a_daily_window_is_on_the_clock_of_the_triggers_zone(clock):
    job = make_job(clock.now())
    trigger = make_trigger(
        job, clock.now(), cron_expression="*/15 * * * *", timezone="Europe/Vienna", window="12:30-13:00"
    )
    assert planned(job) == []
    tomorrow = datetime(2026, 3, 3, 11, 30, tzinfo=UTC)
    assert trigger.next_materialize_at == tomorrow - 30 * MINUTE
    materialize(tomorrow - 30 * MINUTE)
    assert planned(job) == [tomorrow, tomorrow + 15 * MINUTE]


def test_a_calendar_decides_which_occurrences_become_runs(clock):
    calendar = CalendarFactory(name="half")
    CalendarRuleFactory(calendar=calendar, weekdays=[], window_start="12:00", window_end="12:30")
    job = make_job(clock.now())
    make_trigger(job, clock.now(), cron_expression="*/10 * * * *", calendar="half")
    assert [at.minute for at in planned(job)] == [10, 20]


def test_a_deferred_occurrence_keeps_its_original_instant(clock):
    calendar = CalendarFactory(name="late")
    CalendarRuleFactory(calendar=calendar, weekdays=[], window_start="12:30", window_end="13:00")
    job = make_job(clock.now())
    make_trigger(job, clock.now(), run_at="2026-03-02T12:10:00Z", calendar="late")
    run = Run.objects.get()
    assert (run.scheduled_for.minute, run.occurrence_at.minute) == (30, 10)


def test_a_clock_that_was_stepped_back_plans_again_and_doubles_nothing(clock):
    job = make_job(clock.now())
    make_trigger(job, clock.now(), cron_expression="*/20 * * * *")
    materialize(clock.tick(10 * HOUR))
    before = planned(job)
    clock.tick(-5 * HOUR)
    assert materialize(clock.now()).inserted == 3
    assert Trigger.objects.get().cursor_at == clock.now() + HOUR
    assert sorted(set(planned(job)) - set(before)) == [clock.now() + 20 * k * MINUTE for k in (1, 2, 3)]
    # Forward again over what was planned then: those runs stay the only ones of their occurrences.
    for _ in range(10):
        materialize(clock.tick(30 * MINUTE))
    instants = planned(job)
    assert len(instants) == len(set(instants))
    assert set(before) <= set(instants)
    assert not AuditEvent.objects.filter(action="trigger.broken").exists()


def test_a_sparse_trigger_that_waits_for_next_year_notices_a_clock_that_was_stepped_back(clock):
    job = make_job(clock.now(), catch_up="none")
    make_trigger(job, clock.now(), cron_expression="0 9 5 3 *")
    materialize(datetime(2026, 3, 10, tzinfo=UTC))
    assert planned(job) == []
    materialize(datetime(2026, 3, 5, 8, 30, tzinfo=UTC))
    assert planned(job) == [datetime(2026, 3, 5, 9, tzinfo=UTC)]


def test_a_paused_job_plans_held_runs_and_a_limited_one_gated_ones(clock):
    paused, limited = make_job(clock.now(), "demo:paused"), make_job(clock.now(), "demo:limited")
    grouped = make_job(clock.now(), "demo:grouped")
    pause_job("demo:paused", clock.now())
    Job.objects.filter(pk=limited.pk).update(max_concurrent=1)
    Job.objects.filter(pk=grouped.pk).update(concurrency_group=ConcurrencyGroupFactory())
    for job in (paused, limited, grouped):
        make_trigger(job, clock.now(), every="30m")
    states = QueueEntry.objects.values_list("job__job_key", "state").distinct().order_by("job__job_key")
    assert list(states) == [
        ("demo:grouped", QueueEntry.State.GATED),
        ("demo:limited", QueueEntry.State.GATED),
        ("demo:paused", QueueEntry.State.HELD),
    ]


def test_the_triggers_of_inactive_and_deleted_jobs_are_not_planned(clock):
    job = make_job(clock.now())
    make_trigger(job, clock.now(), every="10m")
    Job.objects.update(is_active=False)
    assert materialize(clock.tick(HOUR)).triggers == 0
    Job.objects.update(is_active=True, deleted_at=clock.now())
    summary = materialize(clock.tick(HOUR))
    assert (summary.triggers, summary.next_due_at) == (0, None)


def test_attempts_beyond_what_the_database_counts_stop_nobody(clock):
    job = make_job(clock.now())
    Job.objects.update(max_retries=2**31 - 1)
    job.refresh_from_db()
    make_trigger(job, clock.now(), every="30m")
    assert len(planned(job)) == 2


@pytest.fixture
def down(clock):
    """A minutely job whose materializers were down: (policy, grace, most) to the job, resumed 90.5 minutes later."""

    def stop(**fields) -> Job:
        job = make_job(clock.now(), **fields)
        make_trigger(job, clock.now(), every="1m")
        QueueEntry.objects.all().delete()
        Run.objects.all().delete()
        clock.tick(HOUR + 90 * MINUTE + 30 * SECOND)
        materialize(clock.now())
        return job

    return stop


def late(job: Job, now: datetime) -> list[float]:
    """How many minutes ago the job's due runs were to begin."""
    return [(now - at).total_seconds() / 60 for at in planned(job) if at <= now]


@pytest.mark.parametrize(
    ("fields", "caught_up", "skipped"),
    [
        ({}, [0.5], 89),
        ({"catch_up": "latest"}, [0.5], 89),
        ({"catch_up": "none"}, [], 90),
        ({"catch_up": "all"}, [k + 0.5 for k in range(89, -1, -1)], 0),
        ({"catch_up": "all", "max_catch_up": 3}, [2.5, 1.5, 0.5], 87),
        ({"catch_up": "all", "misfire_grace": "2m"}, [1.5, 0.5], 88),
        ({"catch_up": "latest", "misfire_grace": "10s"}, [], 90),
    ],
)
def test_what_was_missed_while_nobody_planned_is_caught_up_as_the_job_wants(down, clock, fields, caught_up, skipped):
    job = down(**fields)
    assert late(job, clock.now()) == caught_up
    # The schedule itself goes on at its instants.
    assert next(at for at in planned(job) if at > clock.now()) == clock.now() + 30 * SECOND
    spans = list(job.skipped_spans.values_list("first_at", "count", "reason"))
    assert spans == ([(clock.now() - timedelta(minutes=89.5), skipped, "downtime")] if skipped else [])
    assert AuditEvent.objects.filter(action="job.fires_skipped").count() == len(spans)


@pytest.mark.parametrize(
    ("fields", "minutes"),
    [({}, [0.5]), ({"catch_up": "none"}, []), ({"catch_up": "all", "max_catch_up": 3}, [2.5, 1.5, 0.5])],
)
def test_a_gap_of_thirty_years_is_one_span_and_one_look_at_either_end(clock, monkeypatch, fields, minutes):
    listed = []
    real = queries.trigger_fires
    for module in (planning, queries):
        monkeypatch.setattr(module, "trigger_fires", lambda *a, **kw: listed.extend(found := real(*a, **kw)) or found)
    job = make_job(clock.now(), **fields)
    make_trigger(job, clock.now(), every="1m")
    planned_to = clock.now() + HOUR
    clock.tick(timedelta(days=30 * 365) + 30 * SECOND)
    listed.clear()
    assert materialize(clock.now()).is_done
    assert len(listed) < 2 * planning.MOST_COUNTED
    assert [ago for ago in late(job, clock.now()) if ago < 60] == minutes
    span = job.skipped_spans.get()
    last = clock.now() - (30 + 60 * len(minutes)) * SECOND
    assert (span.first_at, span.last_at) == (planned_to + MINUTE, last)
    assert span.count == (span.last_at - span.first_at) // MINUTE + 1
    assert materialize(clock.tick()).triggers == 0


def test_a_pass_that_is_a_little_late_drops_nothing(clock, short_horizon):
    job = make_job(clock.now(), catch_up="none")
    start = clock.now()
    make_trigger(job, start, every="5s")
    clock.tick(119 * SECOND)  # the horizon ended 59 seconds ago
    materialize(clock.now())
    assert planned(job) == [start + 5 * k * SECOND for k in range(1, 36)]
    assert not job.skipped_spans.exists()


def test_nothing_before_a_trigger_was_made_is_caught_up(clock):
    job = make_job(clock.now(), catch_up="all")
    anchor = clock.now() - 10 * HOUR
    make_trigger(job, clock.now(), every="1h", anchor=anchor.isoformat())
    assert planned(job) == [clock.now() + HOUR]


def test_a_new_trigger_is_planned_by_its_save_before_any_pass(clock):
    job = make_job(clock.now())
    make_trigger(job, clock.now(), every="2s")
    assert planned(job)[0] == clock.now() + 2 * SECOND


def test_a_pass_with_nothing_due_is_one_look_at_the_index(clock, django_assert_num_queries):
    make_trigger(make_job(clock.now()), clock.now(), every="1m")
    materialize(clock.now())
    with django_assert_num_queries(1):
        assert materialize(clock.tick()).triggers == 0


@pytest.mark.parametrize("errors", [[OperationalError], [DataError, OperationalError]], ids=["batch", "alone"])
def test_a_database_that_is_away_breaks_no_trigger(clock, monkeypatch, errors):
    """Who is broken stands still for an hour; here nothing is wrong with the row."""
    job = make_job(clock.now())
    trigger = make_trigger(job, clock.now(), every="1m", not_before="2020-01-01T00:00:00Z")
    clock.tick(50 * MINUTE)
    said = iter(errors)

    def away(*_, **__):
        raise next(said)("disk I/O error")

    with monkeypatch.context() as patch:
        patch.setattr(planning, "trigger_fires", away)
        with pytest.raises(OperationalError):
            materialize(clock.now())
    trigger.refresh_from_db()
    assert trigger.config_error == ""
    assert materialize(clock.now()).inserted == 50


@pytest.mark.parametrize("off", [{"enabled": False}, {"job__is_active": False}, {"job__deleted_at": NOW}])
def test_whatever_is_switched_off_is_not_planned_though_it_was_due(now, off):
    TriggerFactory(**off)
    TriggerFactory()
    summary = materialize(now)
    assert (summary.triggers, summary.inserted) == (1, 60)
