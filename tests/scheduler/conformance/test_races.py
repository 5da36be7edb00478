"""Two who want the same run at the same moment. Each test tells which of them was first."""

from __future__ import annotations

from concurrent.futures import Future
from datetime import timedelta
from functools import partial
from uuid import UUID

import pytest

from croniq_site.kernel.errors import Conflict
from runners.models import RunnerInstance
from runners.services.audit import Actor
from scheduler.domain.work import Ack, AckAnswer, AckStatus, LogLine, LossCause
from scheduler.models import Attempt, DeadLetter, QueueEntry, Run, RunLog
from scheduler.services.cancel import CancelResult, cancel_runs
from scheduler.services.claim import claim_due
from scheduler.services.finish import finish
from scheduler.services.log import append_log
from scheduler.services.release import reap_leases, release
from scheduler.services.renew import renew, renew_claims, renew_held
from tests.factories import JobFactory, QueueEntryFactory, RunnerInstanceFactory
from tests.support.polling import poll_until
from tests.support.races import DEADLINE_SECONDS, Session, is_waiting_for_lock, together

pytestmark = pytest.mark.django_db(transaction=True)

SECOND = timedelta(seconds=1)
DAY = timedelta(days=1)
ALICE = Actor("user", "alice")


class Waiter:
    """Somebody who comes second. On PostgreSQL the test knows that he waits; on SQLite nobody can do else."""

    def __init__(self, session: Session, database: str) -> None:
        self.session = session
        self.pid = session.backend_pid if database == "postgresql" else None

    def start(self, fn, *args) -> Future:
        future = self.session.start(fn, *args)
        if self.pid is not None:
            poll_until(lambda: is_waiting_for_lock(self.pid) or future.done(), what="the second one waits")
            assert not future.done(), "it did not wait for the first one"
        return future


@pytest.fixture
def first():
    with Session() as session:
        yield session


@pytest.fixture
def second(database):
    with Session() as session:
        yield Waiter(session, database)


def ack_of(entry, status=AckStatus.SUCCESS):
    return Ack(entry.run_id, entry.attempt, entry.holder.runner.runner_id, status)


def test_eight_claimers_never_get_the_same_run(now, lane):
    job = JobFactory(lane=lane)
    entries = [QueueEntryFactory(job=job) for _ in range(120)]
    holders = [RunnerInstanceFactory().pk for _ in range(8)]

    def claim_all(holder_id):
        taken = []
        while outcome := claim_due(now, 3, holder_id, [lane.pk]):
            taken += [(claimed.run_id, claimed.attempt, holder_id) for claimed in outcome]
        return taken

    taken = [one for part in together([partial(claim_all, pk) for pk in holders]) for one in part]
    assert sorted(run_id for run_id, _, _ in taken) == sorted(entry.run_id for entry in entries)
    assert {attempt for _, attempt, _ in taken} == {1}
    assert set(QueueEntry.objects.values_list("run_id", "attempt", "holder_id")) == set(taken)


def test_what_one_claim_has_taken_another_passes_over(now, lane, first, second, database):
    older, newer = QueueEntryFactory(job__lane=lane, available_at=now - SECOND), QueueEntryFactory(job__lane=lane)
    one, other = RunnerInstanceFactory(), RunnerInstanceFactory()
    first.begin()
    (taken,) = first.run(claim_due, now, 1, one.pk, [lane.pk])
    future = second.session.start(claim_due, now, 5, other.pk, [lane.pk])
    if database == "postgresql":
        # It does not even wait.
        assert [claimed.run_id for claimed in future.result(DEADLINE_SECONDS)] == [newer.run_id]
    first.commit()
    assert taken.run_id == older.run_id
    assert [claimed.run_id for claimed in future.result(DEADLINE_SECONDS)] == [newer.run_id]


