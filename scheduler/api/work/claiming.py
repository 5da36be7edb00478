"""Polls that may be served from the same lanes share their claims: one statement asks for many of them at once."""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from croniq_site.kernel import tracing
from croniq_site.kernel.clock import Clock
from croniq_site.kernel.database import WRITE_BATCH_ROWS, is_outage
from croniq_site.kernel.errors import CroniqError, Unavailable
from croniq_site.kernel.request import request_id
from scheduler.api.work.gates import Gates
from scheduler.api.work.pool import Pool
from scheduler.api.work.presence import Presence
from scheduler.api.work.waiting import EMPTY, Answer, Claims, Held
from scheduler.domain.work import Ask, ClaimOutcome, LossCause
from scheduler.metrics import traces
from scheduler.queries.assignments import JobDirectory, assignments
from scheduler.queries.holders import due_among
from scheduler.queries.lanes import LaneDirectory, Lanes, Rotation
from scheduler.services.admit import admit
from scheduler.services.claim import claim_batch
from scheduler.services.release import release
from scheduler.sql.upcoming import upcoming

_log = logging.getLogger(__name__)

MOST_ASKS = 100
"""Polls asked for in one claim. More wait for the next, which begins at once if this one found work for all."""
RECHECK_SECONDS = 1.0
"""When to look again after an outage, or at a due run that nobody here could take: somebody else has it locked, and
whether he keeps it is not told to us."""
QUIET_SECONDS = 1.0
"""How long a claim that found nothing is believed for those who come after it, unless something is said. It bounds what
a lost signal can cost while others keep coming."""


@dataclass(frozen=True)
class Round:
    """What one claim brought: an answer an ask (None: nothing for it); ``is_short``: fewer runs than were asked for;
    ``is_more_due``: something due is left; ``falls_due_at``: the monotonic instant of the next (None: none planned);
    ``gate_at``: that of the next of a limited job, which is to be admitted then (None: not known);
    ``listed_due``: listed runs that are due and that only another poll can have; ``served``: the lanes it took from."""

    answers: list[Answer | None]
    is_short: bool
    is_more_due: bool
    has_progress: bool
    falls_due_at: float | None
    gate_at: float | None
    listed_due: set[UUID]
    served: frozenset[int]


def claim_round(
    clock: Clock,
    jobs: JobDirectory,
    asks: Sequence[Ask],
    tenants: Lanes,
    late: Collection[int],
    admits: bool = True,
) -> Round:
    """Claim for ``asks`` and, where there was too little, find out when there will be more, by the same ``now``.

    With ``admits`` runs of limited jobs may have fallen due in these lanes: they get their slots first.
    """
    now, tick = clock.now(), time.monotonic()
    if admits:
        _admit(now, tenants)
    outcomes = claim_batch(now, asks, tenants, late)
    try:
        return _round(now, tick, jobs, asks, tenants, late, outcomes)
    except BaseException:
        # Claimed but never to be told: given back at once, or nobody would have these runs for a whole lease.
        give_back([(claim.run_id, claim.attempt) for outcome in outcomes for claim in outcome], now)
        raise


def _round(
    now: datetime,
    tick: float,
    jobs: JobDirectory,
    asks: Sequence[Ask],
    tenants: Lanes,
    late: Collection[int],
    outcomes: Sequence[ClaimOutcome],
) -> Round:
    answers = [
        Answer(assignments(list(outcome), jobs), [(claim.run_id, claim.attempt) for claim in outcome])
        if outcome
        else None
        for outcome in outcomes
    ]
    if tracing.active is not None:
        for outcome, answer in zip(outcomes, answers, strict=True):
            if answer is not None:
                answer.spans.extend(traces.hand_over(outcome.claimed, answer.work, now))
    is_short = sum(map(len, outcomes)) < sum(ask.limit for ask in asks)
    is_more_due, later, gated = upcoming(lanes_of(tenants), now, late) if is_short else (True, None, None)
    falls_due = min((at for at in (later, gated) if at is not None), default=None)
    without = [ask for ask, answer in zip(asks, answers, strict=True) if answer is None]
    listed = frozenset().union(*(ask.listed for ask in without)) if is_short and is_more_due else frozenset()
    return Round(
        answers=answers,
        is_short=is_short,
        is_more_due=is_more_due,
        has_progress=any(outcome.claimed or outcome.buried for outcome in outcomes),
        served=frozenset(one.lane_id for outcome in outcomes for one in (*outcome.claimed, *outcome.buried)),
        falls_due_at=None if falls_due is None else tick + (falls_due - now).total_seconds(),
        gate_at=_gate_at(gated, is_short, now, tick),
        listed_due=due_among(listed, now),
    )


