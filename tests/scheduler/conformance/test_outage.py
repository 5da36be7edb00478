"""Nobody could renew while nobody served: after an outage each holder has one whole lease to come back."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest

from croniq_site.kernel.clock import DatabaseClock
from croniq_site.kernel.ids import uuid7
from croniq_site.kernel.stop import StopToken
from runners.models import AuditEvent, Heartbeat, Outage, RunnerInstance
from runners.services.outages import SILENCE, note_outage
from scheduler.management.commands import serve
from scheduler.models import Attempt, QueueEntry, Run
from scheduler.services.finish import time_out
from scheduler.services.release import reap_leases
from scheduler.services.renew import renew_held
from scheduler.workers import reaper
from tests.factories import HeartbeatFactory, JobFactory, OutageFactory, QueueEntryFactory, RunnerInstanceFactory
from tests.support.polling import poll_until
from tests.support.races import Session, in_thread, is_waiting_for_lock, together

pytestmark = pytest.mark.django_db

SECOND = timedelta(seconds=1)
MINUTE = timedelta(minutes=1)
TICK = timedelta(microseconds=1)
LEASE = timedelta(seconds=60)


def claims(count: int, holder: RunnerInstance, now: datetime, step: timedelta = timedelta()) -> list[QueueEntry]:
    """``count`` runs that ``holder`` claimed at ``now``; each lease ends ``step`` after the one before it."""
    job = JobFactory()
    runs = [
        Run(
            id=uuid7(now),
            job=job,
            kind="scheduled",
            scheduled_for=now + n * SECOND,
            occurrence_at=now + n * SECOND,
            created_at=now,
        )
        for n in range(count)
    ]
    Run.objects.bulk_create(runs)
    entries = [
        QueueEntry(
            run=run,
            job=job,
            lane=job.lane,
            state=QueueEntry.State.CLAIMED,
            available_at=now,
            attempt=1,
            max_attempts=4,
            max_losses=2,
            lease_seconds=LEASE.total_seconds(),
            timeout_seconds=86_400,
            holder=holder,
            claimed_at=now,
            lease_expires_at=now + LEASE + n * step,
            deadline_at=now + timedelta(days=2),
        )
        for n, run in enumerate(runs)
    ]
    return QueueEntry.objects.bulk_create(entries)


def serve_beats(now: datetime) -> None:
    """What `serve` does every two seconds."""
    note_outage(now)
    Heartbeat.objects.filter(kind="serve").update(beat_at=now)


def served_until(now: datetime) -> None:
    """It has done so all the time since it was last looked at."""
    Heartbeat.objects.filter(kind="serve").update(beat_at=now)


@pytest.mark.parametrize("first_back", ["reaper", "server"])
def test_a_database_that_was_away_for_ten_minutes_costs_nobody_his_run(now, holder, first_back):
    HeartbeatFactory(beat_at=now)
    entries = claims(600, holder, now)
    back = now + 10 * MINUTE
    if first_back == "server":
        serve_beats(back)
    assert reaper.run_once(back).done["leases"] == 0
    if first_back == "reaper":
        serve_beats(back + SECOND)
        back += SECOND
    at = back
    while at < back + LEASE:
        assert reaper.run_once(at).done["leases"] == 0
        at += 2 * SECOND
        serve_beats(at)
    # 200 runners came back within their lease, the others never.
    kept = [entry.run_id for entry in entries[:200]]
    assert len(renew_held(holder.pk, kept, back + LEASE - SECOND)) == 200
    assert reap_leases(back + LEASE - TICK).total == 0
    assert reap_leases(back + LEASE).lost == 400
    assert set(QueueEntry.objects.filter(state=QueueEntry.State.CLAIMED).values_list("run_id", flat=True)) == set(kept)
    outage = Outage.objects.get()
    assert (outage.began_at, outage.ended_at) == (now, back)
    assert AuditEvent.objects.filter(action="site.outage").count() == 1


def test_while_only_the_servers_are_away_the_reaper_waits_however_long_that_is(now, holder):
    HeartbeatFactory(beat_at=now, ended_at=now)  # stopped in good order: its runners cannot renew either
    claims(3, holder, now)
    for minutes in range(1, 11):
        assert reap_leases(now + minutes * MINUTE).total == 0
    serve_beats(now + 11 * MINUTE)
    assert Outage.objects.get().ended_at == now + 11 * MINUTE
    served_until(now + 11 * MINUTE + LEASE)
    assert reap_leases(now + 11 * MINUTE + LEASE - TICK).total == 0
    assert reap_leases(now + 11 * MINUTE + LEASE).lost == 3


def test_a_heartbeat_of_any_server_within_five_seconds_is_no_outage(now, holder):
    claims(1, holder, now)
    HeartbeatFactory(beat_at=now - timedelta(hours=1))
    alive = HeartbeatFactory(beat_at=now + LEASE)
    HeartbeatFactory(beat_at=now + 2 * LEASE, kind="reap")
    assert reap_leases(now + LEASE + SILENCE).lost == 1
    assert not Outage.objects.exists()
    claims(1, holder, now)
    assert reap_leases(now + LEASE + SILENCE + TICK).lost == 0
    assert Outage.objects.get().began_at == alive.beat_at


def test_where_nobody_ever_served_leases_end_as_they_say(now, holder):
    claims(1, holder, now)
    assert reap_leases(now + LEASE).lost == 1


def test_a_claim_made_after_the_outage_has_its_own_lease_and_deadline(now):
    OutageFactory(ended_at=now)
    HeartbeatFactory(beat_at=now + 20 * SECOND)
    late = now + SECOND
    times = {"claimed_at": late, "lease_expires_at": late + 10 * SECOND, "deadline_at": late + 5 * SECOND}
    QueueEntryFactory(claimed=True, **times)
    assert time_out(late + 5 * SECOND, 500) == 1
    QueueEntryFactory(claimed=True, **times, job__lease_seconds=10)
    assert reap_leases(late + 10 * SECOND).lost == 1


def test_a_deadline_that_passed_in_the_outage_waits_for_the_ack_that_could_not_be_said(now):
    HeartbeatFactory(beat_at=now)
    entry = QueueEntryFactory(claimed=True, deadline_at=now + MINUTE, lease_expires_at=now + timedelta(hours=1))
    back = now + 10 * MINUTE
    assert time_out(back, 500) == 0
    serve_beats(back)
    served_until(back + LEASE)
    assert time_out(back + LEASE - TICK, 500) == 0
    assert time_out(back + LEASE, 500) == 1
    assert Attempt.objects.get().run_id == entry.run_id


def test_each_run_has_a_lease_of_its_own_to_come_back(now):
    HeartbeatFactory(beat_at=now)
    short = QueueEntryFactory(claimed=True, job__lease_seconds=10)
    QueueEntryFactory(claimed=True, job__lease_seconds=3600)
    back = now + timedelta(hours=2)
    serve_beats(back)
    served_until(back + 10 * SECOND)
    assert reap_leases(back + 10 * SECOND).lost == 1
    assert Attempt.objects.get().run_id == short.run_id


def test_a_second_outage_counts_anew(now, holder):
    HeartbeatFactory(beat_at=now)
    claims(1, holder, now)
    serve_beats(now + 10 * MINUTE)
    serve_beats(now + 10 * MINUTE + 2 * SECOND)
    serve_beats(now + 20 * MINUTE)
    assert reap_leases(now + 20 * MINUTE + SECOND).total == 0
    assert Outage.objects.count() == 2


def test_a_clock_that_goes_back_makes_no_outage_and_ends_none_earlier(now):
    HeartbeatFactory(beat_at=now)
    assert note_outage(now - timedelta(hours=1)) is None
    assert note_outage(now + 10 * SECOND) == now + 10 * SECOND
    assert note_outage(now + 8 * SECOND) == now + 10 * SECOND


@pytest.mark.django_db(transaction=True)
def test_all_who_miss_the_servers_at_one_moment_write_one_outage(now, holder):
    HeartbeatFactory(beat_at=now)
    claims(4, holder, now)
    back = now + 10 * MINUTE
    instants = [back + n * timedelta(milliseconds=1) for n in range(4)]
    reaped = together([lambda at=at: reap_leases(at).total for at in instants])
    assert reaped == [0, 0, 0, 0]
    assert Outage.objects.get().ended_at == instants[-1]
    assert AuditEvent.objects.filter(action="site.outage").count() == 1


@pytest.mark.django_db(transaction=True)
def test_a_reaper_that_comes_while_a_server_writes_its_first_heartbeat_spares_all(now, holder, database):
    HeartbeatFactory(beat_at=now)
    claims(4, holder, now)
    back = now + 10 * MINUTE
    with Session() as server, Session() as sweeper:
        backend_pid = sweeper.backend_pid if database == "postgresql" else None
        server.begin()
        server.run(lambda: serve_beats(back))
        reaped = sweeper.start(lambda: reap_leases(back + SECOND).total)
        if backend_pid is not None:
            poll_until(lambda: is_waiting_for_lock(backend_pid), what="the reaper waits for the outage's row")
        server.commit()
        assert reaped.result(30) == 0
    assert Outage.objects.count() == 1


@pytest.mark.django_db(transaction=True)
def test_a_server_that_is_back_says_so_before_its_heartbeat_hides_it():
    now = DatabaseClock().now()
    gone = HeartbeatFactory(beat_at=now - timedelta(hours=1))
    stop = StopToken()
    alive = in_thread(serve._keep_heartbeat, stop)
    poll_until(lambda: Heartbeat.objects.filter(kind="serve", ended_at__isnull=True).exclude(pk=gone.pk).exists(), 20)
    outage = Outage.objects.get()
    assert outage.began_at == gone.beat_at
    assert now <= outage.ended_at <= DatabaseClock().now()
    # It is away again, and the next thing that it does is to end: that too hides a silence.
    Heartbeat.objects.update(beat_at=now - timedelta(minutes=30))
    stop.stop()
    alive.result(20)
    assert Outage.objects.count() == 2


def test_twelve_hundred_expired_leases_end_in_three_sweeps_oldest_first(now):
    holder = RunnerInstanceFactory()
    entries = claims(1200, holder, now, step=SECOND)
    late = now + timedelta(days=1)
    order = [entry.run_id for entry in entries]
    lost: list = []
    for expected in (500, 500, 200):
        assert reaper.run_once(late, limit=500).done["leases"] == expected
        gone = set(Attempt.objects.values_list("run_id", flat=True)) - set(lost)
        assert gone == set(order[len(lost) : len(lost) + expected])
        lost += gone
    assert reaper.run_once(late).done["leases"] == 0
