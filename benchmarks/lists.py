"""Lists of a long history: two million runs walked page by page, 200,000 log lines of one run. (DB-01, DB-02)

    python -m benchmarks.lists [--runs 2000000] [--database postgresql|sqlite]

500 of the runs have one instant; the pages have 400 rows, so that page 5,000 is the last one of two million. Asked of
the server's own views in this process. Exits with 1 where a gate is missed.
"""

# ruff: noqa: T201, S608 - the texts are ours
from __future__ import annotations

import argparse
import itertools
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

from benchmarks.bed import bed, machine

PAGE = 400
GATE_MS = 300
SAME_INSTANT = 500
LINES = 200_000
LINES_GATE_BYTES = 1_000_000
COLUMNS = (
    "id, job_id, kind, scheduled_for, occurrence_at, created_at, attempt, verdict, problem, reason, error, runner_id, "
    "claimed_at, finished_at, duration_ms"
)
# Oldest last: n = 0 … 499 are the newest and of one instant, a second lies between two of the others.
POSTGRESQL = f"""
INSERT INTO scheduler_run ({COLUMNS})
SELECT gen_random_uuid(), jobs[1 + n %% array_length(jobs, 1)], 'triggered', at, at, at, 1,
    CASE WHEN n %% 20 = 0 THEN 'failed' ELSE 'completed' END, CASE WHEN n %% 20 = 0 THEN 'failed' END, '',
    CASE WHEN n %% 20 = 0 THEN 'exit code 1' ELSE '' END, 'worker-1', at, at, 1500
FROM (SELECT n, now() - make_interval(secs => greatest(n - {SAME_INSTANT - 1}, 0)) AS at
    FROM generate_series(0, %s - 1) AS n) made, (SELECT array_agg(id ORDER BY id) AS jobs FROM scheduler_job) j
"""
# An instant on SQLite is text: without a fraction it would be written in another form than the server's own.
SQLITE = f"""
WITH RECURSIVE made(n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM made WHERE n < %s - 1),
ago(n, seconds) AS (SELECT n, '-' || max(n - {SAME_INSTANT - 1}, 0) || ' seconds' FROM made),
at(n, at) AS (SELECT n, strftime('%%Y-%%m-%%d %%H:%%M:%%S', 'now', seconds) || '.000123' FROM ago)
INSERT INTO scheduler_run ({COLUMNS})
SELECT lower(hex(randomblob(16))), (SELECT min(id) FROM scheduler_job) + n %% 50, 'triggered', at, at, at, 1,
    CASE WHEN n %% 20 = 0 THEN 'failed' ELSE 'completed' END, CASE WHEN n %% 20 = 0 THEN 'failed' END, '',
    CASE WHEN n %% 20 = 0 THEN 'exit code 1' ELSE '' END, 'worker-1', at, at, 1500
FROM at
"""  # fmt: skip


def fill_runs(number: int) -> None:
    from django.db import connection

    with connection.cursor() as cursor:
        cursor.execute(POSTGRESQL if connection.vendor == "postgresql" else SQLITE, [number])
        cursor.execute("ANALYZE")
        if connection.vendor == "postgresql":
            cursor.execute("VACUUM scheduler_run")


def fill_lines() -> str:
    """Make a run that has said too much, one line of it 4 MB; returns its id."""
    from scheduler.models import Run, RunLog

    run = Run.objects.order_by("-scheduled_for", "-id").first()
    for number in range(0, LINES, 5000):
        RunLog.objects.bulk_create(
            RunLog(
                run=run,
                attempt=1,
                logged_at=run.created_at,
                level="info",
                message="x" * 4_000_000 if at == 7 else f"line {at} of what somebody wanted to know " + "x" * 60,
            )
            for at in range(number, number + 5000)
        )
    return str(run.pk)


