"""Signals: on commit, to every process, and made up for when they are lost."""

from __future__ import annotations

import socket
import sqlite3
import threading

import pytest
from django.db import connection, transaction
from hypothesis import given
from hypothesis import strategies as st

from scheduler.api.work.listening import PostgresListener, SqliteListener, listener_for
from scheduler.services.wake import (
    CHANNEL,
    EVERYTHING,
    MOST_IDS,
    Signal,
    deliver,
    origin,
    socket_path,
    subscribe,
    tell,
    wake,
)
from tests.factories import LaneFactory
from tests.scheduler.edge.helpers import FakeRunner, due_run, result
from tests.support.polling import poll_until
from tests.support.races import in_thread
from tests.support.server import live_edge

_ids = st.none() | st.frozensets(st.integers(min_value=1, max_value=10**12), max_size=5)


@given(_ids, _ids, st.frozensets(st.integers(min_value=1, max_value=10**12), max_size=5))
def test_a_signal_survives_its_text(lanes, holders, moved):
    signal = Signal(lanes, holders, moved)
    assert Signal.of_text(signal.as_text()) == signal


@given(st.text(max_size=30))
def test_what_cannot_be_read_means_everything_and_never_an_error(text):
    assert isinstance(Signal.of_text(text), Signal)


def test_unreadable_means_everything():
    for text in ("", "1", "a|b|c", "1|2|3|4"):
        assert Signal.of_text(text) == EVERYTHING


def test_a_signal_always_fits_a_notify():
    ids = frozenset(range(2**63 - MOST_IDS, 2**63))
    assert len(f"{origin()}|{Signal(ids, ids, ids).as_text()}") < 8000
    more = ids | {1}
    assert Signal.of_text(Signal(more, more).as_text()) == EVERYTHING


class Heard:
    """Collects what is heard."""

    def __init__(self) -> None:
        self.signals: list[Signal] = []

    def __call__(self, signal: Signal) -> None:
        self.signals.append(signal)

    def wait_for(self, signal: Signal) -> None:
        poll_until(lambda: signal in self.signals, what=f"{signal} is heard")


@pytest.fixture
def heard():
    heard = Heard()
    unsubscribe = subscribe(heard)
    yield heard
    unsubscribe()


@pytest.mark.django_db(transaction=True)
def test_a_signal_is_heard_when_its_transaction_commits_and_not_before(heard):
    with transaction.atomic():
        wake([1, 2])
        tell([3])
        assert heard.signals == []
    assert heard.signals == [Signal(lanes=frozenset({1, 2})), Signal(holders=frozenset({3}))]


@pytest.mark.django_db(transaction=True)
def test_a_signal_of_a_transaction_that_rolls_back_is_never_heard(heard):
    with transaction.atomic():
        wake([1])
        transaction.set_rollback(True)
    assert heard.signals == []


@pytest.mark.django_db(transaction=True)
def test_nobody_is_told_of_nothing(heard):
    wake([])
    tell([])
    assert heard.signals == []
    wake()
    assert heard.signals == [EVERYTHING]


# Between processes


def say_as_another_process(text: str) -> None:
    """Send a signal's text the way another process would."""
    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_notify(%s, %s)", [CHANNEL, f"another|{text}"])
    else:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
            sender.sendto(text.encode(), str(socket_path(str(connection.settings_dict["NAME"]))))


@pytest.fixture
def listener():
    heard = Heard()
    listener = listener_for(heard)
    listener.start()
    yield heard
    listener.stop()


@pytest.fixture
def elsewhere(database):
    """What another server hears of this process."""
    heard = Heard()
    name = str(connection.settings_dict["NAME"])
    listener = PostgresListener(heard, "another") if database == "postgresql" else SqliteListener(heard, name)
    listener.start()
    if database == "postgresql":
        heard.wait_for(EVERYTHING)  # it listens now
    yield heard
    listener.stop()


@pytest.mark.django_db(transaction=True)
def test_another_process_is_heard(listener, database):
    if database == "postgresql":
        listener.wait_for(EVERYTHING)  # it listens now
    say_as_another_process("7|8|9")
    listener.wait_for(Signal(frozenset({7}), frozenset({8}), frozenset({9})))


@pytest.mark.django_db(transaction=True)
def test_a_process_without_a_server_sends_what_its_services_say(elsewhere):
    """What `materialize` does: nobody subscribes there, so the signal goes to the server."""
    with transaction.atomic():
        wake([41])
        tell([42])
    elsewhere.wait_for(Signal(lanes=frozenset({41})))
    elsewhere.wait_for(Signal(holders=frozenset({42})))


@pytest.mark.django_db(transaction=True)
def test_what_this_process_says_itself_it_hears_once(listener, heard, database):
    if database != "postgresql":
        pytest.skip("a SQLite database has one server, which hears itself directly")
    listener.wait_for(EVERYTHING)
    wake([51])
    say_as_another_process("52||")
    listener.wait_for(Signal(lanes=frozenset({52})))
    assert Signal(lanes=frozenset({51})) not in listener.signals
    assert heard.signals == [Signal(lanes=frozenset({51}))]


