"""Logs that are followed over real HTTP: what streams say, what they cost, and what ends them."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import httpx
import pytest
from django.conf import settings
from django.contrib.auth.models import User
from django.contrib.sessions.models import Session
from django.db import OperationalError, connection
from django.test import Client

from croniq_site.kernel.clock import DatabaseClock
from scheduler.api.work.pool import Pool
from scheduler.dashboard import tails
from scheduler.domain.work import Ack, AckStatus, LogLine
from scheduler.models import QueueEntry
from scheduler.services.finish import finish
from scheduler.services.log import append_log
from tests.factories import QueueEntryFactory
from tests.scheduler.dashboard.conftest import client_of, person
from tests.scheduler.edge.test_serve import serving
from tests.support.polling import poll_until
from tests.support.server import LiveEdge, live_edge

SILENCE_SECONDS = 12
"""Met only by failures: how long a stream may say nothing."""

pytestmark = pytest.mark.django_db(transaction=True)


def cookie_of(viewer: Client) -> dict[str, str]:
    name = settings.SESSION_COOKIE_NAME
    return {"Cookie": f"{name}={viewer.cookies[name].value}"}


class Stream:
    """What a browser's EventSource does: it reads events, knows its last place, and asks again from there."""

    def __init__(self, http: httpx.Client, viewer: Client, entry: QueueEntry) -> None:
        self._http, self._entry = http, entry
        self.signed_in = cookie_of(viewer)
        self.seen: list[int] = []
        self.place = "0.0"
        self.is_over = False

    @contextlib.contextmanager
    def open(self) -> Iterator[Stream]:
        headers = {"Last-Event-ID": self.place, **self.signed_in}
        path = f"/runs/{self._entry.run_id}/log/stream"
        with self._http.stream("GET", path, headers=headers, timeout=SILENCE_SECONDS) as self.answer:
            assert self.answer.headers["content-type"] == "text/event-stream; charset=utf-8", self.answer
            self._lines = self.answer.iter_lines()
            yield self

    def until(self, number: int) -> None:
        """Read until the line of this number is told."""
        while not self.seen or self.seen[-1] < number:
            assert self._read(), f"the stream ended after {self.seen[-1:]}"

    def to_its_end(self) -> None:
        while self._read():
            pass

    def _read(self) -> bool:
        for line in self._lines:
            self.is_over = self.is_over or line == "event: end"
            if line.startswith("id: "):
                self.place = line[4:]
            elif found := re.match('data: <li id="L([0-9]+)"', line):
                self.seen.append(int(found[1]))
            elif not line:
                return True
        return False


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tails, "LOOK_SECONDS", 0.02)
    monkeypatch.setattr(tails, "CHECK_SECONDS", 0.05)
    monkeypatch.setattr(tails, "PING_SECONDS", 1000)  # a stream that should say something, or end, is found silent


@pytest.fixture
def server(quick) -> Iterator[LiveEdge]:
    with live_edge() as server:
        yield server


@pytest.fixture
def entry() -> QueueEntry:
    return QueueEntryFactory(claimed=True)


@pytest.fixture
def stream(server: LiveEdge, viewer: Client, entry: QueueEntry) -> Stream:
    return Stream(server.http, viewer, entry)


def say(entry: QueueEntry, *messages: str) -> None:
    append_log(entry.run_id, entry.holder.runner.client_id, [LogLine(text) for text in messages], DatabaseClock().now())


def complete(entry: QueueEntry) -> None:
    ack = Ack(entry.run_id, entry.attempt, entry.holder.runner.runner_id, AckStatus.SUCCESS)
    finish([ack], DatabaseClock().now())


def following(server: LiveEdge) -> int:
    return server.application.tails.following


def test_lines_arrive_as_they_are_written_until_the_run_is_over(server, stream, entry):
    say(entry, "first")
    with stream.open():
        assert "content-length" not in stream.answer.headers
        assert tails.HEADER not in stream.answer.headers
        assert stream.answer.headers["x-accel-buffering"] == "no"
        for number in range(2, 5):
            say(entry, f"line {number}")
            stream.until(number)
        say(entry, "the last two", "at once")
        complete(entry)
        stream.to_its_end()
    assert (stream.seen, stream.is_over) == ([1, 2, 3, 4, 5, 6], True)
    assert following(server) == 0


