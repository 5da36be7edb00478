"""What each page of a busy installation costs: queries, seconds of a core, bytes.

    python -m benchmarks.dashboard [RUNS] [sqlite|postgresql]

The bed is `manage.py seed_demo --jobs 200` with three quarters of RUNS (100,000) on a database that is started for it;
the rest are the runs of one job, every minute.
"""

# ruff: noqa: T201
from __future__ import annotations

import os
import sys
import tempfile
import time
from uuid import uuid4

JOBS = 200
PATHS = [
    "/",
    "/now",
    "/runs",
    "/runs?state=dead",
    "/runs?runner=nobody",
    "/runs?error=no+such+text",
    "/runs?tag=eu&state=dead",
    "/runs/bulk?do=rerun&all=1",
    "/runs/planned",
    "/jobs/billing:invoices",
    "/jobs/bench:minutely",
    "/runs?job=bench:minutely&state=dead",
    "/?status=failing",
    "/?status=overdue",
    "/next",
    "/next?window=31d",
    "/overlap",
    "/overlap?by=runner",
    "/overlap?day={yesterday}",
    "/overlap?day={tomorrow}&by=tag",
    "/letters",
    "/letters/confirm?do=replay",
    "/missed",
    "/missed?window=31d",
    "/budgets",
    "/audit",
    "/runners",
    "/calendars",
    "/v1/executions",
    "/v1/executions?job_key=bench:minutely",
    "/v1/jobs/states",
    "/v1/jobs/states?limit=500",
    "/v1/executions/throughput?window=30d",
]


def fill_one_job(number: int) -> None:
    """Make a job that ran every minute for so long; of a hundred runs one died and one was missed."""
    from datetime import timedelta
    from uuid import UUID

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
                    finished_at=at,
                    duration_ms=None if verdict == "skipped" else 500 + minute * 7919 % 1500,
                )
            )
        Run.objects.bulk_create(rows)


def measure(runs: int) -> None:
    import django

    django.setup()
    from datetime import timedelta

    from django.conf import settings
    from django.contrib.auth import get_user_model
    from django.core.management import call_command
    from django.db import connection
    from django.test import Client
    from django.test.utils import CaptureQueriesContext

    from croniq_site.kernel.clock import DatabaseClock

    settings.ALLOWED_HOSTS = ["testserver"]
    call_command("migrate", verbosity=0)
    begin = time.monotonic()
    call_command("seed_demo", jobs=JOBS, runs=runs - runs // 4)
    fill_one_job(runs // 4)
    print(f"{connection.vendor}: seeded in {time.monotonic() - begin:.0f} s", flush=True)
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE")
    call_command("materialize", once=True, verbosity=0)
    client = Client()
    client.force_login(get_user_model().objects.create_superuser("bench", password=uuid4().hex))
    today = DatabaseClock().now()
    days = {name: f"{today + timedelta(days=n):%Y-%m-%d}" for name, n in (("yesterday", -1), ("tomorrow", 1))}
    for path in (path.format(**days) for path in PATHS):
        client.get(path, secure=True)
        core, clock = time.process_time(), time.monotonic()
        with CaptureQueriesContext(connection) as asked:
            answer = client.get(path, secure=True)
        core, clock = time.process_time() - core, time.monotonic() - clock
        if answer.status_code != 200:
            raise SystemExit(f"{path}: {answer.status_code}")
        size = len(answer.content) / 1000
        print(f"{path:<40} {len(asked):3} queries {core:6.3f} s of a core {clock:6.3f} s {size:7.1f} kB", flush=True)


def main() -> None:
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 100_000
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "croniq_site.settings")
    with tempfile.TemporaryDirectory(prefix="croniq-bench-") as folder:
        os.environ["CRONIQ_DATA_DIR"] = folder
        if "sqlite" in sys.argv:
            os.environ["DATABASE_URL"] = f"sqlite:///{folder}/croniq.sqlite3"
            measure(runs)
            return
        from tests.support.postgres import private_postgres

        with private_postgres(reuse=False) as server:
            os.environ["DATABASE_URL"] = server.url
            measure(runs)


if __name__ == "__main__":
    main()
