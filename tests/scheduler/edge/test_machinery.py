"""Group commit, the pool of database threads, the lane directory, what instances were told."""

from __future__ import annotations

import asyncio
import threading
import time
from datetime import timedelta
from uuid import UUID

import pytest
from django.db import OperationalError, connection

from croniq_site.kernel.errors import Conflict, Unavailable
from scheduler.api.work import own_acks
from scheduler.api.work.coalesce import Batch
from scheduler.api.work.pool import Pool
from scheduler.api.work.waiting import Told
from scheduler.queries.lanes import LaneDirectory, Rotation
from scheduler.sql.upcoming import upcoming
from tests.factories import JobFactory, LaneFactory, QueueEntryFactory

# Group commit


def test_what_waits_together_is_one_call():
    calls = []

    async def story():
        is_open = asyncio.Event()

        async def run(questions):
            calls.append(list(questions))
            await is_open.wait()
            return [question * 10 for question in questions]

        ask = Batch(run, slots=1)
        first = ask(1)
        await asyncio.sleep(0.01)
        rest = [ask(n) for n in (2, 3, 4)]
        is_open.set()
        assert await asyncio.gather(first, *rest) == [10, 20, 30, 40]

    asyncio.run(story())
    assert calls == [[1], [2, 3, 4]]


def test_slots_and_the_most_of_a_call_are_bounds():
    running, most_running, sizes = 0, 0, []

    async def run(questions):
        nonlocal running, most_running
        running += 1
        most_running = max(most_running, running)
        sizes.append(len(questions))
        await asyncio.sleep(0.001)
        running -= 1
        return questions

    async def story():
        ask = Batch(run, slots=2, most=5)
        assert await asyncio.gather(*(ask(n) for n in range(40))) == list(range(40))

    asyncio.run(story())
    assert most_running == 2
    assert max(sizes) == 5


def test_one_bad_question_does_not_take_the_others_with_it():
    async def run(questions):
        if 3 in questions:
            raise ValueError("three")
        return [Conflict("no") if question == 4 else question for question in questions]

    async def story():
        ask = Batch(run, slots=1)
        return await asyncio.gather(*(ask(n) for n in range(1, 6)), return_exceptions=True)

    answers = asyncio.run(story())
    assert answers[:2] == [1, 2]
    assert isinstance(answers[2], ValueError)
    assert isinstance(answers[3], Conflict)
    assert answers[4] == 5


def test_an_outage_is_for_all_and_is_asked_once():
    calls = []

    async def run(questions):
        calls.append(questions)
        raise Unavailable("away")

    async def story():
        ask = Batch(run, slots=1)
        return await asyncio.gather(*(ask(n) for n in range(3)), return_exceptions=True)

    assert all(isinstance(answer, Unavailable) for answer in asyncio.run(story()))
    assert len(calls) == 1


def test_a_question_nobody_waits_for_any_more_harms_nobody():
    async def story():
        is_open = asyncio.Event()

        async def run(questions):
            await is_open.wait()
            return questions

        ask = Batch(run, slots=1)
        first, second = ask(1), ask(2)
        await asyncio.sleep(0.01)
        first.cancel()
        is_open.set()
        assert await second == 2
        assert await ask(3) == 3

    asyncio.run(story())


# The pool


@pytest.mark.django_db(transaction=True)
def test_sqlite_has_one_writer_and_postgresql_few_connections(database):
    most = 0
    inside = threading.Semaphore(0)

    def write():
        nonlocal most
        connection.ensure_connection()
        inside.release()
        most = max(most, inside._value)
        threading.Event().wait(0.02)
        inside.acquire()

    async def story():
        pool = Pool()
        try:
            await asyncio.gather(*(pool.write(write) for _ in range(10)))
            return pool.writers
        finally:
            await asyncio.to_thread(pool.close)

    writers = asyncio.run(story())
    assert most <= writers
    if database == "sqlite":
        assert writers == 1
    else:
        assert most > 1


@pytest.mark.django_db(transaction=True)
def test_connections_are_kept_and_opened_anew_after_an_outage():
    async def in_every_thread(pool, fn):
        barrier = threading.Barrier(pool.writers)

        def body():
            barrier.wait(15)
            return fn()

        return await asyncio.gather(*(pool.write(body) for _ in range(pool.writers)))

    def fail():
        raise OperationalError("the server closed the connection unexpectedly")

    def is_open():
        return connection.connection is not None

    async def story():
        pool = Pool()
        try:
            await in_every_thread(pool, lambda: connection.ensure_connection())
            assert all(await in_every_thread(pool, is_open))
            with pytest.raises(Unavailable):
                await pool.write(fail)
            # Not only that of the thread that noticed: the others' are as broken.
            assert not any(await in_every_thread(pool, is_open))
        finally:
            await asyncio.to_thread(pool.close)

    asyncio.run(story())


