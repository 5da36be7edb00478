"""/v1/executions: runs, their attempts and what they said."""

from __future__ import annotations

import json
from datetime import datetime
from uuid import UUID

from rest_framework.request import Request
from rest_framework.response import Response

from croniq_site.kernel.errors import Conflict, InvalidInput, NotFound
from runners.api.parameters import instant_part, number_of, uuid_in_path
from runners.api.views import ApiView
from scheduler.api import openapi, schema, wire
from scheduler.api.paging import Look, list_answer
from scheduler.api.run_filters import PARAMETERS, filter_of
from scheduler.api.views.jobs import actor_of
from scheduler.queries.logs import MOST_LINES, each_log_line, last_log_lines, log_line
from scheduler.queries.run_reach import BELOW_ALL, ERRORS_LOOKED_AT, LOOKED_AT, reach, within
from scheduler.queries.runs import RunRow, run_detail, run_list, tenant_of_run
from scheduler.services.cancel import cancel_runs

USUAL_BYTES = 1_000_000
"""Most bytes of log lines where nobody said how many lines; one line alone may be longer."""
ASKED_BYTES = 16_000_000
MOST_LAST = 100


class Executions(ApiView):
    required_scope = {"GET": "executions:read"}

    @openapi.documented(
        "listExecutions",
        "Runs, newest first. Those that are not due yet only with planned=1. Filters that no index answers look "
        f"through {LOOKED_AT:,} runs at a time, those by error through {ERRORS_LOOKED_AT:,} that failed: where that "
        "ends, a page has fewer rows, or none, and a next all the same; an array has the header Link with the page "
        "that goes on.",
        {200: openapi.listed(schema.ExecutionAnswer)},
        parameters=[*PARAMETERS, *openapi.PAGING],
        refuses=(400,),
    )
    def get(self, request: Request) -> Response:
        filters = filter_of(request, self.principal.tenant, self.now)

        def look(limit: int, before: tuple[datetime, UUID] | None) -> list[RunRow] | Look[RunRow]:
            reached = reach(filters, self.now, limit, before)
            rows = run_list(self.now, within(filters, reached), limit, before)
            return rows if reached is None or len(rows) == limit else Look(rows, (reached, BELOW_ALL))

        return list_answer(
            request,
            look,
            body=wire.execution_body,
            key=lambda run: (run.scheduled_for, run.id),
            key_parts=(instant_part, UUID),
        )


def run_in_path(view: ApiView, text: str) -> UUID:
    """Return the id of a run that the caller may see; 400 for what is no uuid, 404 for another tenant's."""
    run_id = uuid_in_path(text)
    tenant = tenant_of_run(run_id)
    if tenant is None or not view.principal.sees(tenant):
        raise NotFound(f"There is no execution {run_id}.")
    return run_id


class OneExecution(ApiView):
    required_scope = {"GET": "executions:read"}

    @openapi.documented(
        "getExecution", "One run with all its attempts.", {200: schema.ExecutionDetailAnswer}, refuses=(400, 404)
    )
    def get(self, request: Request, execution_id: str) -> Response:
        run_id = uuid_in_path(execution_id)
        detail = run_detail(run_id, self.now, self.principal.tenant)
        if detail is None:
            raise NotFound(f"There is no execution {run_id}.")
        return Response(wire.execution_detail_body(detail))


class ExecutionLogs(ApiView):
    required_scope = {"GET": "executions:read"}

    @openapi.documented(
        "getExecutionLogs",
        "What a run's handler said, in order: what fits into a megabyte, or with limit so many lines. Where there may "
        "be more, the header Link has the address with rel=next. A message over 64 Ki characters is cut, with a mark; "
        "one line alone has it whole.",
        {200: schema.LogAnswer(many=True)},
        parameters=[
            openapi.number_query("after", 2**63 - 1, least=0, says="Only lines with an id above this one."),
            openapi.number_query("limit", MOST_LINES, says="So many lines."),
            openapi.number_query("last", MOST_LAST, says="The newest so many lines, in order; not with the others."),
        ],
        refuses=(400, 404),
    )
    def get(self, request: Request, execution_id: str) -> Response:
        after = number_of(request, "after", default=0, least=0, most=2**63 - 1)
        asked = number_of(request, "limit", default=None, most=MOST_LINES)
        last = number_of(request, "last", default=None, most=MOST_LAST)
        if last is not None:
            if after or asked:
                raise InvalidInput.of("last", "last stands alone: it is neither after a line nor limited.")
            return Response([wire.log_body(line) for line in last_log_lines(run_in_path(self, execution_id), last)])
        limit, room = (asked, ASKED_BYTES) if asked else (MOST_LINES, USUAL_BYTES)
        answer: list[wire.Body] = []
        has_more = False
        for line in each_log_line(run_in_path(self, execution_id), after=after, limit=limit):
            body = wire.log_body(line)
            room -= len(json.dumps(body, ensure_ascii=False).encode())
            if answer and room < 0:
                has_more = True
                break
            answer.append(body)
        if not has_more and len(answer) < limit:
            return Response(answer)
        query = request.GET.copy()
        query["after"] = str(answer[-1]["id"])
        following = request.build_absolute_uri(f"{request.path}?{query.urlencode()}")
        return Response(answer, headers={"Link": f'<{following}>; rel="next"'})


class ExecutionLogLine(ApiView):
    required_scope = {"GET": "executions:read"}

    @openapi.documented(
        "getExecutionLogLine", "One line with its whole message.", {200: schema.LogAnswer}, refuses=(400, 404)
    )
    def get(self, request: Request, execution_id: str, line_id: str) -> Response:
        run_id = run_in_path(self, execution_id)
        # Ids are of 64 bits: what is longer is the id of nothing.
        is_id = line_id.isascii() and line_id.isdigit() and len(line_id) <= 18
        line = log_line(run_id, int(line_id)) if is_id else None
        if line is None:
            raise NotFound(f"The execution {run_id} has no such line.")
        return Response(wire.log_body(line))


class CancelExecution(ApiView):
    required_scope = {"POST": "executions:cancel"}

    @openapi.documented(
        "cancelExecution",
        "Cancel a run: a waiting one at once, a claimed one through its runner. Again is 200, a finished one 409.",
        {200: schema.CancelAnswer},
        refuses=(400, 404, 409),
    )
    def post(self, request: Request, execution_id: str) -> Response:
        run_id = run_in_path(self, execution_id)
        results = cancel_runs([run_id], self.now, actor_of(self))
        if not results:
            raise Conflict(f"The execution {run_id} is finished.", code="already_finished")
        return Response(
            {
                "execution_id": str(results[0].run_id),
                "cancelled": results[0].cancelled,
                "delivered_via_runner": results[0].delivered_via_runner,
            }
        )
