"""POST /v1/work/poll."""

from __future__ import annotations

from typing import TYPE_CHECKING

from croniq_site.kernel.logs import tell
from scheduler.api.work.http import SMALL_BODY_BYTES, Receive, Scope, Send, header, read_body, respond, respond_with
from scheduler.api.work.parsing import parse_poll
from scheduler.api.work.waiting import Visit

if TYPE_CHECKING:
    from scheduler.api.work.edge import Edge


_NOTHING = b'{"work":[],"cancel":[]}'


async def answer(edge: Edge, scope: Scope, receive: Receive, send: Send) -> None:
    """Hold the poll until there is something for it. A connection that closes meanwhile is noticed."""
    principal = await edge.keys.principal(header(scope, b"authorization"), "work:poll")
    visit = Visit(parse_poll(await read_body(scope, receive, SMALL_BODY_BYTES)), principal, receive)
    tell(runner_id=visit.request.runner_id)
    try:
        given, cancel = await edge.desk.serve(visit)
        if visit.is_superseded:
            await edge.desk.pause(visit)
    finally:
        visit.unwatch()
    if given.work or cancel:
        await respond(send, 200, {"work": given.work, "cancel": cancel}, close=edge.desk.is_stopping)
    else:
        await respond_with(send, 200, _NOTHING, close=edge.desk.is_stopping)
