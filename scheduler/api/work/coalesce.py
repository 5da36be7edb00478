"""Group commit: one call of the database serves all requests that wait together."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Generic, TypeVar

from croniq_site.kernel.errors import CroniqError
from croniq_site.kernel.logs import tell_nothing
from croniq_site.kernel.request import request_id

_log = logging.getLogger(__name__)

Q = TypeVar("Q")
A = TypeVar("A")


class Batch(Generic[Q, A]):
    """Hands questions to ``run`` in lists. No timer: an idle server answers the first at once, and while it does
    everything that comes waits for the next call. At most ``slots`` calls at a time, in each questions of a weight of
    ``most`` together (without ``weigh`` each weighs 1), or one that is heavier.

    ``run`` returns one answer a question, in order; an answer that is an exception is raised for that question alone.
    """

    def __init__(
        self,
        run: Callable[[list[Q]], Awaitable[Sequence[A | BaseException]]],
        *,
        slots: int,
        most: int = 100,
        weigh: Callable[[Q], int] | None = None,
    ) -> None:
        self._run = run
        self._free = slots
        self._most, self._weigh = most, weigh
        self._waiting: list[tuple[Q, asyncio.Future[A], str | None]] = []
        self._calls: set[asyncio.Task[None]] = set()

    def __call__(self, question: Q) -> asyncio.Future[A]:
        answer: asyncio.Future[A] = asyncio.get_running_loop().create_future()
        self._waiting.append((question, answer, request_id.get()))
        self._start()
        return answer

    def _start(self) -> None:
        if self._free and self._waiting:
            self._free -= 1
            call = asyncio.get_running_loop().create_task(self._call())
            self._calls.add(call)
            call.add_done_callback(self._calls.discard)

    async def _call(self) -> None:
        try:
            await asyncio.sleep(0)  # whatever this turn of the loop still brings comes along
            number = self._number()
            taken, self._waiting = self._waiting[:number], self._waiting[number:]
            if taken:
                await self._answer(taken)
        finally:
            self._free += 1
            self._start()

    def _number(self) -> int:
        if self._weigh is None:
            return self._most
        number, weight = 0, 0
        for question, _, _ in self._waiting:
            weight += self._weigh(question)
            if number and weight > self._most:
                break
            number += 1
        return number

    async def _answer(self, taken: list[tuple[Q, asyncio.Future[A], str | None]]) -> None:
        # What is done for several together is done for none of them by name.
        request_id.set(taken[0][2] if len(taken) == 1 else None)
        tell_nothing()
        try:
            answers = await self._run([question for question, _, _ in taken])
        except CroniqError as error:  # an outage: the same for all
            _settle(taken, [error] * len(taken))
        except Exception as error:
            if len(taken) == 1:
                _settle(taken, [error])
                return
            # One of them is bad and the transaction took the others with it: each on its own, so that only it fails.
            _log.warning("a batch of %d failed (%r); asking one by one", len(taken), error)
            for one in taken:
                await self._answer([one])
        else:
            _settle(taken, answers)


def _settle(taken: Sequence[tuple[Q, asyncio.Future[A], str | None]], answers: Sequence[A | BaseException]) -> None:
    for (_, future, _), answer in zip(taken, answers, strict=True):
        if future.done():  # whoever asked was cancelled meanwhile
            continue
        if isinstance(answer, BaseException):
            future.set_exception(answer)
        else:
            future.set_result(answer)
