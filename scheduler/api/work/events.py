"""POST /v1/work/{execution_id}/events."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING
from uuid import UUID

from croniq_site.kernel.errors import Conflict
from croniq_site.kernel.logs import tell
from runners.domain.scopes import Principal
from scheduler.api.work.http import Receive, Scope, Send, header, read_texts, respond
from scheduler.api.work.parsing import parse_lines, run_id_of
from scheduler.domain.work import LogLine
from scheduler.queries.holders import runner_holding
from scheduler.services.identity import refusals
from scheduler.services.late import LateWord, no_execution, note_late_words
from scheduler.services.log import append_log

if TYPE_CHECKING:
    from scheduler.api.work.edge import Edge


async def answer(edge: Edge, scope: Scope, receive: Receive, send: Send, *, run_text: str) -> None:
    principal = await edge.keys.principal(header(scope, b"authorization"), "work:events")
    run_id = run_id_of(run_text)
    tell(execution_id=str(run_id))
    lines, runner_id = parse_lines(await read_texts(scope, receive))
    accepted = await edge.pool.write(
        lambda: append_owned(run_id, lines, runner_id, principal, edge.clock.now()),
    )
    await respond(send, 200, {"accepted": accepted}, close=edge.desk.is_stopping)


def append_owned(
    run_id: UUID, lines: Sequence[LogLine], runner_id: str | None, principal: Principal, now: datetime
) -> int:
    """`append_log` if the client owns the runner that the lines name, else the one that holds the run.

    Raises Forbidden ``runner_owned``, and what `append_log` raises; NotFound for a run of a tenant not the client's.
    """
    speaks_as = runner_id
    if speaks_as is None and (holder := runner_holding(run_id)):
        speaks_as, tenant = holder
        if not principal.sees(tenant):  # before the refusal, which would name the other tenant's runner
            raise no_execution(run_id)
    if speaks_as is not None:
        (refusal,) = refusals([(speaks_as, principal)], now)
        if refusal is not None:
            raise refusal
    try:
        return append_log(run_id, principal.client_id, lines, now, runner_id=runner_id)
    except Conflict as late:
        (unknown,) = note_late_words([LateWord(run_id, "events", runner_id or "", principal)], now)
        raise unknown or late from None