class Api:
    """The API in this process, by the key of the bed."""

    def __init__(self, key: str) -> None:
        from django.conf import settings
        from django.test import Client

        settings.CRONIQ_RATE_PER_KEY = settings.CRONIQ_RATE_PER_ADDRESS = None
        self._client, self._key = Client(SERVER_NAME="localhost"), key

    def get(self, path: str) -> tuple[Any, Any, float]:
        """Return what is answered, read, the answer itself, and the milliseconds that it took."""
        began = time.perf_counter()
        answer = self._client.get(path, secure=True, headers={"authorization": f"ApiKey {self._key}"})
        took = (time.perf_counter() - began) * 1000
        if answer.status_code != 200:
            raise SystemExit(f"{path}: {answer.status_code} {answer.content[:300]}")
        return answer.json(), answer, took

    def pages(self, path: str) -> Iterator[tuple[list[dict], float, str]]:
        while path:
            body, _, took = self.get(path)
            yield body["results"], took, path
            path = body["next"]


def best_of(ask: Callable[[], float], times: int = 5) -> float:
    return min(ask() for _ in range(times))


def measure(api: Api, runs: int) -> bool:
    good = True

    def gate(name: str, milliseconds: float, most: float = GATE_MS) -> None:
        nonlocal good
        good = good and milliseconds < most
        print(f"{name:44} {milliseconds:8.1f} ms   {'' if milliseconds < most else f'MISSED: {most:g} ms'}", flush=True)

    seen: set[str] = set()
    number, last, slowest, began = 0, "", 0.0, time.perf_counter()
    for rows, took, path in api.pages(f"/v1/executions?page_size={PAGE}"):
        number, last = number + 1, path
        seen.update(row["id"] for row in rows)
        slowest = max(slowest, took)
        if len(seen) != min(number * PAGE, runs):
            print(f"page {number}: {len(seen)} runs seen, {min(number * PAGE, runs)} expected")
            return False
    print(f"walked {len(seen):,} runs in {number:,} pages, each once: {time.perf_counter() - began:.0f} s")
    good = good and len(seen) == runs
    gate("first page", best_of(lambda: api.get(f"/v1/executions?page_size={PAGE}")[2]))
    gate(f"page {number:,}", best_of(lambda: api.get(last)[2]))
    print(f"{'slowest page of the walk':44} {slowest:8.1f} ms")
    filters = (
        "state=completed",
        "state=failed",
        "job_key=bench:job-7",
        "state=queued",
        "state=dead",
        "runner_id=worker-1",
    )
    for query in filters:
        gate(f"first page, {query}", best_of(lambda q=query: api.get(f"/v1/executions?{q}&page_size={PAGE}")[2]))
    deep = list(itertools.islice(api.pages(f"/v1/executions?state=failed&page_size={PAGE}"), 200))[-1][2]
    gate("page 200, state=failed", best_of(lambda: api.get(deep)[2]))
    print(f"{'/v1/jobs/states, 50 jobs':44} {best_of(lambda: api.get('/v1/jobs/states')[2], 2):8.1f} ms")
    return good


def measure_lines(api: Api, run_id: str) -> bool:
    path = f"/v1/executions/{run_id}/logs"
    took = best_of(lambda: api.get(path)[2])
    first = len(api.get(path)[1].content)
    print(f"{'first answer of the log':44} {took:8.1f} ms, {first:,} bytes")
    seen, answers, largest = 0, 0, 0
    while path:
        lines, answer, _ = api.get(path)
        seen, answers, largest = seen + len(lines), answers + 1, max(largest, len(answer.content))
        path = answer["Link"].partition(">")[0].removeprefix("<") if answer.has_header("Link") else ""
    print(f"{seen:,} lines in {answers:,} answers, the largest of {largest:,} bytes")
    return seen == LINES and max(first, largest) <= LINES_GATE_BYTES


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--runs", type=int, default=2_000_000)
    parser.add_argument("--database", choices=["postgresql", "sqlite"], default="postgresql")
    options = parser.parse_args()
    with bed(options.database) as made:
        print(machine())
        began = time.perf_counter()
        fill_runs(options.runs)
        print(f"{options.database}: {options.runs:,} runs made in {time.perf_counter() - began:.0f} s", flush=True)
        api = Api(made.key)
        good = measure(api, options.runs)
        good = measure_lines(api, fill_lines()) and good
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
