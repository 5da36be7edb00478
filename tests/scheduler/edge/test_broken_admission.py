"""Runs of limited jobs that cannot be admitted keep no other run from being handed out."""

from __future__ import annotations

import pytest

from scheduler.api.work import claiming
from tests.scheduler.edge.helpers import FakeRunner, due_run
from tests.support.server import live_edge

pytestmark = pytest.mark.django_db(transaction=True)


def test_a_fault_in_the_admission_of_limited_jobs_stops_only_them(monkeypatch):
    def broken(*arguments, **named):
        raise ValueError("a limit that cannot be read")

    monkeypatch.setattr(claiming, "admit", broken)
    entry = due_run()
    with live_edge(hold_seconds=2.0) as server:
        assert [one["execution_id"] for one in FakeRunner(server, server.key()).work()] == [str(entry.run_id)]
