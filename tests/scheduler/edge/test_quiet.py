"""Who comes to others that wait does not ask the database again; what is said, and a second at most, ends that."""

from __future__ import annotations

import pytest

from scheduler.api.work import claiming
from scheduler.services.wake import wake
from tests.factories import LaneFactory
from tests.scheduler.edge.helpers import FakeRunner, Gate, due_run, result, run_due_in, until_it_listens
from tests.support.polling import poll_until
from tests.support.server import LiveEdge, live_edge


class Waiting:
    """Runners of one client that wait at a quiet server; ``claims`` counts what it asked the database."""

    def __init__(self, server: LiveEdge, monkeypatch, trusts_seconds: float = 60.0) -> None:
        until_it_listens(server)
        monkeypatch.setattr(claiming, "QUIET_SECONDS", trusts_seconds)
        self._gate = Gate(claiming.claim_round)
        monkeypatch.setattr(claiming, "claim_round", self._gate.counted)
        self._server, self._key = server, server.key()
        self.answers = [self._runner(0).hold()]
        poll_until(self._is_quiet, what="the claim for it found nothing")
        self._asked = self._gate.calls

    @property
    def claims(self) -> int:
        return self._gate.calls - self._asked

    def _runner(self, number: int) -> FakeRunner:
        return FakeRunner(self._server, self._key, runner_id=f"r{number}")

    def _is_quiet(self) -> bool:
        (group,) = self._server.application.edge.desk._groups.values()
        return group._serving is None and bool(self._gate.calls)

    def another(self):
        self.answers.append(self._runner(len(self.answers)).start())
        return self.answers[-1]

    def arrived(self) -> None:
        poll_until(lambda: self._server.application.edge.desk.waiting == len(self.answers), what="all of them wait")
        poll_until(self._is_quiet, what="no claim is under way")

    def given(self) -> int:
        """Wait until somebody has work; return how many runs were given."""
        poll_until(lambda: any(answer.done() for answer in self.answers), what="one of them has work")
        return sum(len(result(answer).json()["work"]) for answer in self.answers if answer.done())


@pytest.fixture
def quiet(database):
    if database != "postgresql":
        pytest.skip("on SQLite each change of the file is heard as a change of everything, 20 times a second")
    return LaneFactory()


@pytest.mark.django_db(transaction=True)
def test_who_comes_to_others_that_wait_asks_for_nothing(monkeypatch, quiet):
    with live_edge() as server:
        waiting = Waiting(server, monkeypatch)
        for _ in range(3):
            waiting.another()
        waiting.arrived()
        assert waiting.claims == 0
        entry = due_run()
        wake([entry.lane_id])
        assert waiting.given() == 1


@pytest.mark.django_db(transaction=True)
def test_what_falls_due_is_given_to_whoever_came_meanwhile(monkeypatch, quiet):
    with live_edge() as server:
        waiting = Waiting(server, monkeypatch)
        entry = run_due_in(0.5)
        wake([entry.lane_id])
        waiting.another()
        assert waiting.given() == 1


@pytest.mark.django_db(transaction=True)
def test_a_claim_is_worth_something_for_a_moment_only(monkeypatch, quiet):
    """Nothing is said of the run, as if the signal had been lost: who comes later finds it."""
    with live_edge() as server:
        waiting = Waiting(server, monkeypatch, trusts_seconds=0.0)
        due_run()
        waiting.another()
        assert waiting.given() == 1


@pytest.mark.django_db(transaction=True)
def test_what_is_said_while_a_claim_is_under_way_makes_it_worthless(monkeypatch, quiet):
    with live_edge() as server:
        waiting = Waiting(server, monkeypatch)
        (group,) = server.application.edge.desk._groups.values()
        gate = Gate(claiming.claim_round)
        monkeypatch.setattr(claiming, "claim_round", gate.after)
        wake([quiet.pk])
        assert gate.finished.wait(15)  # a claim has looked
        wake([quiet.pk])
        poll_until(lambda: group._woken, what="it is said")
        group._to_ask.clear()  # as if nobody had waited: who comes now must ask
        due_run()
        gate.open.set()
        poll_until(lambda: group._serving is None, what="the claim has ended")
        waiting.another()
        assert waiting.given() == 1
