"""What makes a request cheap changes nothing that is said: reading bodies, threads, whole answers, arrays of acks."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
import time

import pytest
import uvloop
from hypothesis import example, given, settings
from hypothesis import strategies as st

from croniq_site.kernel.errors import InvalidInput
from croniq_site.kernel.text import _is_printable, is_printable_name
from scheduler.api.work import claiming
from scheduler.api.work.coalesce import Batch
from scheduler.api.work.parsing import MOST_ACKS, load_json, parse_acks
from scheduler.api.work.protocol import JoinedWrites
from scheduler.api.work.quick_json import MOST_BYTES, quick_json
from scheduler.api.work.threads import Threads
from scheduler.models import Job, QueueEntry, Run
from scheduler.queries.assignments import JobDirectory
from tests.factories import JobFactory, LaneFactory
from tests.scheduler.edge.helpers import FakeRunner, due_run, result
from tests.support.server import live_edge

ACK = {"runner_id": "r1", "execution_id": "019cae6b-6600-7249-9a86-31c6f0d37c1f", "status": "success", "attempt": 1}

# Reading

texts = st.text(st.sampled_from('ab:"\\{},é\u2028\ud800'), max_size=4)
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=6,
)


@given(values, st.booleans(), st.lists(st.tuples(st.integers(0, 60), st.sampled_from(b'{}[]:,"\\a1 ')), max_size=2))
@example({"a": {"b": 1}}, True, [])
@example([{"a:b": ["c:d", ":"]}], False, [])
@example({"": float("nan")}, True, [])
@example({"a": 10**20}, True, [])
@settings(max_examples=400)
def test_what_is_read_at_once_is_what_the_strict_reader_reads(value, is_ascii, scratches):
    body = bytearray(json.dumps(value, ensure_ascii=is_ascii).encode(errors="surrogatepass"))
    for place, byte in scratches:
        if place < len(body):
            body[place] = byte
    quick = quick_json(bytes(body))
    if quick is not None:
        strict = load_json(bytes(body))
        assert (quick, repr(quick)) == (strict, repr(strict))


@pytest.mark.parametrize(
    "raw",
    [
        b'{"a": 1, "a": 2}',
        b'{"a": "x:y", "a": 2}',
        b'{"a": ":", "b": 1, "b": 1}',
        b'{"a": "\\u003a", "b": 1, "b": 1}',
        b'{"a": 18446744073709551616}',
        b'{"a": 1.5}',
        b'{"a": {"b": 1}}',
        b'{"a": [1]}',
        b'{"a": NaN}',
        b'{"a": "\\ud800"}',
        b'[{"a": 1}, 2]',
        b"7",
        b"",
        b'{"a": "' + b"x" * MOST_BYTES + b'"}',
    ],
)
def test_what_is_not_plain_is_left_to_the_strict_reader(raw):
    assert quick_json(raw) is None


def test_what_an_sdk_sends_is_read_at_once():
    for body in (ACK, [ACK, ACK], {"runner_id": "a:b", "capabilities": ["croniq:command-only"], "inflight": []}):
        assert quick_json(json.dumps(body).encode()) == body


@given(st.text(max_size=6) | st.text(st.characters(max_codepoint=127), max_size=6))
def test_a_name_of_ascii_is_judged_as_any_other(text):
    slowly = 0 < len(text) <= 255 and text == text.strip() and all(map(_is_printable, text))
    assert is_printable_name(text) == slowly


# Arrays of acks


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ([], "acks"),
        ([ACK] * (MOST_ACKS + 1), "acks"),
        ([ACK, 7], "acks[1]"),
        ([ACK, {**ACK, "status": "maybe"}], "acks[1].status"),
        ([{**ACK, "attempt": 0}], "acks[0].attempt"),
        ([{**ACK, "execution_id": "x"}], "acks[0].execution_id"),
    ],
)
def test_a_bad_ack_in_an_array_is_named_by_its_place(body, field):
    with pytest.raises(InvalidInput) as refused:
        parse_acks(json.dumps(body).encode())
    assert list(refused.value.fields) == [field]


@pytest.mark.django_db(transaction=True)
def test_an_array_of_acks_is_answered_one_by_one_in_order():
    entries = [due_run() for _ in range(3)]
    with live_edge() as server:
        runner = FakeRunner(server, server.key())
        runner.work()
        ids = [str(entry.run_id) for entry in entries]
        nobodys = "019cae6b-6600-7249-9a86-31c6f0d37c1f"
        acks = [
            {"runner_id": "r1", "execution_id": run_id, "status": status, "attempt": attempt}
            for run_id, status, attempt in [
                (ids[0], "success", 1),
                (ids[1], "success", 2),
                (nobodys, "success", 1),
                (ids[2], "failure", 1),
            ]
        ]
        answer = server.post("/v1/work/ack", acks, key=runner.key)
        assert answer.status_code == 200
        results = answer.json()["results"]
        assert [one["execution_id"] for one in results] == [ids[0], ids[1], nobodys, ids[2]]
        assert [one.get("status") or one["error"] for one in results] == ["ok", "stale_claim", "not_found", "ok"]
        assert Run.objects.get(pk=ids[0]).verdict == "completed"
        assert QueueEntry.objects.get(pk=ids[1]).state == QueueEntry.State.CLAIMED
        assert QueueEntry.objects.get(pk=ids[2]).state == QueueEntry.State.READY
        # The same again changes nothing and is answered the same.
        assert server.post("/v1/work/ack", acks, key=runner.key).json()["results"] == results


@pytest.mark.django_db(transaction=True)
def test_an_array_of_acks_does_not_reach_another_clients_runs():
    mine = due_run()
    with live_edge() as server:
        runner, stranger = FakeRunner(server, server.key()), FakeRunner(server, server.key(), runner_id="r2")
        runner.work()
        ack = {"runner_id": "r1", "execution_id": str(mine.run_id), "status": "success", "attempt": 1}
        answer = server.post("/v1/work/ack", [ack], key=stranger.key)
        assert [one["error"] for one in answer.json()["results"]] == ["runner_owned"]
        assert QueueEntry.objects.get().state == QueueEntry.State.CLAIMED


def test_a_call_takes_as_much_as_it_may_and_one_that_is_heavier():
    sizes = []

    async def run(questions):
        sizes.append([len(question) for question in questions])
        return questions

    async def story():
        ask = Batch(run, slots=1, most=10, weigh=len)
        await asyncio.gather(*(ask("x" * size) for size in (4, 6, 1, 30, 10, 1)))

    asyncio.run(story())
    assert sizes == [[4, 6], [1], [30], [10], [1]]


# Waiting


@pytest.mark.django_db(transaction=True)
def test_polls_that_no_claim_asked_for_because_nothing_is_due_are_answered_in_their_time(monkeypatch):
    LaneFactory()
    monkeypatch.setattr(claiming, "MOST_ASKS", 1)
    with live_edge(hold_seconds=0.5) as server:
        key = server.key()
        answers = [FakeRunner(server, key, f"r{n}").start() for n in range(4)]
        assert [result(answer).json()["work"] for answer in answers] == [[]] * 4


def test_one_claim_asks_for_as_many_runs_as_one_transaction_takes():
    class Asked:
        def __init__(self, free, is_open=True):
            self.request, self.is_open = self, is_open
            self.free = free

    def asks(*frees):
        return [one.free for one in claiming._who_asks([Asked(free) for free in frees])]

    assert asks(100, 200, 200, 1) == [100, 200, 200]
    assert asks(9_000, 1) == [9_000]
    assert asks(*[1] * 150) == [1] * claiming.MOST_ASKS
    assert claiming._who_asks([Asked(1, is_open=False)]) == []


# Answers in one piece


def test_what_is_written_in_one_turn_leaves_in_one_write():
    async def story():
        loop = asyncio.get_running_loop()
        ours, theirs = socket.socketpair()
        theirs.setblocking(False)
        transport, _ = await loop.create_connection(asyncio.Protocol, sock=ours)
        written = []
        write = transport.write
        transport.write = lambda data: (written.append(data), write(data))
        joined = JoinedWrites(transport, loop)
        joined.write(b"head ")
        joined.write(b"body")
        assert written == []
        await asyncio.sleep(0)
        assert written == [b"head body"]
        joined.write(b" last words")
        joined.close()
        assert joined.is_closing()
        said = b""
        while data := await loop.sock_recv(theirs, 100):
            said += data
        theirs.close()
        assert said == b"head body last words"

    asyncio.run(story())


def test_what_is_left_when_the_connection_is_lost_is_dropped_without_a_word():
    async def story():
        loop, faults = asyncio.get_running_loop(), []
        loop.set_exception_handler(lambda _, context: faults.append(context))
        ours, theirs = socket.socketpair()
        transport, _ = await loop.create_connection(asyncio.Protocol, sock=ours)
        joined = JoinedWrites(transport, loop)
        transport.abort()
        joined.write(b"an answer")
        for _ in range(3):
            await asyncio.sleep(0)
        theirs.close()
        assert faults == []

    uvloop.run(story())


# Threads


def test_a_thread_that_is_warm_is_used_again_and_more_are_made_only_when_needed():
    async def story():
        threads = Threads(3, "t")
        for _ in range(5):
            assert await threads.run(threading.get_ident, ()) == threads._workers[0].thread.ident
        assert len(threads._workers) == 1
        together = threading.Barrier(3)
        await asyncio.gather(*(threads.run(together.wait, (10,)) for _ in range(3)))
        assert len(threads._workers) == 3
        threads.close()
        assert not any(worker.thread.is_alive() for worker in threads._workers)

    asyncio.run(story())


def test_what_waits_for_a_thread_is_served_in_order_and_errors_reach_who_asked():
    async def story():
        threads, order, is_open = Threads(1, "t"), [], threading.Event()
        first = threads.run(is_open.wait, (10,))
        rest = [threads.run(order.append, (n,)) for n in range(4)]
        broken = threads.run(int, ("x",))
        unwanted = threads.run(order.append, ("unwanted",))
        unwanted.cancel()
        is_open.set()
        assert await first is True
        await asyncio.gather(*rest)
        with pytest.raises(ValueError, match="invalid literal"):
            await broken
        assert order[:4] == [0, 1, 2, 3]
        threads.close()

    asyncio.run(story())


def test_what_waits_when_the_threads_are_closed_is_dropped_and_what_runs_is_finished():
    async def story():
        threads, is_open, began = Threads(1, "t"), threading.Event(), threading.Event()
        running = threads.run(lambda: (began.set(), is_open.wait(10)), ())
        waiting = threads.run(time.monotonic, ())
        assert await asyncio.to_thread(began.wait, 10)
        closing = asyncio.ensure_future(asyncio.to_thread(threads.close))
        with pytest.raises(asyncio.CancelledError):
            await waiting
        is_open.set()
        await closing
        assert (await running)[1] is True

    asyncio.run(story())


# Jobs


@pytest.mark.django_db
def test_jobs_that_are_asked_for_in_turn_are_read_again_together(django_assert_num_queries):
    jobs = [JobFactory() for _ in range(6)]
    directory = JobDirectory(fresh_seconds=60.0)
    for job in [*jobs, *jobs]:
        directory.facts_of([job.pk])
    Job.objects.update(metadata={"edited": True})
    directory._fresh_seconds = -1.0  # as if their time had come
    with django_assert_num_queries(1):
        directory.facts_of([jobs[0].pk])
        directory._fresh_seconds = 60.0
        for job in jobs:
            assert directory.facts_of([job.pk])[job.pk].metadata == {"edited": True}
