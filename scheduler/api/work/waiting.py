"""A poll while it is with us, and what each instance was told about cancelled runs."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from runners.domain.scopes import Principal
from scheduler.api.work.http import Receive, has_closed
from scheduler.domain.polls import PollRequest

Claims = list[tuple[UUID, int]]
"""Runs with the attempt under which they were claimed."""


@dataclass(frozen=True)
class Answer:
    """What a poll is answered: assignments, the claims behind them, and their spans, to be told with the answer."""

    work: list[dict[str, Any]] = field(default_factory=list)
    claims: Claims = field(default_factory=list)
    spans: list[dict[str, Any]] = field(default_factory=list)


EMPTY = Answer()

SETTLE_SECONDS = 0.1
"""How long after its arrival a poll is answered that lists a run which is due for it: the runner needs this long to
hear that its ack was accepted, and would list it again if it were sent back sooner."""


SPIN_SECONDS = 1.0
"""How long after its arrival a superseded poll is answered: two processes that use one instance id supersede each
other, and would do so as fast as the network lets them."""


class Visit:
    """A poll from its arrival until its answer is decided.

    It is over for it when the connection closed (`is_gone`) or a newer poll of the same instance came
    (`is_superseded`): then it must not take any work.
    """

    def __init__(self, request: PollRequest, principal: Principal, receive: Receive) -> None:
        self._receive = receive
        self._watching: asyncio.Task[None] | None = None
        self.request = request
        self.principal = principal
        self.arrived_at = time.monotonic()
        self.is_gone = False
        self.is_superseded = False
        self.settled = asyncio.Event()
        self.left = asyncio.Event()
        self.held: Held | None = None

    @property
    def key(self) -> tuple[int, str, str]:
        # With the client: before ownership is known a stranger must not end the owner's poll.
        return self.principal.client_id, self.request.runner_id, self.request.instance_id

    @property
    def is_over(self) -> bool:
        return self.is_gone or self.is_superseded

    def watch(self) -> None:
        """From now on notice at once when the connection closes. For whoever waits: it costs a task."""
        if self._watching is None and not self.is_gone:
            self._watching = asyncio.get_running_loop().create_task(self._watch())

    async def _watch(self) -> None:
        while (await self._receive())["type"] != "http.disconnect":
            pass
        self.leave()

    def unwatch(self) -> None:
        if self._watching is not None:
            self._watching.cancel()

    def look(self) -> None:
        """Notice now if the connection has closed: for whoever was not watched."""
        if not self.is_over and has_closed(self._receive):
            self.leave()

    def leave(self) -> None:
        """The connection has closed."""
        self.is_gone = True
        self.left.set()
        self._end_wait()

    def supersede(self) -> None:
        """A newer poll of the same instance is here."""
        self.is_superseded = True
        self._end_wait()

    def _end_wait(self) -> None:
        # A claim in hand is waited for and given back before this poll is settled: until then the instance holds a run
        # that looks, to its next poll, like an answer that was lost.
        if self.held is not None:
            self.held.finish()


class Held:
    """A poll that waits for work. The first answer counts; who comes later is told so and takes his work back."""

    def __init__(
        self, visit: Visit, holder_id: int, cancels: set[str], *, is_patient: bool, is_drained: bool = False
    ) -> None:
        self.visit = visit
        self.request = visit.request
        self.principal = visit.principal
        self.arrived_at = visit.arrived_at
        self.holder_id = holder_id
        self.cancels = cancels
        self.is_patient = is_patient
        self.is_drained = is_drained
        self.is_in_claim = False
        self.was_asked_for = False
        self._timer: asyncio.TimerHandle | None = None
        self.answer: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()

    @property
    def is_open(self) -> bool:
        return not self.answer.done()

    def give(self, answer: Answer) -> bool:
        """Answer it; False when it has its answer already and takes no other."""
        if self.answer.done():
            return False
        self.answer.set_result(answer)
        return True

    def fail(self, error: BaseException) -> None:
        if not self.answer.done():
            self.answer.set_exception(error)

    def finish(self) -> None:
        """Answer it with what there is: at once, or with what the claim in hand brings."""
        if self.is_in_claim:
            self.is_patient = False
        else:
            self.give(EMPTY)

    @property
    def is_waiting(self) -> bool:
        return self._timer is not None

    def expire_in(self, seconds: float, expire: Callable[[], None]) -> None:
        """Let its time be up then."""
        if self._timer is None and self.is_open:
            self._timer = asyncio.get_running_loop().call_later(seconds, expire)

    def cancel_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def expire(self) -> None:
        """`finish` because its time is up, but not before a claim has looked for it: a server so busy that letting
        it in took all its time would send its runners away empty for ever while runs are due."""
        if self.was_asked_for:
            self.finish()
        else:
            self.is_patient = False

    def finish_settled(self) -> None:
        """`finish`, but not before the runner can have heard what its acks were answered."""
        rest = self.arrived_at + SETTLE_SECONDS - time.monotonic()
        if rest > 0:
            asyncio.get_running_loop().call_later(rest, self.finish)
        else:
            self.finish()


class Told:
    """Which cancels each instance was told, and when: a cancel ends a poll once, after that it rides along with other
    answers, at most once a second. (An SDK below its capacity polls again at once, whatever it was told.)"""

    AGAIN_SECONDS = 1.0
    FORGET_SECONDS = 120.0
    MOST_HOLDERS = 10_000
    MOST_OF_A_HOLDER = 1_000

    def __init__(self) -> None:
        self._told: dict[int, dict[str, float]] = {}

    def news(self, holder_id: int, cancels: Iterable[str]) -> set[str]:
        """Return the cancels that this instance has not been told yet."""
        return set(cancels) - self._told.get(holder_id, {}).keys()

    def to_send(self, holder_id: int, cancels: Iterable[str], tick: float) -> list[str]:
        """Return the cancels that an answer sent now carries, and note that they were told."""
        told = self._told.get(holder_id, {})
        sent = [text for text in cancels if told.get(text, -1e9) <= tick - self.AGAIN_SECONDS]
        if sent:
            self.note(holder_id, sent, tick)
        return sent

    def note(self, holder_id: int, cancels: Iterable[str], tick: float) -> None:
        if holder_id not in self._told and len(self._told) >= self.MOST_HOLDERS:
            self._prune(tick)
        told = self._told.setdefault(holder_id, {})
        if len(told) >= self.MOST_OF_A_HOLDER:
            told = self._told[holder_id] = {text: at for text, at in told.items() if at > tick - self.AGAIN_SECONDS}
        told.update(dict.fromkeys(cancels, tick))

    def hold_again(self, holder_id: int, held: Iterable[str]) -> None:
        """These are held after all (claimed anew): the next cancel of them is news."""
        told = self._told.get(holder_id)
        if told:
            for text in held:
                told.pop(text, None)

    def forget_unlisted(self, holder_id: int, listed: Collection[str]) -> None:
        """What the instance no longer lists need not be remembered."""
        told = self._told.get(holder_id)
        if told:
            for text in told.keys() - listed:
                del told[text]

    def _prune(self, tick: float) -> None:
        oldest = tick - self.FORGET_SECONDS
        kept: Mapping[int, dict[str, float]] = {
            holder_id: fresh
            for holder_id, told in self._told.items()
            if (fresh := {text: at for text, at in told.items() if at > oldest})
        }
        # Still full: one instance may be told something twice, which costs it a poll.
        self._told = dict(kept) if len(kept) < self.MOST_HOLDERS else {}
