"""Where polls wait: each goes in by its instance's turn, is let in, and stays until there is something for it."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable, Collection, Coroutine, Iterable
from functools import partial
from typing import Any
from uuid import UUID

from django.db import connection

from croniq_site.kernel.clock import Clock
from croniq_site.kernel.errors import Conflict, CroniqError, Unavailable
from runners.domain.scopes import Principal
from scheduler.api.work.claiming import Group, give_back
from scheduler.api.work.coalesce import Batch
from scheduler.api.work.gates import Gates
from scheduler.api.work.own_acks import OwnAcks
from scheduler.api.work.pool import Pool
from scheduler.api.work.presence import FRESH_SECONDS, Presence
from scheduler.api.work.waiting import EMPTY, SPIN_SECONDS, Answer, Held, Told, Visit
from scheduler.domain.polls import OpenPoll, PollRequest
from scheduler.metrics import traces
from scheduler.queries.assignments import JobDirectory
from scheduler.queries.holders import Holding, current_among, holdings_of
from scheduler.queries.lanes import LaneDirectory, Lanes, Rotation
from scheduler.services.poll import open_polls, see_again
from scheduler.services.wake import Ids, Signal, announce

_log = logging.getLogger(__name__)

MOST_HERE = 50_000


class Desk:
    """All polls of this process. Everything but the services it calls runs in the event loop's thread."""

    def __init__(
        self,
        pool: Pool,
        clock: Clock,
        hold_seconds: float,
        refusal_of_poll: Callable[[Principal], CroniqError | None],
    ) -> None:
        self._pool, self._clock, self._hold_seconds = pool, clock, hold_seconds
        self._refusal_of_poll = refusal_of_poll
        self._lanes, self._jobs = LaneDirectory(), JobDirectory()
        self._rotation, self._gates = Rotation(), Gates()
        self._groups: dict[tuple[Lanes, frozenset[int]], Group] = {}
        self._visits: dict[tuple[int, str, str], Visit] = {}
        self._held: dict[int, tuple[Held, Group | None]] = {}
        self._told, self._own_acks, self._presence = Told(), OwnAcks(), Presence()
        self._by_runner: dict[str, Held] = {}
        self._here: set[int] = set()  # holders whose newest poll is at this server
        self._pausing: set[Visit] = set()
        self._suspects: set[int] = set()
        self._tells = 0
        self._tasks: set[asyncio.Task[None]] = set()
        self._checking = False
        self._refreshing = self._must_refresh = self._seeing = False
        self._opens: Batch[tuple[PollRequest, Principal], OpenPoll] = Batch(
            lambda polls: pool.write(self._open_all, polls), slots=pool.slots
        )
        self.is_stopping = False

    @property
    def waiting(self) -> int:
        """How many polls are being held."""
        return len(self._held)

    async def start(self) -> None:
        """Read the lanes. While the database is away they are read with the first signal that it is back."""
        try:
            await self._pool.read(self._lanes.refresh)
        except Unavailable:
            _log.warning("the lanes could not be read yet")

    def stop(self) -> None:
        """Answer every waiting poll; whoever comes from now on is answered at once, without work."""
        self.is_stopping = True
        for held, _ in list(self._held.values()):
            held.finish()
        for visit in self._pausing:
            visit.left.set()

    async def pause(self, visit: Visit) -> None:
        """Wait until a superseded poll may be answered."""
        rest = visit.arrived_at + SPIN_SECONDS - time.monotonic()
        if rest > 0 and not self.is_stopping:
            self._pausing.add(visit)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(visit.left.wait(), rest)
            self._pausing.discard(visit)

    async def serve(self, visit: Visit) -> tuple[Answer, list[str]]:
        """Return what ``visit`` is answered: work, and texts of listed runs to cancel. Raises its refusal.

        When this returns, the claims of the answer are this poll's to tell: the connection was open a moment ago.
        """
        earlier, self._visits[visit.key] = self._visits.get(visit.key), visit
        try:
            if earlier is not None:
                # Settled before this one is let in: a claim that is still being made for the earlier poll is given
                # back then, and does not look like an answer that was lost.
                earlier.supersede()
                await earlier.settled.wait()
            return await self._serve_in_turn(visit)
        finally:
            visit.settled.set()
            if self._visits.get(visit.key) is visit:
                del self._visits[visit.key]

    async def _serve_in_turn(self, visit: Visit) -> tuple[Answer, list[str]]:
        visit.look()  # a process that is gone must not depose a living one
        if visit.is_over:
            return EMPTY, []
        request, tells, read_at = visit.request, self._tells, time.monotonic()
        opened = self._presence.let_in(visit.principal.client_id, request)
        if self._presence.has_unseen and not self._seeing:
            self._seeing = True
            self._run(self._see_unseen())
        if opened is None:
            opened = await self._opens((request, visit.principal))
            if tells == self._tells:  # else what was read may be older than what was said
                self._presence.looked(visit.principal.client_id, request, opened, read_at)
        holder_id = opened.holder_id
        cancels = self._cancels(visit, holder_id, opened.cancel, read_at)
        if not request.is_anonymous:  # several processes may share that one, each with a list of its own
            self._told.forget_unlisted(holder_id, cancels)
        answer = EMPTY
        if request.free and not visit.is_over and not self.is_stopping:
            news = self._told.news(holder_id, cancels)
            held = Held(visit, holder_id, cancels, is_patient=not news, is_drained=opened.is_drained)
            visit.held = held
            answer = await self._wait(held, is_suspect=tells != self._tells)
            # What it acked itself while it was held is none, also where a look found it before.
            cancels = held.cancels - self._acked_texts(visit)
            visit.look()
        if visit.is_over:
            if answer.claims:
                await self._pool.write(self._give_back, answer)
            return EMPTY, []
        traces.tell(answer.spans)
        return answer, self._told.to_send(holder_id, sorted(cancels), time.monotonic())

    async def _wait(self, held: Held, *, is_suspect: bool) -> Answer:
        self._held[held.holder_id] = held, self._join(held)
        self._by_runner[held.request.runner_id] = held
        self._refuse(held)  # its key may have ended since it was looked at
        if is_suspect:
            # Something was said while this poll was let in. What was read for it may be older than that.
            self._check([held.holder_id])
        try:
            return await held.answer
        finally:
            held.cancel_timer()
            mine = self._held.get(held.holder_id)
            if mine is not None and mine[0] is held:
                del self._held[held.holder_id]
                self._leave(held, mine[1])
            if self._by_runner.get(held.request.runner_id) is held:
                del self._by_runner[held.request.runner_id]

    def _begin_wait(self, held: Held) -> None:
        """There is nothing for it now: from here on its time runs, and whether its connection stays is watched."""
        held.visit.watch()
        held.expire_in(max(0.0, held.arrived_at + self._hold_seconds - time.monotonic()), partial(self._expire, held))

    def _expire(self, held: Held) -> None:
        mine = self._held.get(held.holder_id)
        if mine is not None and mine[0] is held and mine[1] is not None:
            held.expire()
        else:
            held.finish()  # nobody claims for it

    def _join(self, held: Held) -> Group | None:
        request = held.request
        lanes = self._lanes.lanes_for(request.capabilities, request.runner_id, held.principal.tenant)
        if held.is_drained or not lanes:
            # Nothing could come yet: only the end of the drain, a new lane, a cancel or the end of its time.
            if not held.is_patient:
                held.give(EMPTY)
            self._begin_wait(held)
            return None
        late = self._lanes.late_for(request.capabilities, request.runner_id, lanes)
        group = self._groups.get((lanes, late))
        if group is None:
            group = self._groups[lanes, late] = Group(
                lanes,
                late,
                self._lanes,
                self._rotation,
                self._pool,
                self._clock,
                self._jobs,
                self._gates,
                self._retire,
                self._presence,
                self._begin_wait,
            )
        group.join(held)
        return group

    def _join_again(self, held: Held) -> None:
        """It may be served from other lanes than before."""
        mine = self._held.get(held.holder_id)
        if mine is not None and mine[0] is held and held.is_open:
            self._leave(*mine)
            self._held[held.holder_id] = held, self._join(held)

    def _leave(self, held: Held, group: Group | None) -> None:
        if group is not None:
            group.leave(held)

    def _retire(self, group: Group) -> None:
        if self._groups.get((group.lanes, group.late)) is group:
            del self._groups[group.lanes, group.late]

    def _open_all(self, polls: list[tuple[PollRequest, Principal]]) -> list[OpenPoll | CroniqError]:
        answers = open_polls(polls, self._clock.now())
        arrived = {answer.holder_id for answer in answers if isinstance(answer, OpenPoll)}
        if connection.vendor == "postgresql" and not arrived <= self._here:
            # Another server may hold an older poll of theirs; it must take no work for it any more.
            announce(Signal(moved=frozenset(arrived - self._here)))
            if len(self._here) > MOST_HERE:
                self._here.clear()
            self._here |= arrived
        return answers

    def _give_back(self, answer: Answer) -> None:
        give_back(answer.claims, self._clock.now())

    def _cancels(self, visit: Visit, holder_id: int, lost: Collection[UUID], read_at: float) -> set[str]:
        """Return the texts of ``lost``, the listed runs that a look begun at ``read_at`` found held by somebody else or
        by nobody, that are to be cancelled."""
        listed = visit.request.listed
        if not listed:
            return set(visit.request.unknown)
        is_held = listed.keys() - set(lost)
        self._own_acks.hold_again(*visit.key[:2], is_held, read_at)
        self._told.hold_again(holder_id, {listed[run_id] for run_id in is_held})
        return {listed[run_id] for run_id in lost} - self._acked_texts(visit) | set(visit.request.unknown)

    def _acked_texts(self, visit: Visit) -> set[str]:
        listed = visit.request.listed
        return {listed[run_id] for run_id in self._own_acks.among(*visit.key[:2], listed, visit.arrived_at)}

    def acking(self, runner_id: str, run_id: UUID, principal: Principal) -> None:
        """The runner says itself that this run is over: that it no longer holds it is no cancel to its waiting poll."""
        self._own_acks.begin((principal.client_id, runner_id, run_id))

    def acked(self, runner_id: str, run_id: UUID, principal: Principal, *, is_accepted: bool) -> None:
        """What was said by `acking` is written, or was not accepted."""
        self._own_acks.end((principal.client_id, runner_id, run_id), time.monotonic(), is_accepted=is_accepted)
        if is_accepted:
            self._presence.acked(principal.client_id, runner_id, run_id)
        held = self._by_runner.get(runner_id)
        if not is_accepted and held is not None and run_id in held.request.listed:
            self._check([held.holder_id])  # a look meanwhile may have kept a cancel from it

    def held_keys(self) -> set[int]:
        """The keys by which polls that wait were let in."""
        return {held.principal.key_id for held, _ in self._held.values()}

    def turn_away(self) -> None:
        """End the wait of whoever may not poll any more."""
        for held, _ in list(self._held.values()):
            self._refuse(held)

    def _refuse(self, held: Held) -> None:
        refusal = self._refusal_of_poll(held.principal)
        if refusal is not None:
            held.fail(refusal)

    # Signals

    def hear(self, signal: Signal, *, is_from_here: bool = True) -> None:
        """Something may have changed. Called in the event loop's thread."""
        if signal.lanes is None or not self._lanes.knows(signal.lanes):
            self._refresh_then_wake(signal.lanes)
        else:
            self._wake(signal.lanes)
        if signal.holders is None or signal.holders:
            self._tells += 1
            self._presence.forget(signal.holders)
            self._check(self._held.keys() if signal.holders is None else signal.holders & self._held.keys())
        if not is_from_here:
            self._presence.forget(signal.moved)
            for holder_id in signal.moved:
                self._here.discard(holder_id)
                if holder_id in self._held:
                    self._held[holder_id][0].give(EMPTY)

    def _wake(self, lanes: Ids) -> None:
        for group in list(self._groups.values()):
            if lanes is None or not lanes.isdisjoint(group.lane_ids):
                group.wake()

    def _refresh_then_wake(self, lanes: Ids) -> None:
        self._wake(lanes)  # who knows his lanes need not wait for the new ones
        self._must_refresh = True
        if not self._refreshing:
            self._refreshing = True
            self._run(self._refresh())

    async def _refresh(self) -> None:
        before = self._lanes.version
        try:
            while self._must_refresh:  # what was said while we read may be of later lanes
                self._must_refresh = False
                await self._pool.read(self._lanes.refresh)
        finally:
            self._refreshing = False
        if self._lanes.version != before:
            for held, _ in list(self._held.values()):
                self._join_again(held)

    def _check(self, holder_ids: Iterable[int]) -> None:
        self._suspects.update(holder_ids)
        if self._suspects and not self._checking:
            self._checking = True
            self._run(self._check_suspects())

    async def _check_suspects(self) -> None:
        """Look whether polls that wait were deposed or have something to cancel; one look for all who are suspected."""
        try:
            while self._suspects:
                asked = {holder_id: self._held[holder_id][0] for holder_id in self._suspects & self._held.keys()}
                self._suspects = set()
                if asked:
                    read_at = time.monotonic()
                    holdings, drained = await self._pool.read(_look, set(asked))
                    for holder_id, held in asked.items():
                        self._judge(held, holdings[holder_id], drained.get(holder_id), read_at)
        finally:
            self._checking = False

    def _judge(self, held: Held, holding: Holding, is_drained: bool | None, read_at: float) -> None:
        """``is_drained`` None: it was deposed."""
        if is_drained is None:
            held.fail(
                Conflict(
                    f"Another process has taken over the runner {held.request.runner_id!r}. Stop one of the two, or "
                    "give each its own runner_id.",
                    code="instance_deposed",
                )
            )
            return
        if held.is_drained is not is_drained:
            held.is_drained = is_drained
            self._join_again(held)
        held.cancels = self._cancels(held.visit, held.holder_id, held.request.listed.keys() - holding.claims, read_at)
        is_lost = not held.request.is_anonymous and bool(holding.claims.keys() - held.request.listed.keys())
        if is_lost:
            # An answer that it never heard, of another server whose signal was lost: its next poll is looked at.
            self._presence.forget([held.holder_id])
        if is_lost or self._told.news(held.holder_id, held.cancels):
            held.finish()

    async def _see_unseen(self) -> None:
        """Look at those that were let in before their look; one look for all of the same second."""
        try:
            while self._presence.has_unseen and not self.is_stopping:
                await asyncio.sleep(FRESH_SECONDS)
                polls, read_at = self._presence.take_unseen(), time.monotonic()
                try:
                    gone = await self._pool.write(self._see, polls)
                except BaseException:
                    self._presence.forget(polls)
                    raise
                self._presence.seen(polls, read_at)
                self._presence.forget(gone)
                self._check(gone & self._held.keys())
        finally:
            self._seeing = False

    def _see(self, polls: dict[int, PollRequest]) -> set[int]:
        return see_again(polls, self._clock.now())

    def _run(self, coroutine: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(_logged(coroutine))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def _look(holder_ids: set[int]) -> tuple[dict[int, Holding], dict[int, bool]]:
    return holdings_of(holder_ids), current_among(holder_ids)


async def _logged(coroutine: Coroutine[Any, Any, None]) -> None:
    try:
        await coroutine
    except Unavailable:
        pass  # logged where it happened; the next signal, or the end of the polls' time, asks again
    except Exception:
        _log.exception("waiting polls could not be looked after")