def test_a_claim_locks_no_more_than_it_takes(now, lane, first, second, database):
    if database != "postgresql":
        pytest.skip("SQLite locks the whole database")
    for _ in range(3):
        QueueEntryFactory(job__lane=lane)
    first.begin()
    assert len(first.run(claim_due, now, 2, RunnerInstanceFactory().pk, [lane.pk])) == 2
    assert len(second.session.run(claim_due, now, 5, RunnerInstanceFactory().pk, [lane.pk])) == 1
    first.commit()


def test_a_takeover_while_a_claim_is_under_way_finds_that_claim(now, lane, holder, first, second):
    QueueEntryFactory(job__lane=lane)
    first.begin()
    assert len(first.run(claim_due, now, 1, holder.pk, [lane.pk])) == 1
    depose = RunnerInstance.objects.filter(pk=holder.pk, deposed_at__isnull=True).update
    future = second.start(partial(depose, deposed_at=now))
    first.commit()
    assert future.result(DEADLINE_SECONDS) == 1
    # What a takeover does next: it sees everything that its victim could ever claim.
    assert QueueEntry.objects.get(holder=holder).state == QueueEntry.State.CLAIMED


def test_a_claim_while_its_holder_is_being_deposed_gets_nothing(now, lane, holder, first, second):
    QueueEntryFactory(job__lane=lane)
    first.begin()
    depose = RunnerInstance.objects.filter(pk=holder.pk, deposed_at__isnull=True).update
    assert first.run(partial(depose, deposed_at=now)) == 1
    future = second.start(claim_due, now, 1, holder.pk, [lane.pk])
    first.commit()
    assert len(future.result(DEADLINE_SECONDS)) == 0
    assert QueueEntry.objects.get().state == QueueEntry.State.READY


def test_a_cancel_that_comes_during_the_claim_reaches_the_handler(now, lane, holder, first, second):
    entry = QueueEntryFactory(job__lane=lane)
    first.begin()
    assert len(first.run(claim_due, now, 1, holder.pk, [lane.pk])) == 1
    future = second.start(cancel_runs, [entry.run_id], now, ALICE)
    first.commit()
    assert future.result(DEADLINE_SECONDS) == [CancelResult(entry.run_id, True, True)]
    assert QueueEntry.objects.get().state == QueueEntry.State.STOPPING
    assert Run.objects.get().attempt == 1


def test_a_claim_that_comes_during_the_cancel_gets_nothing(now, lane, holder, first, second):
    entry = QueueEntryFactory(job__lane=lane)
    first.begin()
    assert first.run(cancel_runs, [entry.run_id], now, ALICE) == [CancelResult(entry.run_id, True, False)]
    future = second.session.start(claim_due, now, 1, holder.pk, [lane.pk])
    first.commit()
    assert len(future.result(DEADLINE_SECONDS)) == 0
    assert not QueueEntry.objects.exists()


def test_an_ack_that_comes_during_the_cancel_frees_the_place(now, first, second):
    entry = QueueEntryFactory(claimed=True)
    first.begin()
    first.run(cancel_runs, [entry.run_id], now, ALICE)
    future = second.start(finish, [ack_of(entry)], now)
    first.commit()
    assert future.result(DEADLINE_SECONDS) == [AckAnswer.WOUND_DOWN]
    assert Run.objects.get().verdict == "cancelled"
    assert not QueueEntry.objects.exists()


def test_a_cancel_that_comes_during_the_ack_is_too_late(now, first, second):
    entry = QueueEntryFactory(claimed=True)
    first.begin()
    first.run(finish, [ack_of(entry)], now)
    future = second.start(cancel_runs, [entry.run_id], now, ALICE)
    first.commit()
    with pytest.raises(Conflict):
        future.result(DEADLINE_SECONDS)
    assert Run.objects.get().verdict == "completed"


@pytest.mark.parametrize("status", AckStatus)
def test_of_two_equal_acks_at_once_one_counts_and_the_other_is_told_so(now, status, first, second):
    entry = QueueEntryFactory(claimed=True)
    first.begin()
    assert first.run(finish, [ack_of(entry, status)], now) == [AckAnswer.ACCEPTED]
    future = second.start(finish, [ack_of(entry, status)], now)
    first.commit()
    assert future.result(DEADLINE_SECONDS) == [AckAnswer.REPEATED]
    assert Attempt.objects.count() == (1 if status is AckStatus.FAILURE else 0)


