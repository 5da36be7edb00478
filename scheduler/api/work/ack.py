"""POST /v1/work/ack."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from itertools import islice
from typing import TYPE_CHECKING, Any

from croniq_site.kernel.clock import Clock
from croniq_site.kernel.errors import Conflict, CroniqError
from croniq_site.kernel.logs import tell
from runners.domain.scopes import Principal
from scheduler.api.work.coalesce import Batch
from scheduler.api.work.desk import Desk
from scheduler.api.work.http import Receive, Scope, Send, header, read_texts, respond, respond_with
from scheduler.api.work.parsing import parse_acks
from scheduler.api.work.pool import Pool
from scheduler.domain.work import Ack, AckAnswer
from scheduler.services.finish import ACKS_PER_TRANSACTION, finish
from scheduler.services.identity import refusals
from scheduler.services.late import LateWord, no_execution, note_late_words

if TYPE_CHECKING:
    from scheduler.api.work.edge import Edge


_OK = {"status": "ok"}
_TAKEN = b'{"status":"ok"}'


async def answer(edge: Edge, scope: Scope, receive: Receive, send: Send) -> None:
    principal = await edge.keys.principal(header(scope, b"authorization"), "work:ack")
    said = parse_acks(await read_texts(scope, receive))
    if isinstance(said, Ack):
        tell(runner_id=said.runner_id, execution_id=str(said.run_id))
        (given,) = await edge.acks.take([said], principal)
        if isinstance(given, CroniqError):
            raise given
        await respond_with(send, 200, _TAKEN, close=edge.desk.is_stopping)
        return
    answers = await edge.acks.take(said, principal)
    await respond(send, 200, {"results": results(said, answers)}, close=edge.desk.is_stopping)


def results(acks: Sequence[Ack], answers: Sequence[AckAnswer | CroniqError]) -> list[dict[str, Any]]:
    """Return what each ack of an array is answered, in order: ``ok`` or its refusal."""
    return [
        {"execution_id": str(ack.run_id), **(answer.as_body() if isinstance(answer, CroniqError) else _OK)}
        for ack, answer in zip(acks, answers, strict=True)
    ]


class Acks:
    """Acks that wait together are one call of the database."""

    def __init__(self, pool: Pool, clock: Clock, desk: Desk) -> None:
        self._clock, self._desk = clock, desk
        self._finishes: Batch[tuple[Sequence[Ack], Principal], list[AckAnswer | CroniqError]] = Batch(
            lambda said: pool.write(self._finish_all, said),
            slots=pool.slots,
            most=ACKS_PER_TRANSACTION,
            weigh=lambda said: len(said[0]),
        )

    async def take(self, acks: Sequence[Ack], principal: Principal) -> list[AckAnswer | CroniqError]:
        """Record the verdicts of one request; an answer or a refusal each, in order: Forbidden ``runner_owned``,
        Conflict ``stale_claim``, NotFound. Raises what fails all of them (the database is away): sent again, the array
        changes nothing that was taken."""
        given: list[AckAnswer | CroniqError] | None = None
        # From before it is committed: a look at the waiting poll right after that must know already.
        for ack in acks:
            self._desk.acking(ack.runner_id, ack.run_id, principal)
        try:
            given = await self._finishes((acks, principal))
        finally:
            # Any other may be of an earlier attempt while the runner holds the next one.
            for place, ack in enumerate(acks):
                is_accepted = given is not None and given[place] is AckAnswer.ACCEPTED
                self._desk.acked(ack.runner_id, ack.run_id, principal, is_accepted=is_accepted)
        return given

    def _finish_all(self, said: Sequence[tuple[Sequence[Ack], Principal]]) -> list[list[AckAnswer | CroniqError]]:
        answers = iter(finish_owned([(ack, principal) for acks, principal in said for ack in acks], self._clock.now()))
        return [list(islice(answers, len(acks))) for acks, _ in said]


def finish_owned(acks: Sequence[tuple[Ack, Principal]], now: datetime) -> list[AckAnswer | CroniqError]:
    """`finish` for those whose client owns the runner; an answer or a refusal each, in order."""
    answers: list[AckAnswer | CroniqError | None] = list(
        refusals([(ack.runner_id, principal) for ack, principal in acks], now)
    )
    places = [place for place, refusal in enumerate(answers) if refusal is None]
    for place, given in zip(places, finish([acks[place][0] for place in places], now), strict=True):
        answers[place] = _refusal_of(given, acks[place][0]) or given
    late = [place for place in places if isinstance(answers[place], Conflict)]
    words = [
        LateWord(ack.run_id, "ack", ack.runner_id, principal, ack.attempt, ack.status)
        for ack, principal in (acks[place] for place in late)
    ]
    for place, unknown in zip(late, note_late_words(words, now), strict=True):
        answers[place] = unknown or answers[place]
    return answers


def _refusal_of(given: AckAnswer, ack: Ack) -> CroniqError | None:
    if given is AckAnswer.STALE:
        return Conflict(
            f"Attempt {ack.attempt} of {ack.run_id} is not (or no longer) claimed by this runner, or it has another "
            "verdict.",
            code="stale_claim",
        )
    if given is AckAnswer.UNKNOWN:
        return no_execution(ack.run_id)
    return None