@pytest.mark.django_db(transaction=True)
def test_a_listener_whose_connection_breaks_listens_again_and_wakes_everybody(database):
    if database != "postgresql":
        pytest.skip("SQLite has no connection that could break")
    heard = Heard()
    listener = PostgresListener(heard)
    listener.start()
    try:
        heard.wait_for(EVERYTHING)
        with connection.cursor() as cursor:
            cursor.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                "WHERE pid <> pg_backend_pid() AND query ILIKE %s AND datname = current_database()",
                [f"LISTEN {CHANNEL}%"],
            )
            assert cursor.fetchall() == [(True,)]
        poll_until(lambda: heard.signals.count(EVERYTHING) == 2, what="everybody is woken again")
        say_as_another_process("61||")
        heard.wait_for(Signal(lanes=frozenset({61})))
    finally:
        listener.stop()


def test_a_change_of_the_file_wakes_everybody_when_no_signal_came(tmp_path):
    name = str(tmp_path / "x.sqlite3")
    with sqlite3.connect(name) as writer:
        writer.execute("PRAGMA journal_mode=WAL")
        writer.execute("CREATE TABLE t (x)")
        heard = Heard()
        listener = SqliteListener(heard, name)
        listener.start()
        try:
            poll_until(lambda: writer.execute("INSERT INTO t VALUES (1)") and not writer.commit() and heard.signals)
            assert heard.signals[0] == EVERYTHING
        finally:
            listener.stop()
    writer.close()


def test_a_long_path_gets_a_socket_elsewhere(tmp_path):
    name = str(tmp_path / ("d" * 120) / "x.sqlite3")
    assert len(str(socket_path(name)).encode()) <= 100
    assert socket_path(name) == socket_path(name)
    assert socket_path(name) != socket_path(name + "y")
    assert socket_path("/short/x.sqlite3").parent.as_posix() == "/short"


def test_the_socket_of_a_dead_server_is_no_obstacle(tmp_path):
    name = str(tmp_path / "x.sqlite3")
    socket_path(name).write_text("left behind")
    sqlite3.connect(name).close()
    heard = Heard()
    listener = SqliteListener(heard, name)
    listener.start()
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
            sender.sendto(b"5||", str(socket_path(name)))
        heard.wait_for(Signal(lanes=frozenset({5})))
    finally:
        listener.stop()
    assert not socket_path(name).exists()


@pytest.mark.django_db(transaction=True)
def test_work_of_another_process_ends_the_wait():
    with live_edge(hold_seconds=30) as server:
        lane = LaneFactory()
        held = FakeRunner(server, server.key()).hold()
        due_run()
        say_as_another_process(f"{lane.pk}||")
        assert len(result(held).json()["work"]) == 1


@pytest.mark.django_db(transaction=True)
def test_a_poll_that_moved_to_another_server_takes_no_work_here(database):
    if database != "postgresql":
        pytest.skip("a SQLite database has one server")
    with live_edge(hold_seconds=30) as server:
        held = FakeRunner(server, server.key()).hold()
        (holder_id,) = server.application.edge.desk._held
        say_as_another_process(f"||{holder_id}")
        assert result(held).json() == {"work": [], "cancel": []}


@pytest.mark.django_db(transaction=True)
def test_the_first_poll_of_an_instance_here_is_told_to_the_other_servers(elsewhere, database):
    if database != "postgresql":
        pytest.skip("a SQLite database has one server")
    with live_edge(hold_seconds=0.1) as server:
        runner = FakeRunner(server, server.key())
        runner.poll()
        poll_until(lambda: any(signal.moved for signal in elsewhere.signals), what="the others are told")
        runner.poll()
        wake([71])
        elsewhere.wait_for(Signal(lanes=frozenset({71})))
        assert len([signal for signal in elsewhere.signals if signal.moved]) == 1


@pytest.mark.django_db(transaction=True)
def test_a_signal_while_a_poll_is_let_in_is_not_missed(monkeypatch):
    """Cancelled after the poll's claims were read and before it waits: the signal finds no waiting poll to look at."""
    from runners.services.audit import SYSTEM
    from scheduler.api.work import desk
    from scheduler.services.cancel import cancel_runs
    from tests.scheduler.edge.helpers import database_now

    entry = due_run()
    read, go_on = threading.Event(), threading.Event()
    with live_edge(hold_seconds=30) as server:
        runner = FakeRunner(server, server.key())
        runner.work()

        def gated(polls, now, original=desk.open_polls):
            answers = original(polls, now)
            read.set()
            assert go_on.wait(15)
            return answers

        monkeypatch.setattr(desk, "open_polls", gated)
        answer = runner.start(inflight=[str(entry.run_id)])
        assert read.wait(15)
        in_thread(cancel_runs, [entry.run_id], database_now(), SYSTEM).result(15)
        # Its signal is handled before the poll goes on: the event loop takes calls in their order.
        deliver(Signal())
        go_on.set()
        assert answer.result(15).json()["cancel"] == [str(entry.run_id)]
