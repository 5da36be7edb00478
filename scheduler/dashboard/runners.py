"""Who polls for work."""

from __future__ import annotations

from datetime import datetime

from django.http import HttpRequest, HttpResponse

from scheduler.dashboard.pages import address, live_answer, page, text_in
from scheduler.queries.runners import runner_list

PAGE_ROWS = 100


@page
def runner_list_page(request: HttpRequest, now: datetime) -> HttpResponse:
    after = text_in(request, "after")
    runners = runner_list(now, limit=PAGE_ROWS + 1, after=after)
    more = address("runners", {"after": runners[PAGE_ROWS - 1].runner_id}) if len(runners) > PAGE_ROWS else ""
    runners = runners[:PAGE_ROWS]
    context = {"runners": runners, "after": after, "more": more}
    return live_answer(request, "dashboard/runners.html", "dashboard/_runners.html", context, (runners, more))