def test_a_stream_that_broke_goes_on_without_a_gap_or_a_line_twice(stream, entry):
    for number in range(1, 8):
        with stream.open():
            say(entry, f"line {2 * number - 1}", f"line {2 * number}")
            stream.until(2 * number)
    say(entry, "while nobody read")
    complete(entry)
    with stream.open():
        stream.to_its_end()
    assert stream.seen == list(range(1, 16))
    assert stream.is_over


def test_many_lines_at_once_come_in_their_order(stream, entry):
    with stream.open():
        say(entry, *(f"line {number}" for number in range(1, 1701)))
        complete(entry)
        stream.to_its_end()
    assert stream.seen == list(range(1, 1701))
    assert stream.is_over


def test_a_line_of_the_last_moment_is_told_before_the_end(server, stream, entry, monkeypatch):
    """It is written, and its run ends, while the server has read the log for the last time as it believes."""
    say(entry, "first")
    read, moments = tails.lines_after, iter(["the last one"])

    def and_then_the_run_ends(*arguments):
        lines = read(*arguments)
        if following(server) and (message := next(moments, "")):
            say(entry, message)
            complete(entry)
            (tail,) = server.application.tails._tails
            poll_until(lambda: tail.is_over, what="the server hears that the run is over")
        return lines

    monkeypatch.setattr(tails, "lines_after", and_then_the_run_ends)
    with stream.open():
        stream.to_its_end()
    assert (stream.seen, stream.is_over) == ([1, 2], True)


def sign_out(stream: Stream) -> None:
    Session.objects.all().delete()


def take_the_role(stream: Stream) -> None:
    User.objects.get(username="vera").groups.clear()


def switch_off(stream: Stream) -> None:
    User.objects.filter(username="vera").update(is_active=False)


def change_the_password(stream: Stream) -> None:
    user = User.objects.get(username="vera")
    user.set_password("another long secret")
    user.save()


@pytest.mark.parametrize("end", [sign_out, take_the_role, switch_off, change_the_password])
def test_whoever_may_not_look_any_more_is_told_nothing_more(server, stream, entry, end: Callable[[Stream], None]):
    say(entry, "while he may")
    with stream.open():
        stream.until(1)
        end(stream)
        stream.to_its_end()
        say(entry, "not for him")
    assert (stream.seen, stream.is_over) == ([1], False)
    answer = server.http.get(f"/runs/{entry.run_id}/log/stream", headers=stream.signed_in)
    assert answer.status_code in (302, 403)


def test_who_does_not_read_keeps_no_place_once_he_may_not_look(server, stream, entry):
    """He has not even read what there was when he asked, so that the server waits for him."""
    say(entry, *["x" * 4000] * 150)
    with socket.socket() as reader:
        reader.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        reader.setsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG, 1000)  # as little as can be is on its way
        reader.settimeout(SILENCE_SECONDS)
        reader.connect(("127.0.0.1", server.http.base_url.port))
        path, cookie = f"/runs/{entry.run_id}/log/stream", stream.signed_in["Cookie"]
        head = (f"GET {path} HTTP/1.1", "Host: 127.0.0.1", "Last-Event-ID: 0.0", f"Cookie: {cookie}", "", "")
        reader.sendall("\r\n".join(head).encode())
        got = 0
        while got < 20_000:  # more than the head: all that is to come waits in the server
            got += len(reader.recv(2000))
        assert following(server) == 1
        sign_out(stream)
        poll_until(lambda: following(server) == 0, what="his place is free")


def test_streams_cost_neither_threads_nor_connections_while_they_wait(server, viewer, entry, database):
    """More than twice as many as there are threads for pages: had each one, no page would be answered any more."""
    streams = [Stream(server.http, viewer, entry) for _ in range(20)]
    with ExitStack() as open_streams:
        for stream in streams:
            open_streams.enter_context(stream.open())
        poll_until(lambda: following(server) == 20, what="all streams are open")
        assert server.http.get("/runners", headers=cookie_of(viewer)).status_code == 200
        if database == "postgresql":
            with connection.cursor() as cursor:
                cursor.execute(
                    "SELECT count(*), count(*) FILTER (WHERE state <> 'idle' AND pid <> pg_backend_pid() AND "
                    "xact_start < clock_timestamp() - interval '1 second') "
                    "FROM pg_stat_activity WHERE datname = current_database()"
                )
                connections, long_transactions = cursor.fetchone()
            pages, listener, test = 8, 1, 1
            assert connections <= pages + Pool().writers + listener + test
            assert long_transactions == 0
        say(entry, "for all of them")
        for stream in streams:
            stream.until(1)
    poll_until(lambda: following(server) == 0, what="the server sees that all are gone")