@pytest.mark.django_db(transaction=True)
def test_a_refusal_is_no_outage():
    def refuse():
        raise Conflict("no")

    async def story():
        pool = Pool()
        try:
            with pytest.raises(Conflict):
                await pool.write(refuse)
        finally:
            await asyncio.to_thread(pool.close)

    asyncio.run(story())


# Lanes


@pytest.mark.django_db
def test_a_runner_has_the_lanes_whose_requirements_it_meets():
    plain, gpu, both = LaneFactory(), LaneFactory(require=["gpu"]), LaneFactory(require=["gpu", "linux"])
    pinned = LaneFactory(require=["runner:r1"])
    directory = LaneDirectory()
    directory.refresh()
    assert directory.lanes_for([], "r2", None) == ((plain.pk,),)
    assert directory.lanes_for(["gpu"], "r2", None) == ((plain.pk, gpu.pk),)
    assert directory.lanes_for(["linux", "gpu"], "r2", None) == ((plain.pk, gpu.pk, both.pk),)
    assert directory.lanes_for(["runner:r1"], "r2", None) == ((plain.pk,),)
    assert directory.lanes_for([], "r1", None) == ((plain.pk, pinned.pk),)


@pytest.mark.django_db
def test_lanes_are_by_tenant_and_in_each_by_priority():
    low = LaneFactory(tenant="a", priority=-1)
    high = LaneFactory(tenant="a", priority=9)
    other = LaneFactory(tenant="b")
    directory = LaneDirectory()
    directory.refresh()
    assert directory.lanes_for([], "r", None) == ((high.pk, low.pk), (other.pk,))
    assert directory.lanes_for([], "r", "b") == ((other.pk,),)
    assert directory.lanes_for([], "r", "c") == ()


@pytest.mark.django_db
def test_the_tenant_that_was_served_last_goes_last_and_one_that_never_was_goes_first():
    a, b, c = (LaneFactory(tenant=tenant).pk for tenant in "abc")
    directory, rotation = LaneDirectory(), Rotation()
    directory.refresh()
    lanes = directory.lanes_for([], "r", None)
    assert rotation.in_turn(lanes, directory) == ((a,), (b,), (c,))
    rotation.note(lanes, frozenset([a, b]), directory)
    assert rotation.in_turn(lanes, directory) == ((c,), (a,), (b,))
    rotation.note(((b,),), frozenset(), directory)
    assert rotation.in_turn(lanes, directory) == ((c,), (a,), (b,))
    # Served beside others or alone, at whichever of its lanes: a turn is a turn of the tenant.
    more = LaneFactory(tenant="c", require=["gpu"]).pk
    directory.refresh()
    rotation.note(((c, more),), frozenset([more]), directory)
    rotation.note(((a,),), frozenset([a]), directory)
    assert rotation.in_turn(lanes, directory) == ((b,), (c,), (a,))
    assert rotation.in_turn((), directory) == ()


@pytest.mark.django_db
def test_runners_that_differ_in_what_no_lane_asks_for_share_their_lanes():
    LaneFactory(require=["gpu"])
    directory = LaneDirectory()
    directory.refresh()
    shared = directory.lanes_for(["gpu", "x"], "r1", None)
    assert directory.lanes_for(["gpu", "y"], "r2", None) is shared


@pytest.mark.django_db
def test_new_lanes_are_found_and_old_ones_read_once(django_assert_num_queries):
    first = LaneFactory()
    directory = LaneDirectory()
    directory.refresh()
    version = directory.version
    assert directory.knows([first.pk])
    directory.refresh()
    assert directory.version == version
    second = LaneFactory(priority=1)
    assert not directory.knows([second.pk])
    directory.refresh()
    assert directory.version > version
    assert directory.knows([first.pk, second.pk])
    with django_assert_num_queries(0):
        directory.lanes_for([], "r", None)