def test_of_two_last_failures_at_once_one_writes_the_letter(now, first, second):
    entry = QueueEntryFactory(claimed=True, attempt=4)
    first.begin()
    assert first.run(finish, [ack_of(entry, AckStatus.FAILURE)], now) == [AckAnswer.ACCEPTED]
    future = second.start(finish, [ack_of(entry, AckStatus.FAILURE)], now)
    first.commit()
    assert future.result(DEADLINE_SECONDS) == [AckAnswer.REPEATED]
    assert DeadLetter.objects.count() == 1


@pytest.mark.parametrize("status", AckStatus)
def test_the_reaper_leaves_a_claim_alone_whose_ack_is_under_way(now, status, first, second, database):
    entry = QueueEntryFactory(claimed=True)
    first.begin()
    assert first.run(finish, [ack_of(entry, status)], now) == [AckAnswer.ACCEPTED]
    future = second.session.start(reap_leases, now + DAY)
    if database == "postgresql":
        assert future.result(DEADLINE_SECONDS).total == 0  # it does not even wait
    first.commit()
    assert future.result(DEADLINE_SECONDS).total == 0
    assert not Attempt.objects.filter(outcome="lost").exists()


@pytest.mark.parametrize("status", AckStatus)
def test_an_ack_that_comes_while_its_claim_is_reaped_is_stale(now, status, first, second):
    entry = QueueEntryFactory(claimed=True)
    first.begin()
    assert first.run(reap_leases, now + DAY).lost == 1
    future = second.start(finish, [ack_of(entry, status)], now)
    first.commit()
    assert future.result(DEADLINE_SECONDS) == [AckAnswer.STALE]
    assert Attempt.objects.get().outcome == "lost"
    assert QueueEntry.objects.get().state == QueueEntry.State.READY


@pytest.mark.parametrize("status", AckStatus)
def test_an_ack_that_waited_while_its_run_was_lost_and_claimed_again_is_stale(now, status, lane, first, second):
    entry = QueueEntryFactory(claimed=True, job__lane=lane)
    first.begin()
    first.run(reap_leases, now + DAY)
    # The same runner has it again: only the attempt tells the two claims apart.
    assert len(first.run(claim_due, now + DAY, 1, entry.holder_id, [lane.pk])) == 1
    future = second.start(finish, [ack_of(entry, status)], now + DAY)
    first.commit()
    assert future.result(DEADLINE_SECONDS) == [AckAnswer.STALE]
    after = QueueEntry.objects.get()
    assert (after.state, after.attempt) == (QueueEntry.State.CLAIMED, 2)


def test_two_reapers_count_one_loss(now, first, second):
    QueueEntryFactory(claimed=True)
    first.begin()
    assert first.run(reap_leases, now + DAY).lost == 1
    future = second.session.start(reap_leases, now + DAY)
    first.commit()
    assert future.result(DEADLINE_SECONDS).total == 0
    assert Attempt.objects.count() == 1


def test_a_takeover_and_the_reaper_count_one_loss(now, first, second):
    entry = QueueEntryFactory(claimed=True)
    first.begin()
    assert first.run(reap_leases, now + DAY).lost == 1
    future = second.start(release, [(entry.run_id, 1)], now, LossCause.TAKEOVER)
    first.commit()
    assert future.result(DEADLINE_SECONDS) == 0
    assert Attempt.objects.get().cause == "lease"


def test_a_renew_that_comes_while_its_claim_is_reaped_revives_nothing(now, first, second):
    entry = QueueEntryFactory(claimed=True)
    first.begin()
    first.run(reap_leases, now + DAY)
    future = second.start(renew, entry.run_id, entry.holder.runner.runner_id, 1, now + DAY)
    first.commit()
    with pytest.raises(Conflict):
        future.result(DEADLINE_SECONDS)
    assert QueueEntry.objects.get().lease_expires_at is None