def test_beyond_their_number_a_stream_is_an_answer_that_is_asked_for_again(server, viewer, entry, monkeypatch):
    monkeypatch.setattr(tails, "MOST_TAILS", 1)
    first, second = Stream(server.http, viewer, entry), Stream(server.http, viewer, entry)
    say(entry, "line 1")
    with first.open():
        first.until(1)
        for number in (1, 2):
            with second.open():
                second.to_its_end()
            assert second.seen == list(range(1, number + 1))
            assert following(server) == 1
            say(entry, f"line {number + 1}")
        first.until(3)
    assert not second.is_over
    complete(entry)
    with second.open():
        second.to_its_end()
    assert (second.seen, second.is_over) == ([1, 2, 3], True)


def test_a_database_that_is_away_ends_streams_and_no_server(server, stream, entry, monkeypatch, caplog):
    say(entry, "before")

    def away(*arguments):
        raise OperationalError("the server closed the connection")

    with stream.open():
        stream.until(1)
        with monkeypatch.context() as patch:
            patch.setattr(tails, "log_marks", away)
            stream.to_its_end()
    say(entry, "after")
    with stream.open():
        stream.until(2)
    assert (stream.seen, stream.is_over) == ([1, 2], False)


def test_a_database_that_is_away_while_lines_are_read_ends_the_stream_and_breaks_it_not(stream, entry, monkeypatch):
    say(entry, "before")

    def away(*arguments):
        raise OperationalError("the server closed the connection")

    with stream.open():
        stream.until(1)
        with monkeypatch.context() as patch:
            patch.setattr(tails, "lines_after", away)
            say(entry, "after")
            stream.to_its_end()
    with stream.open():
        stream.until(2)
    assert (stream.seen, stream.is_over) == ([1, 2], False)


def test_lines_that_were_read_while_the_right_to_look_ended_are_not_told(server, stream, entry, monkeypatch):
    say(entry, "before")
    read = tails.lines_after

    def until_it_ends(*arguments):
        page = read(*arguments)
        if any(line.row.message == "after" for line in page.lines):
            for tail in server.application.tails._tails:
                tail.end()
        return page

    monkeypatch.setattr(tails, "lines_after", until_it_ends)
    with stream.open():
        stream.until(1)
        say(entry, "after")
        stream.to_its_end()
    assert stream.seen == [1]


def test_a_stream_with_nothing_to_tell_says_that_it_lives(stream, entry, monkeypatch):
    monkeypatch.setattr(tails, "PING_SECONDS", 0.02)
    with stream.open():
        assert next(line for line in stream._lines if line == ":") == ":"


def test_a_server_that_stops_ends_its_streams(quick, viewer, entry):
    say(entry, "line 1")
    with ExitStack() as still_open:
        with live_edge() as server:
            http = still_open.enter_context(httpx.Client(base_url=server.base_url, timeout=20))
            stream = Stream(http, viewer, entry)
            still_open.enter_context(stream.open())
            stream.until(1)
        stream.to_its_end()  # a whole answer: httpx would say that it was cut off
    assert (stream.seen, stream.is_over) == ([1], False)


def test_a_server_that_is_about_to_stop_begins_no_stream(server, stream, entry):
    say(entry, "line 1")
    server.application.tails.stop()
    with stream.open():
        stream.to_its_end()
    assert (stream.seen, stream.is_over, following(server)) == ([1], False, 0)


@pytest.mark.realtime
def test_a_log_is_followed_in_a_real_server_through_the_runners_own_words(entry):
    viewer = client_of(person("vera", "viewer"))
    with serving() as (process, url), httpx.Client(base_url=url, timeout=30) as http:
        stream = Stream(http, viewer, entry)
        with stream.open():
            say(entry, "one")  # by another process than the server
            stream.until(1)
            say(entry, "two")
            stream.until(2)
            Session.objects.all().delete()
            stream.to_its_end()
        assert not stream.is_over
        stream.signed_in = cookie_of(client_of(User.objects.get()))
        say(entry, "three")
        with stream.open():
            stream.until(3)
            os.kill(process.pid, signal.SIGTERM)
            stream.to_its_end()
        assert process.wait(20) == 0
    assert (stream.seen, stream.is_over) == ([1, 2, 3], False)