@pytest.mark.django_db
def test_upcoming_splits_at_now_and_misses_nothing(now):
    lane, other = LaneFactory(), LaneFactory(priority=1)
    job = JobFactory(lane=lane)
    tick = timedelta(microseconds=1)
    QueueEntryFactory(job=JobFactory(lane=other), available_at=now - timedelta(hours=1))
    assert upcoming([lane.pk], now) == (False, None, None)
    QueueEntryFactory(job=job, available_at=now + timedelta(hours=1))
    soon = QueueEntryFactory(job=job, available_at=now + tick)
    assert upcoming([lane.pk], now) == (False, soon.available_at, None)
    assert upcoming([lane.pk], now + tick) == (True, now + timedelta(hours=1), None)
    QueueEntryFactory(job=job, claimed=True, available_at=now)
    QueueEntryFactory(job=job, state=1, available_at=now)
    assert upcoming([lane.pk], now) == (False, soon.available_at, None)
    assert upcoming([lane.pk, other.pk], now) == (True, soon.available_at, None)
    gated = QueueEntryFactory(job=job, state=1, available_at=now + tick)
    QueueEntryFactory(job=job, state=1, available_at=now + timedelta(hours=1))
    assert upcoming([lane.pk], now) == (False, soon.available_at, gated.available_at)
    assert upcoming([], now) == (False, None, None)


# What instances were told


def test_a_cancel_is_news_once_and_then_told_at_most_once_a_second():
    told = Told()
    assert told.news(1, {"a", "b"}) == {"a", "b"}
    assert told.to_send(1, ["a", "b"], 100.0) == ["a", "b"]
    assert told.news(1, {"a", "c"}) == {"c"}
    assert told.to_send(1, ["a"], 100.9) == []
    assert told.to_send(1, ["a"], 101.0) == ["a"]
    assert told.to_send(1, ["a"], 101.5) == []
    assert told.news(2, {"a"}) == {"a"}


def test_what_is_held_again_can_be_cancelled_anew():
    told = Told()
    told.note(1, ["a"], 100.0)
    told.hold_again(1, ["a"])
    assert told.news(1, ["a"]) == {"a"}


def test_what_was_told_is_bounded_and_keeps_what_is_fresh(monkeypatch):
    monkeypatch.setattr(Told, "MOST_HOLDERS", 10)
    told = Told()
    for holder_id in range(9):
        told.note(holder_id, ["old"], 0.0)
    told.note(9, ["fresh"], 500.0)
    told.note(10, ["new"], 501.0)
    assert len(told._told) <= 10
    assert told.news(9, ["fresh"]) == set()
    assert told.news(1, ["old"]) == {"old"}


def test_what_is_no_longer_listed_is_forgotten():
    told = Told()
    told.note(1, ["a", "b"], 100.0)
    told.forget_unlisted(1, {"b"})
    assert told.news(1, ["a", "b"]) == {"a"}


def test_a_long_life_of_acks_does_not_fill_the_memory(monkeypatch):
    monkeypatch.setattr(Told, "MOST_OF_A_HOLDER", 10)
    told = Told()
    for n in range(1000):
        told.note(1, [f"run-{n}"], float(n))
    assert len(told._told[1]) <= 10
    assert told.news(1, ["run-999"]) == set()


def test_own_acks_are_forgotten_in_time_and_in_number(monkeypatch):
    monkeypatch.setattr(own_acks, "MOST", 3)
    acks, runs = own_acks.OwnAcks(), [UUID(int=number) for number in range(6)]
    long_ago = time.monotonic() - own_acks.KEPT_SECONDS - 1
    for run_id, tick in zip(runs, [long_ago] + [time.monotonic()] * 5, strict=True):
        acks.begin((1, "r", run_id))
        acks.end((1, "r", run_id), tick, is_accepted=True)
    assert acks.among(1, "r", runs, long_ago) == set(runs[3:])
    assert acks.among(2, "r", runs, long_ago) == set()


def test_an_ack_that_was_refused_or_is_long_past_hides_no_cancel():
    acks, run_id, now = own_acks.OwnAcks(), UUID(int=1), time.monotonic()
    acks.begin((1, "r", run_id))
    assert acks.among(1, "r", [run_id], now) == {run_id}
    acks.end((1, "r", run_id), now, is_accepted=False)
    assert acks.among(1, "r", [run_id], now) == set()
    acks.begin((1, "r", run_id))
    acks.end((1, "r", run_id), now, is_accepted=True)
    acks.begin((1, "r", run_id))  # sent again, its answer was lost
    acks.end((1, "r", run_id), now + 9, is_accepted=False)
    assert acks.among(1, "r", [run_id], now + own_acks.GRACE_SECONDS) == {run_id}
    assert acks.among(1, "r", [run_id], now + own_acks.GRACE_SECONDS + 0.1) == set()