def _admit(now: datetime, tenants: Lanes) -> None:
    try:
        admit(now, lane_ids=lanes_of(tenants))
    except Exception as error:
        if is_outage(error):
            raise
        _log.exception("due runs of limited jobs could not be admitted; the others are handed out")


def lanes_of(tenants: Lanes) -> list[int]:
    return [lane_id for lane_ids in tenants for lane_id in lane_ids]


def _gate_at(gated: datetime | None, is_short: bool, now: datetime, tick: float) -> float | None:
    if not is_short:
        return None
    return math.inf if gated is None else tick + (gated - now).total_seconds()


def give_back(claims: Claims, now: datetime) -> None:
    """Undo claims whose answer never went out: no loss, and the attempt is given back."""
    if claims:
        release(claims, now, LossCause.DISCONNECTED)


class Group:
    """The polls that wait at the same lanes (``late``: those that prefer other runners), in the order of their arrival;
    at most one claim for them at a time.
    ``is_idle`` is told when nobody waits and no claim is under way any more."""

    def __init__(
        self,
        lanes: Lanes,
        late: frozenset[int],
        directory: LaneDirectory,
        rotation: Rotation,
        pool: Pool,
        clock: Clock,
        jobs: JobDirectory,
        gates: Gates,
        is_idle: Callable[[Group], None],
        presence: Presence,
        begin_wait: Callable[[Held], None],
    ) -> None:
        self.lanes, self.late = lanes, late
        self._say_idle, self._presence, self._begin_wait = is_idle, presence, begin_wait
        self.lane_ids = frozenset(lanes_of(lanes))
        self._directory, self._rotation = directory, rotation
        self._pool, self._clock, self._jobs = pool, clock, jobs
        self._waiting: dict[Held, None] = {}
        self._to_ask: dict[Held, None] = {}
        self._serving: asyncio.Task[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._gates = gates
        self._quiet_since = -math.inf
        self._woken = False

    def join(self, held: Held) -> None:
        self._waiting[held] = None
        if self._quiet_since > time.monotonic() - QUIET_SECONDS:
            self._wait_unasked(held)
        else:
            self._to_ask[held] = None
            self._serve()

    def _wait_unasked(self, held: Held) -> None:
        """A claim of a moment ago has looked for it, too, and nothing was said since."""
        held.was_asked_for = True
        if not held.is_patient:
            held.give(EMPTY)
        elif not held.is_waiting:
            self._begin_wait(held)

    def leave(self, held: Held) -> None:
        self._waiting.pop(held, None)
        self._to_ask.pop(held, None)
        self._rest()

    def _rest(self) -> None:
        if not self._waiting:
            self._cancel_timer()
            self._gates.rest(self.lanes)
            if self._serving is None:
                self._say_idle(self)

    def wake(self) -> None:
        """Something may be due: ask again for everybody."""
        self._quiet_since, self._woken = -math.inf, True
        self._to_ask.update(self._waiting)
        self._serve()

    def _serve(self) -> None:
        if self._serving is None and self._to_ask:
            self._serving = asyncio.get_running_loop().create_task(self._claims())

    async def _claims(self) -> None:
        request_id.set(None)  # whoever's poll began it: the claims are those of all that wait
        try:
            await asyncio.sleep(0)  # whoever else arrives in this turn of the loop is asked for with the first
            while self._to_ask:
                await self._claim_once()
        except Exception as error:
            if not isinstance(error, Unavailable):
                _log.exception("claims could not be handed out")
            for held in self._waiting:
                self._begin_wait(held)
            self._wake_in(RECHECK_SECONDS)
        finally:
            self._serving = None
            self._serve()  # who came after the last look at the list
            self._rest()

    async def _claim_once(self) -> None:
        asked = _who_asks(self._to_ask)
        if not asked:
            self._to_ask.clear()
            return
        # Who joins or is woken while the claim runs is asked again after it: the claim may have looked before.
        rest, self._to_ask = self._to_ask, {}
        for held in asked:
            rest.pop(held)
            held.is_in_claim = held.was_asked_for = True
        asks = [Ask(held.holder_id, held.request.free, frozenset(held.request.listed)) for held in asked]
        turns = self._rotation.in_turn(self.lanes, self._directory)
        self._quiet_since, self._woken, began = -math.inf, False, time.monotonic()
        try:
            admits = self._gates.is_due(self.lanes)
            done = await self._pool.write(claim_round, self._clock, self._jobs, asks, turns, self.late, admits)
        except Exception as error:
            if not isinstance(error, CroniqError):
                _log.exception("a claim failed")
            self._presence.forget([held.holder_id for held in asked])  # it may be committed all the same
            for held in asked:
                held.is_in_claim = False
                held.fail(error)
            self._wake_in(RECHECK_SECONDS)
            return
        self._gates.note(self.lanes, done.gate_at, admitted=admits)
        self._rotation.note(turns, done.served, self._directory)
        if not done.is_more_due and not self._woken:
            self._quiet_since = began
        await self._hand_out(asked, rest, done)

    async def _hand_out(self, asked: list[Held], rest: dict[Held, None], done: Round) -> None:
        returned: Claims = []
        unserved: dict[Held, None] = {}
        for held, answer in zip(asked, done.answers, strict=True):
            held.is_in_claim = False
            if answer is not None:
                # First of all: a claim that is given back, or whose answer gets lost, is looked for by the next poll.
                self._presence.claimed(held.holder_id, (run_id for run_id, _ in answer.claims))
                if not held.give(answer):
                    returned.extend(answer.claims)
            elif not held.is_patient:
                held.give(EMPTY)
            elif not done.listed_due.isdisjoint(held.request.listed):
                held.finish_settled()
            else:
                unserved[held] = None
                self._begin_wait(held)
        if done.is_more_due:
            # Where nothing was claimed or buried, asking the same again would find the same.
            again = unserved if done.is_short and done.has_progress else {}
            self._to_ask = {**again, **rest, **self._to_ask}
        else:
            for held in rest:
                self._wait_unasked(held)
        if done.is_short:
            self._arm(done)
        if returned:
            await self._pool.write(_give_back_now, self._clock, returned)
            self.wake()

    def _arm(self, done: Round) -> None:
        self._cancel_timer()
        waits = []
        if done.falls_due_at is not None:
            # A millisecond more: a timer that is early by a hair would find the run not yet due.
            waits.append(max(0.0, done.falls_due_at - time.monotonic()) + 0.001)
        if done.is_more_due:
            waits.append(RECHECK_SECONDS)
        if (gate := self._gates.seconds_left(self.lanes)) < math.inf:
            waits.append(gate + 0.001)
        if waits and self._waiting:
            self._wake_in(min(waits))

    def _wake_in(self, seconds: float) -> None:
        self._cancel_timer()
        self._timer = asyncio.get_running_loop().call_later(seconds, self.wake)

    def _cancel_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


def _who_asks(to_ask: Iterable[Held]) -> list[Held]:
    """Return the first that are open: as many as one transaction can serve in full, at most `MOST_ASKS`, always one."""
    asked: list[Held] = []
    wanted = 0
    for held in to_ask:
        if held.is_open:
            wanted += held.request.free
            if asked and (wanted > WRITE_BATCH_ROWS or len(asked) == MOST_ASKS):
                break
            asked.append(held)
    return asked


def _give_back_now(clock: Clock, claims: Claims) -> None:
    give_back(claims, clock.now())
