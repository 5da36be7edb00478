"""What a process says to systemd, on a real datagram socket."""

from __future__ import annotations

import os
import socket

import pytest

from croniq_site.kernel.loop import run_loop
from croniq_site.kernel.service_manager import Member, ServiceManager, speak_for
from croniq_site.kernel.stop import StopToken
from tests.support.notify import ear
from tests.support.races import in_thread


@pytest.fixture(autouse=True)
def _no_manager(monkeypatch):
    for name in ("NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize("abstract", [False, True])
def test_ready_alive_and_stopping_are_said_in_this_order(monkeypatch, abstract):
    with ear(abstract=abstract) as heard:
        monkeypatch.setenv("NOTIFY_SOCKET", heard.address)
        monkeypatch.setenv("WATCHDOG_USEC", "60000000")
        manager = ServiceManager()
        manager.ready()
        manager.alive()
        manager.alive()  # at once again: nobody wants to hear it ten times a second
        manager.stopping()
        assert heard.heard_so_far() == ["READY=1", "WATCHDOG=1", "STOPPING=1"]
        assert manager.every_seconds == 30


def test_without_a_watchdog_nobody_is_told_of_each_turn(monkeypatch):
    with ear() as heard:
        monkeypatch.setenv("NOTIFY_SOCKET", heard.address)
        manager = ServiceManager()
        manager.alive()
        manager.ready()
        assert heard.heard_so_far() == ["READY=1"]
        assert manager.every_seconds is None


@pytest.mark.parametrize(("usec", "pid"), [("", ""), ("0", ""), ("soon", ""), ("60000000", "1")])
def test_a_watchdog_that_is_none_or_another_process_s(monkeypatch, usec, pid):
    monkeypatch.setenv("NOTIFY_SOCKET", "@croniq-nobody")
    monkeypatch.setenv("WATCHDOG_USEC", usec)
    monkeypatch.setenv("WATCHDOG_PID", pid)
    assert ServiceManager().every_seconds is None


def test_a_manager_that_is_gone_or_does_not_read_neither_fails_nor_holds_up_the_work(monkeypatch):
    monkeypatch.setenv("NOTIFY_SOCKET", "/nonexistent/notify")
    ServiceManager().ready()
    with ear(deaf=True) as deaf:
        monkeypatch.setenv("NOTIFY_SOCKET", deaf.address)
        manager = ServiceManager()

        def says_more_than_the_socket_holds():
            for _ in range(5_000):
                manager.ready()

        in_thread(says_more_than_the_socket_holds).result(30)
        assert len(deaf.heard_so_far()) < 5_000


class Turns(StopToken):
    """Waits for nothing, and writes down what it was asked to wait."""

    def __init__(self):
        super().__init__()
        self.asked = []

    def wait(self, seconds):
        self.asked.append(seconds)
        return self.is_set


@pytest.mark.django_db
def test_the_loop_says_that_it_lives_after_a_pass_and_while_it_waits_but_never_while_a_pass_is_at_work():
    stop, said = Turns(), []

    def step():
        said.append("begins")
        said.append("ends")
        if said.count("begins") == 2:
            stop.stop()
        return 70.0

    run_loop("worker", step, stop, alive=lambda: said.append("alive"), alive_seconds=30.0)
    assert said == ["begins", "ends", "alive", "alive", "alive", "begins", "ends", "alive"]
    assert stop.asked[:3] == [30.0, 30.0, 10.0]


def test_of_several_processes_one_that_is_silent_keeps_the_others_from_being_heard():
    said, word = os.pipe()

    class Heard:
        def __init__(self):
            self.words = []

        def ready(self):
            self.words.append("ready")

        def alive(self):
            self.words.append("alive")

    heard = Heard()
    first, second = Member(word, 0), Member(word, 1)
    rounds = [[first, first, second], [first, second], [first, first, first]]
    for members in rounds:
        for member in members:
            member.alive()
    os.close(word)

    original = os.read

    def read(pipe, most):
        return original(pipe, 1)  # each word arrives alone

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("croniq_site.kernel.service_manager.os.read", read)
        speak_for(2, said, heard)
    os.close(said)
    assert heard.words == ["ready", "alive"]


def test_a_member_whose_parent_does_not_read_is_not_held_up():
    said, word = os.pipe()
    member = Member(word, 0)
    for _ in range(100_000):
        member.alive()
    os.close(said)
    member.alive()  # nor is it killed by a pipe that nobody reads any more
    os.close(word)


def test_the_ear_is_a_real_socket():
    with ear() as heard, socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
        sender.sendto(b"READY=1", heard.address)
        assert heard.hear() == "READY=1"
