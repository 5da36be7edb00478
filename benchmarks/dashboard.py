"""What each page of a busy installation costs: queries, seconds of a core, seconds on the clock, bytes. (Issue 7)

    python -m benchmarks.dashboard [RUNS] [sqlite|postgresql]

The bed is `manage.py seed_demo --jobs 200` with three quarters of RUNS (100,000) on a database that is started for it;
the rest are the runs of one job, every minute; one of them has said 200,000 lines, and ten thousand alerts were told.
Each page is asked once to be warm and then three times, of which the best counts. Exits with 1 where one takes more
than 0.3 s, 15 queries or 1 MB, or where the start page with all that it needs is more than 100 kB on the wire.
"""

# ruff: noqa: T201
from __future__ import annotations

import os
import re
import sys
import tempfile
import time
from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

JOBS = 200
LINES, ALERTS = 200_000, 10_000
MOST_SECONDS, MOST_QUERIES, MOST_BYTES = 0.3, 15, 1_000_000
MOST_OF_THE_START_PAGE = 100_000
TIMES = 3

PAGES = [
    "/jobs",
    "/jobs?status=failing",
    "/jobs?status=overdue",
    "/jobs?q=invoices&tag=eu",
    "/jobs/bulk?do=pause&all=1",
    "/jobs/billing:invoices",
    "/jobs/billing:invoices/edit",
    "/jobs/bench:minutely",
    "/now",
    "/runs",
    "/runs?state=dead",
    "/runs?runner=nobody",
    "/runs?error=no+such+text",
    "/runs?tag=eu&state=dead",
    "/runs?job=bench:minutely&state=dead",
    "/runs/bulk?do=rerun&all=1",
    "/runs/planned",
    "/runs/{run}",
    "/runs/{talker}",
    "/runs/{talker}/log",
    "/runs/{talker}/log?line=100000",
    "/runs/{talker}/log?q=no+such+text&times=relative",
    "/runs/{talker}/log/raw",
    "/next",
    "/next?window=31d",
    "/overlap",
    "/overlap?by=runner",
    "/overlap?by=tag",
    "/overlap?day={yesterday}",
    "/overlap?day={yesterday}&by=runner",
    "/overlap?day={tomorrow}&by=tag",
    "/letters",
    "/letters/{letter}",
    "/letters/confirm?do=replay",
    "/missed",
    "/missed?window=31d",
    "/missed/bench:minutely",
    "/budgets",
    "/alerts",
    "/alerts?state=failed",
    "/audit",
    "/runners",
    "/runners/{runner}",
    "/calendars",
    "/calendars/{calendar}",
    "/calendars/{calendar}/year",
    "/palette?q=invoices",
    "/settings",
    "/settings/clients",
    "/settings/users",
    "/settings/tenants",
    "/settings/doctor",
]
ADMIN = [
    "/admin/",
    "/admin/scheduler/run/",
    "/admin/scheduler/run/?ended=dead",
    "/admin/scheduler/run/?kind=scheduled&since=31d",
    "/admin/scheduler/run/?q=bench:minutely",
    "/admin/scheduler/run/{run}/change/",
    "/admin/scheduler/attempt/",
    "/admin/scheduler/queueentry/",
    "/admin/scheduler/deadletter/",
    "/admin/scheduler/runlog/",
    "/admin/scheduler/job/",
    "/admin/scheduler/trigger/",
    "/admin/scheduler/alert/",
    "/admin/runners/auditevent/",
    "/admin/runners/runner/",
]
API = [
    "/v1/executions",
    "/v1/executions?job_key=bench:minutely",
    "/v1/executions/{talker}/logs",
    "/v1/executions/{talker}/logs?last=100",
    "/v1/jobs",
    "/v1/jobs/states",
    "/v1/jobs/states?limit=500",
    "/v1/jobs/bench:minutely/stats?days=30",
    "/v1/executions/throughput",
    "/v1/executions/throughput?window=30d",
    "/v1/insights/failures",
]