def test_a_poll_that_comes_while_its_claim_is_reaped_renews_nothing(now, first, second):
    entry = QueueEntryFactory(claimed=True)
    first.begin()
    first.run(reap_leases, now + DAY)
    future = second.start(renew_held, entry.holder_id, [entry.run_id], now + DAY)
    first.commit()
    assert future.result(DEADLINE_SECONDS) == set()


def test_a_lease_that_is_being_renewed_is_not_reaped(now, first, second):
    entry = QueueEntryFactory(claimed=True)
    first.begin()
    first.run(renew_held, entry.holder_id, [entry.run_id], now + DAY)
    future = second.session.start(reap_leases, now + DAY)
    first.commit()
    assert future.result(DEADLINE_SECONDS).total == 0
    assert reap_leases(now + DAY).total == 0


def test_lines_that_come_before_the_ack_are_kept_and_lines_after_it_refused(now, first, second):
    entry = QueueEntryFactory(claimed=True)
    client_id = entry.holder.runner.client_id
    first.begin()
    first.run(append_log, entry.run_id, client_id, [LogLine("before")], now)
    future = second.start(finish, [ack_of(entry)], now)
    first.commit()
    assert future.result(DEADLINE_SECONDS) == [AckAnswer.ACCEPTED]
    late = QueueEntryFactory(claimed=True)
    first.begin()
    first.run(finish, [ack_of(late)], now)
    future = second.start(append_log, late.run_id, late.holder.runner.client_id, [LogLine("after")], now)
    first.commit()
    with pytest.raises(Conflict):
        future.result(DEADLINE_SECONDS)
    assert [line.message for line in RunLog.objects.all()] == ["before"]


def test_posts_of_one_run_are_stored_one_after_the_other(now, first, second):
    entry = QueueEntryFactory(claimed=True)
    client_id = entry.holder.runner.client_id
    first.begin()
    first.run(append_log, entry.run_id, client_id, [LogLine("1"), LogLine("2")], now)
    future = second.start(append_log, entry.run_id, client_id, [LogLine("3")], now)
    first.run(append_log, entry.run_id, client_id, [LogLine("still first")], now)
    first.commit()
    future.result(DEADLINE_SECONDS)
    said = RunLog.objects.order_by("id").values_list("message", flat=True)
    assert list(said) == ["1", "2", "still first", "3"]


@pytest.mark.parametrize("status", AckStatus)
def test_two_batches_in_opposite_order_do_not_wait_for_each_other_for_ever(now, status, first, second):
    ids = [UUID(int=1 << 100), UUID(int=2 << 100)]
    low, high = (QueueEntryFactory(claimed=True, run__id=run_id) for run_id in ids)
    first.begin()
    first.run(finish, [ack_of(low, status)], now)
    # Had the second batch locked `high` before it came to wait for `low`, the next step would be a deadlock.
    future = second.start(finish, [ack_of(high, status), ack_of(low, status)], now)
    assert first.run(finish, [ack_of(high, status)], now) == [AckAnswer.ACCEPTED]
    first.commit()
    assert future.result(DEADLINE_SECONDS) == [AckAnswer.REPEATED, AckAnswer.REPEATED]


def test_a_poll_locks_what_it_renews_in_the_same_order_as_the_acks(now, first, second):
    mine = RunnerInstanceFactory()
    # Stored in the other order, so that a scan of the table would come to `high` first.
    high = QueueEntryFactory(claimed=True, holder=mine, run__id=UUID(int=2 << 100))
    low = QueueEntryFactory(claimed=True, holder=mine, run__id=UUID(int=1 << 100))
    first.begin()
    first.run(finish, [ack_of(low)], now)
    future = second.start(renew_claims, [(mine.pk, high.run_id), (mine.pk, low.run_id)], now)
    assert first.run(finish, [ack_of(high)], now) == [AckAnswer.ACCEPTED]
    first.commit()
    assert future.result(DEADLINE_SECONDS) == set()
