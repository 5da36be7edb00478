"""POST /v1/work/renew."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

from croniq_site.kernel.errors import Conflict
from croniq_site.kernel.logs import tell
from runners.domain.scopes import Principal
from scheduler.api.work.http import SMALL_BODY_BYTES, Receive, Scope, Send, header, read_body, respond
from scheduler.api.work.parsing import parse_renewal
from scheduler.domain.polls import Renewal
from scheduler.queries.assignments import instant_text
from scheduler.services.identity import refusals
from scheduler.services.late import LateWord, note_late_words
from scheduler.services.renew import renew

if TYPE_CHECKING:
    from scheduler.api.work.edge import Edge


async def answer(edge: Edge, scope: Scope, receive: Receive, send: Send) -> None:
    principal = await edge.keys.principal(header(scope, b"authorization"), "work:renew")
    renewal = parse_renewal(await read_body(scope, receive, SMALL_BODY_BYTES))
    tell(runner_id=renewal.runner_id, execution_id=str(renewal.run_id))
    expires_at = await edge.pool.write(lambda: renew_owned(renewal, principal, edge.clock.now()))
    await respond(send, 200, {"lease_expires_at": instant_text(expires_at)}, close=edge.desk.is_stopping)


def renew_owned(renewal: Renewal, principal: Principal, now: datetime) -> datetime:
    """`renew` if the client owns the runner. Raises Forbidden ``runner_owned``, and what `renew` raises."""
    (refusal,) = refusals([(renewal.runner_id, principal)], now)
    if refusal is not None:
        raise refusal
    try:
        return renew(renewal.run_id, renewal.runner_id, renewal.attempt, now)
    except Conflict as late:
        word = LateWord(renewal.run_id, "renew", renewal.runner_id, principal, renewal.attempt)
        (unknown,) = note_late_words([word], now)
        raise unknown or late from None
