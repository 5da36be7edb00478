"""Who polls for work: what each holds and may take, what nobody can, how often identities changed hands."""

from __future__ import annotations

from datetime import datetime, timedelta

from django.http import HttpRequest, HttpResponse

from scheduler.dashboard.pages import address, live_answer, may_act, page, text_in
from scheduler.dashboard.takeover_chart import takeover_columns
from scheduler.queries.runner_matrix import runner_matrix
from scheduler.queries.runner_story import leases_of, takeovers_since
from scheduler.queries.runners import runner_list

PAGE_ROWS = 100
MOST_COLUMNS, MOST_KINDS, MOST_LACKING = 12, 60, 50
CHART_SPAN, CHART_COLUMNS = timedelta(hours=24), 24


@page
def runner_list_page(request: HttpRequest, now: datetime) -> HttpResponse:
    after = text_in(request, "after")
    runners = runner_list(now, limit=PAGE_ROWS + 1, after=after)
    more = address("runners", {"after": runners[PAGE_ROWS - 1].runner_id}) if len(runners) > PAGE_ROWS else ""
    runners = runners[:PAGE_ROWS]
    leases = leases_of([runner.id for runner in runners])
    matrix = runner_matrix(now)
    takeovers = takeovers_since(now - CHART_SPAN)
    context = {
        "rows": [(runner, leases.get(runner.id), load_of(runner.inflight, runner.max_inflight)) for runner in runners],
        "after": after,
        "more": more,
        "columns": matrix.columns[:MOST_COLUMNS],
        "more_columns": max(0, len(matrix.columns) - MOST_COLUMNS),
        "kinds": [(kind, kind.cells[:MOST_COLUMNS]) for kind in matrix.kinds[:MOST_KINDS]],
        "more_kinds": max(0, len(matrix.kinds) - MOST_KINDS),
        "lacking": matrix.lacking[:MOST_LACKING],
        "more_lacking": max(0, len(matrix.lacking) - MOST_LACKING),
        "takeovers": len(takeovers),
        "flapping": sorted({takeover.runner_id for takeover in takeovers if takeover.is_flapping}),
        "chart": takeover_columns(takeovers, now, CHART_SPAN, CHART_COLUMNS),
        "chart_since": now - CHART_SPAN,
        "may_act": may_act(request.user),
    }
    shown = (runners, leases, matrix, takeovers, more)
    return live_answer(request, "dashboard/runners.html", "dashboard/_runners.html", context, shown)


def load_of(inflight: int, most: int) -> int:
    """How much of its places a runner uses, in hundredths: more than all of them is all of them."""
    return min(100, 100 * inflight // most) if most else (100 if inflight else 0)
