"""Maintenance: nothing is handed out, for a reason and until an end; then it is as after a pause."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.core.management import CommandError, call_command

from croniq_site.kernel.errors import InvalidInput
from runners.models import AuditEvent
from runners.services.audit import Actor
from scheduler.models import Maintenance, QueueEntry, Run, Slot
from scheduler.queries.maintenance import current_maintenance
from scheduler.services.claim import claim_due
from scheduler.services.maintenance import begin_maintenance, end_expired_maintenance, end_maintenance
from scheduler.services.wake import subscribe
from scheduler.workers import reaper
from tests.factories import JobFactory, QueueEntryFactory, RunnerInstanceFactory, SlotFactory
from tests.support.races import DEADLINE_SECONDS, Session, together

pytestmark = pytest.mark.django_db

SECOND, MINUTE, HOUR = timedelta(seconds=1), timedelta(minutes=1), timedelta(hours=1)
ALICE = Actor("user", "alice")


@pytest.fixture
def job(db):
    return JobFactory()


def entry(job, at, **more) -> QueueEntry:
    return QueueEntryFactory(job=job, run__scheduled_for=at, available_at=at, **more)


def claim(job, now) -> list:
    return [one.run_id for one in claim_due(now, 500, RunnerInstanceFactory().pk, [job.lane_id])]


def test_while_it_is_on_nothing_is_handed_out_and_what_is_claimed_goes_on(now, job):
    claimed = entry(job, now - SECOND, claimed=True)
    for kind in ("scheduled", "triggered", "replay"):
        entry(job, now - HOUR, run__kind=kind)
    begin_maintenance(now, ALICE, reason="new disks")
    assert claim(job, now) == claim(job, now + HOUR) == []
    assert QueueEntry.objects.get(pk=claimed.pk).state == QueueEntry.State.CLAIMED
    assert end_maintenance(now + HOUR, ALICE)
    assert len(claim(job, now + HOUR)) == 3


def test_at_its_end_what_fell_due_in_it_is_skipped_and_the_rest_goes_on_with_the_same_ids(now, job):
    before = entry(job, now - MINUTE)
    within = [entry(job, now + MINUTE * n, state=state) for n, state in ((1, 0), (2, 1))]
    paused = entry(job, now + 3 * MINUTE, state=QueueEntry.State.HELD)
    manual = entry(job, now + 4 * MINUTE, run__kind="triggered")
    tried = entry(job, now + 5 * MINUTE, attempt=1)
    future = entry(job, now + 2 * HOUR)
    begin_maintenance(now, ALICE)
    end_maintenance(now + HOUR, ALICE)
    skipped = Run.objects.filter(verdict="skipped")
    assert {run.pk for run in skipped} == {one.run_id for one in within}
    assert {(run.problem, run.reason, run.finished_at) for run in skipped} == {("skipped", "maintenance", now + HOUR)}
    assert set(QueueEntry.objects.values_list("run_id", flat=True)) == {
        one.run_id for one in (before, paused, manual, tried, future)
    }
    assert set(claim(job, now + HOUR)) == {one.run_id for one in (before, manual, tried)}
    assert Maintenance.objects.get().skipped == 2


def test_a_skipped_run_gives_its_slot_back(now, job):
    admitted = entry(job, now + MINUTE)
    SlotFactory(run=admitted.run)
    begin_maintenance(now, ALICE)
    end_maintenance(now + HOUR, ALICE)
    assert not Slot.objects.exists()


def test_it_ends_by_itself_and_never_starts_what_it_skips(now, job):
    within, after = entry(job, now + MINUTE), entry(job, now + 11 * MINUTE)
    begin_maintenance(now, ALICE, until=now + 10 * MINUTE)
    assert reaper.run_once(now + 10 * MINUTE - SECOND).done["maintenance"] == 0
    # Its end has come, and nobody has looked at what fell due in it: still nothing is handed out.
    assert claim(job, now + 12 * MINUTE) == []
    summary = reaper.run_once(now + 12 * MINUTE)
    assert (summary.done["maintenance"], summary.failed) == (1, ())
    assert claim(job, now + 12 * MINUTE) == [after.run_id]
    assert Run.objects.get(pk=within.run_id).verdict == "skipped"
    assert AuditEvent.objects.get(action="maintenance.ended").actor_type == "system"


def test_what_fell_due_is_skipped_in_batches_and_only_the_last_lets_claims_go(now, job):
    entries = QueueEntryFactory.build_batch(600, job=job, lane=job.lane, available_at=now + MINUTE)
    for number, one in enumerate(entries):
        one.run.scheduled_for = now + MINUTE + timedelta(milliseconds=number)
    Run.objects.bulk_create(one.run for one in entries)
    QueueEntry.objects.bulk_create(entries)
    begin_maintenance(now, ALICE, until=now + HOUR)
    # The reaper's batch is full: there is more.
    assert end_expired_maintenance(now + HOUR, limit=250) == 250
    assert current_maintenance() is not None
    assert claim(job, now + HOUR) == []
    assert end_expired_maintenance(now + HOUR, limit=500) < 500
    assert current_maintenance() is None
    assert Maintenance.objects.get().skipped == Run.objects.filter(verdict="skipped").count() == 600
    assert end_expired_maintenance(now + HOUR) == 0


def test_beginning_again_changes_the_end_and_keeps_the_beginning(now, job):
    begin_maintenance(now, ALICE, reason="disks", until=now + MINUTE)
    begin_maintenance(now + SECOND, ALICE, reason="more disks", until=None)
    row = Maintenance.objects.get()
    assert (row.began_at, row.until, row.reason) == (now, None, "more disks")
    assert end_expired_maintenance(now + HOUR) == 0
    assert end_maintenance(now + HOUR, ALICE)
    assert not end_maintenance(now + HOUR, ALICE)
    actions = AuditEvent.objects.order_by("id").values_list("action", "actor_id")
    assert list(actions) == [
        ("maintenance.began", "alice"),
        ("maintenance.changed", "alice"),
        ("maintenance.ended", "alice"),
    ]


@pytest.mark.parametrize(
    ("field", "wish"),
    [
        ("reason", {"reason": "x" * 256}),
        ("reason", {"reason": "\x00"}),
        ("reason", {"reason": 5}),
        ("until", {"until": "tomorrow"}),
        ("until", {"until": "2026-03-02T12:00:00"}),
        ("until", {"until": "2026-03-02T12:00:00Z"}),  # now
        ("until", {"until": 5}),
    ],
)
def test_nonsense_is_refused_by_field(now, field, wish):
    with pytest.raises(InvalidInput) as refused:
        begin_maintenance(now, ALICE, **wish)
    assert set(refused.value.fields) == {field}
    assert not Maintenance.objects.exists()


@pytest.mark.django_db(transaction=True)
def test_a_claim_under_way_is_the_old_claim_and_the_next_one_finds_the_maintenance(now, job, database):
    old, new = entry(job, now - SECOND), entry(job, now)
    holder = RunnerInstanceFactory().pk
    with Session() as claimer, Session() as operator:
        claimer.begin()
        (taken,) = claimer.run(claim_due, now, 1, holder, [job.lane_id])
        beginning = operator.start(begin_maintenance, now, ALICE)
        if database == "postgresql":
            beginning.result(DEADLINE_SECONDS)  # it waits for no claim
        claimer.commit()
        beginning.result(DEADLINE_SECONDS)
        assert taken.run_id == old.run_id
        assert len(claimer.run(claim_due, now, 5, holder, [job.lane_id])) == 0
    assert QueueEntry.objects.get(pk=new.pk).state == QueueEntry.State.READY


@pytest.mark.django_db(transaction=True)
def test_until_it_is_committed_claims_go_on_and_from_then_on_none_does(now, job, database):
    old, new = entry(job, now - SECOND), entry(job, now)
    holder = RunnerInstanceFactory().pk
    with Session() as claimer, Session() as operator:
        operator.begin()
        operator.run(begin_maintenance, now, ALICE)
        claiming = claimer.start(claim_due, now, 1, holder, [job.lane_id])
        if database == "postgresql":
            assert [one.run_id for one in claiming.result(DEADLINE_SECONDS)] == [old.run_id]
        operator.commit()
        claiming.result(DEADLINE_SECONDS)
        assert len(claimer.run(claim_due, now, 5, holder, [job.lane_id])) == 0
    assert QueueEntry.objects.get(pk=new.pk).state == QueueEntry.State.READY


@pytest.mark.django_db(transaction=True)
def test_many_who_begin_and_end_it_at_once_make_one_of_it(now, job):
    entry(job, now + MINUTE)
    together([lambda: begin_maintenance(now, ALICE)] * 4)
    assert Maintenance.objects.count() == 1
    assert sum(together([lambda: end_maintenance(now + HOUR, ALICE)] * 4)) == 1
    assert AuditEvent.objects.filter(action="maintenance.ended").count() == 1
    assert Maintenance.objects.get().skipped == 1


def test_the_command_says_how_it_stands(capsys, db):
    def said(*arguments: str) -> str:
        call_command("maintenance", *arguments)
        return capsys.readouterr().out

    assert said("status") == "Maintenance is off.\n"
    assert "Reason: new disks" in said("on", "--reason", "new disks", "--until", "2h")
    assert current_maintenance().until - current_maintenance().began_at == 2 * HOUR
    assert "until 2036-12-24T12:00:00+00:00" in said("on", "--until", "2036-12-24T12:00:00Z")
    assert said("off") == "Maintenance is off.\n"
    for nonsense in ("yesterday", "2020-01-01T00:00:00Z", "-5s"):
        with pytest.raises(CommandError):
            call_command("maintenance", "on", f"--until={nonsense}")
    assert current_maintenance() is None


@pytest.mark.django_db(transaction=True)
def test_its_end_is_told_to_every_server(now, job):
    heard = []
    unsubscribe = subscribe(heard.append)
    try:
        begin_maintenance(now, ALICE)
        assert heard == []
        end_maintenance(now, ALICE)
    finally:
        unsubscribe()
    assert [signal.lanes for signal in heard] == [None]
