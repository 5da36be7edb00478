"""What became of runs, and why one has not started."""

from __future__ import annotations

from dataclasses import asdict

from rest_framework.request import Request
from rest_framework.response import Response

from calendars.domain.zones import load_zone
from croniq_site.kernel.errors import NotFound
from runners.api.parameters import choice_of, number_of, text_of
from runners.api.views import ApiView
from scheduler.api import insights_schema, openapi, wire
from scheduler.api.paging import list_answer
from scheduler.api.views.executions import run_in_path
from scheduler.api.views.jobs import job_in_path
from scheduler.queries.explain import explain
from scheduler.queries.statistics import WINDOWS, failures_by_hour, job_statistics, throughput
from scheduler.queries.tags import tag_counts

MOST_DAYS = 366


def days_of(request: Request, default: int) -> int:
    return number_of(request, "days", default=default, most=MOST_DAYS)


class JobStatistics(ApiView):
    required_scope = {"GET": "executions:read"}

    @openapi.documented(
        "getJobStats",
        "What became of a job's runs of the last days, and how long the completed ones took.",
        {200: insights_schema.JobStatsAnswer},
        parameters=[openapi.number_query("days", MOST_DAYS, says="7 by default.")],
        refuses=(400, 404),
    )
    def get(self, request: Request, job_key: str) -> Response:
        days = days_of(request, 7)
        job = job_in_path(self, job_key)
        return Response({"job_key": job.job_key, "days": days, **asdict(job_statistics(job.pk, self.now, days))})


class Throughput(ApiView):
    required_scope = {"GET": "executions:read"}

    @openapi.documented(
        "getThroughput",
        "Runs that ended, by the instants for which they were scheduled, in buckets of 1, 6 or 24 hours UTC.",
        {200: insights_schema.ThroughputAnswer},
        parameters=[openapi.query("window", enum=list(WINDOWS), says="24h by default.")],
        refuses=(400,),
    )
    def get(self, request: Request) -> Response:
        window = choice_of(request, "window", WINDOWS) or "24h"
        buckets = [
            {**asdict(bucket), "start_at": wire.instant(bucket.start_at)}
            for bucket in throughput(self.now, window, self.principal.tenant)
        ]
        return Response({"window": window, "bucket_minutes": WINDOWS[window][1] * 60, "buckets": buckets})


class Failures(ApiView):
    required_scope = {"GET": "executions:read"}

    @openapi.documented(
        "getFailures",
        "Runs that failed or died, counted by weekday (Monday first) and hour of the day.",
        {200: insights_schema.FailuresAnswer},
        parameters=[
            openapi.number_query("days", MOST_DAYS, says="28 by default."),
            openapi.query("timezone", says="Whose days and hours; UTC by default."),
        ],
        refuses=(400,),
    )
    def get(self, request: Request) -> Response:
        days, name = days_of(request, 28), text_of(request, "timezone") or "UTC"
        rows = failures_by_hour(self.now, days, load_zone(name).info, self.principal.tenant)
        return Response({"days": days, "timezone": name, "rows": rows})


class Tags(ApiView):
    required_scope = {"GET": "jobs:read"}

    @openapi.documented(
        "listTags",
        "The tags of jobs, each with how many carry it.",
        {200: openapi.listed(insights_schema.TagAnswer)},
        parameters=[*openapi.PAGING],
        refuses=(400,),
    )
    def get(self, request: Request) -> Response:
        def fetch(limit: int, after: tuple | None) -> list[tuple[str, int]]:
            tags = tag_counts(self.principal.tenant)
            return [row for row in tags if after is None or row[0] > after[0]][:limit]

        return list_answer(
            request,
            fetch,
            body=lambda row: {"tag": row[0], "jobs": row[1]},
            key=lambda row: (row[0],),
            key_parts=(str,),
        )


class ExplainExecution(ApiView):
    required_scope = {"GET": "executions:read"}

    @openapi.documented(
        "explainExecution",
        "Why a run has not started: what holds it, what it waits for, what is before it. Empty where it has.",
        {200: insights_schema.ExplainAnswer},
        refuses=(400, 404),
    )
    def get(self, request: Request, execution_id: str) -> Response:
        run_id = run_in_path(self, execution_id)
        found = explain(run_id, self.now)
        if found is None:  # deleted since
            raise NotFound(f"There is no execution {run_id}.")
        return Response(
            {
                "execution_id": str(run_id),
                "state": found.state,
                "ahead": found.ahead,
                "reasons": [
                    {
                        "code": reason.code,
                        "message": reason.message,
                        "until": wire.instant(reason.until),
                        "execution_ids": [str(other) for other in reason.run_ids],
                        "capabilities": list(reason.names),
                    }
                    for reason in found.reasons
                ],
            }
        )
