"""Limits: who has their slots, who waits, and for whom."""

from __future__ import annotations

from datetime import datetime

from django.http import HttpRequest, HttpResponse

from scheduler.dashboard.pages import live_answer, page
from scheduler.queries.budget_use import budget_table

MOST_BUSY, MOST_IDLE = 100, 100
MOST_HOLDERS, MOST_WAITERS = 20, 20


@page
def budget_page(request: HttpRequest, now: datetime) -> HttpResponse:
    table = budget_table(now)
    titles = {use.name: use.title for use in (*table.busy, *table.idle)}
    rows = [
        {
            "use": use,
            "holders": use.holders[:MOST_HOLDERS],
            "more_holders": use.used - len(use.holders[:MOST_HOLDERS]),
            "waiters": [
                {"waiter": waiter, "elsewhere": [titles[name] for name in waiter.blocked_by if name != use.name]}
                for waiter in use.waiters[:MOST_WAITERS]
            ],
            "more_waiters": len(use.waiters) - len(use.waiters[:MOST_WAITERS]),
        }
        for use in table.busy[:MOST_BUSY]
    ]
    context = {
        "rows": rows,
        "more_busy": len(table.busy) - len(rows),
        "idle": table.idle[:MOST_IDLE],
        "more_idle": max(0, len(table.idle) - MOST_IDLE) + table.left_out,
        "full": sum(use.is_full for use in table.busy),
        "waiting": sum({waiter.job_key: waiter.count for use in table.busy for waiter in use.waiters}.values()),
    }
    return live_answer(request, "dashboard/budgets.html", "dashboard/_budgets.html", context, table)
