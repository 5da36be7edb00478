"""A takeover of a runner whose earlier process says how its runs ended, in that moment."""

from __future__ import annotations

import pytest

from croniq_site.kernel.ids import uuid7
from runners.domain.scopes import Principal
from scheduler.domain.polls import PollRequest
from scheduler.domain.work import Ack, AckStatus
from scheduler.models import QueueEntry
from scheduler.services.finish import finish
from scheduler.services.identities import release_identity
from scheduler.services.poll import open_poll
from tests.factories import QueueEntryFactory, RunnerInstanceFactory
from tests.scheduler.planning.support import ACTOR
from tests.support.polling import poll_until
from tests.support.races import DEADLINE_SECONDS, Session, is_waiting_for_lock

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.mark.parametrize("by", ["takeover", "release"])
def test_an_array_of_acks_and_a_takeover_do_not_wait_for_each_other_in_a_circle(now, database, by):
    """The instance has a claim and, with a smaller id, a run that was cancelled under it. The acks lock both in the
    order of run ids; the takeover takes the claims first and then what is winding down."""
    if database != "postgresql":
        pytest.skip("SQLite has one writer")
    holder = RunnerInstanceFactory()
    smaller, greater = sorted(uuid7(now) for _ in range(2))
    stopping = QueueEntryFactory(stopping=True, holder=holder, run__id=smaller)
    claimed = QueueEntryFactory(claimed=True, holder=holder, run__id=greater)
    runner = holder.runner
    acks = [Ack(entry.run_id, 1, runner.runner_id, AckStatus.FAILURE) for entry in (stopping, claimed)]
    principal = Principal(runner.client_id, "runner", None, frozenset(["admin"]))
    request = PollRequest(runner.runner_id, "another", (), (), 1, free=1)
    with Session() as first, Session() as acker, Session() as taker:
        first.begin()
        first.run(lambda: list(QueueEntry.objects.select_for_update().filter(pk=stopping.pk)))
        pids = acker.backend_pid, taker.backend_pid
        said = acker.start(finish, acks, now)
        poll_until(lambda: is_waiting_for_lock(pids[0]), what="the acks wait")
        if by == "takeover":
            taken = taker.start(open_poll, request, principal, now)
        else:
            taken = taker.start(release_identity, runner.runner_id, now, ACTOR)
        poll_until(lambda: is_waiting_for_lock(pids[1]), what="the takeover waits")
        first.commit()
        taken.result(DEADLINE_SECONDS)
        said.result(DEADLINE_SECONDS)