def fill(runs: int) -> None:
    """Make the bed in an empty database, as autovacuum would leave it."""
    from django.core.management import call_command
    from django.db import connection

    call_command("migrate", verbosity=0)
    began = time.monotonic()
    call_command("seed_demo", jobs=JOBS, runs=runs - runs // 4)
    fill_one_job(runs // 4)
    fill_lines()
    fill_alerts()
    with connection.cursor() as cursor:
        cursor.execute("VACUUM ANALYZE" if connection.vendor == "postgresql" else "ANALYZE")
    print(f"{connection.vendor}: made in {time.monotonic() - began:.0f} s", flush=True)
    call_command("materialize", once=True, verbosity=0)


def fill_one_job(number: int) -> None:
    """Make a job that ran every minute for so long; of a hundred runs one died and one was missed."""
    from croniq_site.kernel.clock import DatabaseClock
    from croniq_site.kernel.database import chunks
    from croniq_site.kernel.ids import uuid7_of
    from runners.services.audit import SYSTEM
    from scheduler.domain.occurrences import to_micro
    from scheduler.models import Run, Trigger
    from scheduler.services.jobs import save_job

    now = DatabaseClock().now()
    since = now - timedelta(minutes=number)
    job, _ = save_job({"job_key": "bench:minutely"}, since, SYSTEM)
    times = {"cursor_at": now, "next_materialize_at": now, "created_at": since, "updated_at": since}
    Trigger.objects.create(id=uuid4(), job=job, kind="cron", cron_expression="* * * * *", **times)
    newest = now.replace(second=0, microsecond=0)
    for some in chunks(range(number), 5000):
        rows = []
        for minute in some:
            at = newest - timedelta(minutes=minute)
            verdict = {0: "dead", 1: "skipped"}.get(minute % 100, "completed")
            took = None if verdict == "skipped" else 500 + minute * 7919 % 1500
            rows.append(
                Run(
                    id=UUID(uuid7_of(to_micro(at), job.pk)),
                    job=job,
                    kind=Run.Kind.SCHEDULED,
                    scheduled_for=at,
                    occurrence_at=at,
                    created_at=at,
                    attempt=int(verdict != "skipped"),
                    verdict=verdict,
                    problem=None if verdict == "completed" else verdict,
                    reason="downtime" if verdict == "skipped" else "",
                    runner_id="" if took is None else "runner-1",
                    claimed_at=None if took is None else at,
                    finished_at=at + timedelta(milliseconds=took or 0),
                    duration_ms=took,
                )
            )
        Run.objects.bulk_create(rows)


def fill_lines() -> None:
    """Let the newest run of that job that completed have said much."""
    from croniq_site.kernel.database import chunks
    from scheduler.models import RunLog

    run = talker()
    for some in chunks(range(LINES), 5000):
        RunLog.objects.bulk_create(
            RunLog(
                run=run,
                attempt=1,
                logged_at=run.scheduled_for + timedelta(microseconds=at),
                level="error" if at % 1000 == 0 else "info",
                message=f"line {at} of what somebody wanted to know " + "x" * 60,
                fields={"row": at} if at % 10 == 0 else {},
            )
            for at in some
        )


def fill_alerts() -> None:
    from croniq_site.kernel.clock import DatabaseClock
    from croniq_site.kernel.ids import uuid7
    from scheduler.models import Alert, AlertChannel, AlertRoute, AlertRule

    now = DatabaseClock().now()
    channel = AlertChannel.objects.create(
        tenant="default", name="ops", kind="email", target="ops@example.org", created_at=now
    )
    rule = AlertRule.objects.create(tenant="default", name="whatever fails", kind="failed", created_at=now)
    AlertRoute.objects.create(rule=rule, channel=channel)
    instants = [now - timedelta(minutes=n) for n in range(ALERTS)]
    Alert.objects.bulk_create(
        Alert(
            id=uuid7(at),
            rule=rule,
            channel=channel,
            tenant="default",
            event="failed",
            cause=f"run:{n}",
            job_key="bench:minutely",
            created_at=at,
            state="failed" if n % 50 == 0 else "delivered",
            attempt=1,
            finished_at=at,
        )
        for n, at in enumerate(instants)
    )


def talker() -> Any:
    from scheduler.models import Run

    return Run.objects.filter(job__job_key="bench:minutely", verdict="completed").order_by("-scheduled_for").first()


def parts_of_addresses() -> dict[str, object]:
    from calendars.models import Calendar
    from croniq_site.kernel.clock import DatabaseClock
    from runners.models import Runner
    from scheduler.models import DeadLetter, Run

    today = DatabaseClock().now()
    return {
        **{name: f"{today + timedelta(days=n):%Y-%m-%d}" for name, n in (("yesterday", -1), ("tomorrow", 1))},
        "talker": talker().pk,
        "run": Run.objects.filter(problem="dead").order_by("-scheduled_for").values_list("pk")[0][0],
        "letter": DeadLetter.objects.values_list("pk")[0][0],
        "runner": Runner.objects.values_list("pk")[0][0],
        "calendar": Calendar.objects.values_list("pk")[0][0],
    }


class Judge:
    """Asks as an administrator, in this process; ``is_good`` until something is over its limit."""

    def __init__(self) -> None:
        from django.conf import settings
        from django.contrib.auth import get_user_model
        from django.test import Client

        settings.ALLOWED_HOSTS = ["testserver"]
        self.is_good = True
        self._client = Client()
        self._client.force_login(get_user_model().objects.create_superuser(f"bench-{uuid4()}", password=uuid4().hex))

    def page(self, path: str) -> None:
        """Judge one page; of what is streamed the first piece."""
        from django.db import connection
        from django.test.utils import CaptureQueriesContext

        with CaptureQueriesContext(connection) as asked:
            size = len(self._ask(path)[0])
        queries = len(asked)
        taken = [self._ask(path)[1:] for _ in range(TIMES)]
        clock, core = min(taken)
        missed = [
            f"{value:g} > {most:g} {unit}"
            for value, most, unit in (
                (round(clock, 3), MOST_SECONDS, "s"),
                (queries, MOST_QUERIES, "queries"),
                (size, MOST_BYTES, "bytes"),
            )
            if value > most
        ]
        self._say(
            f"{_short(path):<48} {queries:3} queries {core:6.3f} s of a core {clock:6.3f} s {size / 1000:7.1f} kB",
            missed,
        )

    def first_look(self, path: str) -> None:
        """Judge the bytes that a first look costs: of the page, and of all files that it names."""
        page, *_ = self._ask(path, decoded=False)
        plain = self._ask(path)[0].decode()
        named = sorted(set(re.findall(r'(?:src|href)="(/static/[^"]+)"', plain)))
        total = len(page) + sum(len(self._ask(file, decoded=False)[0]) for file in named)
        missed = [f"{total} > {MOST_OF_THE_START_PAGE} bytes"] if total > MOST_OF_THE_START_PAGE else []
        self._say(
            f"{path} on the wire: {len(page) / 1000:.1f} kB, with its {len(named)} files {total / 1000:.1f} kB", missed
        )

    def _ask(self, path: str, *, decoded: bool = True) -> tuple[bytes, float, float]:
        """Return the body (or its first piece), the seconds on the clock and those of a core."""
        headers = {} if decoded else {"accept-encoding": "gzip"}
        core, clock = time.process_time(), time.monotonic()
        answer = self._client.get(path, secure=True, headers=headers)
        if answer.status_code != 200:
            raise SystemExit(f"{path}: {answer.status_code}")
        body = answer.content if not answer.streaming else next(iter(answer.streaming_content))
        clock, core = time.monotonic() - clock, time.process_time() - core
        if answer.streaming and path.startswith("/static/"):
            body += b"".join(answer.streaming_content)
        answer.close()
        return body, clock, core

    def _say(self, line: str, missed: list[str]) -> None:
        self.is_good = self.is_good and not missed
        print(line + "".join(f"   MISSED: {text}" for text in missed), flush=True)


def _short(path: str) -> str:
    return re.sub(r"[0-9a-f]{8}-[0-9a-f-]{27}", "…", path)


def measure() -> bool:
    judge, parts = Judge(), parts_of_addresses()
    for path in (*PAGES, *ADMIN, *API):
        judge.page(path.format(**parts))
    for path in ("/jobs", "/now"):
        judge.first_look(path)
    return judge.is_good


def run(url: str, folder: str, runs: int) -> bool:
    os.environ |= {"DATABASE_URL": url, "CRONIQ_DATA_DIR": folder}
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "croniq_site.settings")
    import django

    django.setup()
    fill(runs)
    return measure()


def main() -> None:
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 100_000
    with tempfile.TemporaryDirectory(prefix="croniq-bench-") as folder:
        if "sqlite" in sys.argv:
            is_good = run(f"sqlite:///{folder}/croniq.sqlite3", folder, runs)
        else:
            from tests.support.postgres import private_postgres

            with private_postgres(reuse=False) as server:
                is_good = run(server.url, folder, runs)
    sys.exit(0 if is_good else 1)


if __name__ == "__main__":
    main()
