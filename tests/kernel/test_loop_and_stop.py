"""The loop goes on through outages and bugs, and stops after the step in hand."""

import os
import signal
import subprocess
import sys

import pytest
from django.db import OperationalError

from croniq_site.kernel.loop import backoff_seconds, run_loop
from croniq_site.kernel.stop import StopToken

pytestmark = pytest.mark.django_db


class Waits(StopToken):
    """A stop token that records how long the loop wanted to wait, and never waits."""

    def __init__(self):
        super().__init__()
        self.asked = []

    def wait(self, seconds):
        self.asked.append(seconds)
        return self.is_set


def test_a_database_that_is_away_is_waited_for_with_growing_pauses_and_then_work_goes_on(monkeypatch):
    monkeypatch.setattr("croniq_site.kernel.loop.connections.close_all", lambda: None)
    stop, outcomes = Waits(), [OperationalError("gone"), OperationalError("gone"), ValueError("a bug"), 5.0]

    def step():
        outcome = outcomes.pop(0)
        if isinstance(outcome, Exception):
            raise outcome
        stop.stop()
        return outcome

    run_loop("worker", step, stop)
    assert stop.asked == [0.5, 1.0, 2.0, 5.0]


def test_broken_connections_are_thrown_away(monkeypatch):
    closed, stop = [], Waits()
    monkeypatch.setattr("croniq_site.kernel.loop.connections.close_all", lambda: closed.append(True))

    def step():
        stop.stop()
        raise OperationalError("server closed the connection")

    run_loop("worker", step, stop)
    assert closed == [True]


def test_who_must_be_back_soon_waits_less(monkeypatch):
    monkeypatch.setattr("croniq_site.kernel.loop.connections.close_all", lambda: None)
    stop, failures = Waits(), iter(range(6))

    def step():
        if next(failures) == 5:
            stop.stop()
        raise OperationalError("gone")

    run_loop("heartbeat", step, stop, most_backoff_seconds=2.0)
    assert stop.asked == [0.5, 1.0, 2.0, 2.0, 2.0, 2.0]


def test_backoff_is_bounded_for_ever():
    assert [backoff_seconds(n) for n in (1, 2, 3, 7, 8, 10**9)] == [0.5, 1, 2, 30, 30, 30]


SIGNALLED = """
import os, signal, sys
from croniq_site.kernel.stop import StopToken, stop_on_signals
stop, again = StopToken(), StopToken()
stop_on_signals(stop, again=again)
print("ready", flush=True)
assert stop.wait(20)
print("step finished", again.is_set, flush=True)
assert again.wait(20)
print("hurry", flush=True)
"""


@pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_lets_the_step_finish_and_a_second_one_hurries(signum):
    with subprocess.Popen([sys.executable, "-c", SIGNALLED], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "ready\n"
        os.kill(process.pid, signum)
        assert process.stdout.readline() == "step finished False\n"
        os.kill(process.pid, signum)
        assert process.stdout.readline() == "hurry\n"
    assert process.returncode == 0
