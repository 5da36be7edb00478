"""What pages cost: seconds of a core for each, in this process, on a PostgreSQL that is started for it.

    python -m benchmarks.pages [TRIGGERS]

The bed: TRIGGERS (1,000) jobs with a trigger each, all on one calendar of office hours and holidays, each policy for
what it blocks; two thirds cron (120 distinct lines in 3 zones), the rest intervals with anchors of their own. To
measure another page, add its line to `PAGES`.
"""

# ruff: noqa: T201, S311
from __future__ import annotations

import os
import random
import sys
import time
from collections.abc import Callable
from datetime import timedelta
from uuid import uuid4

from croniq_site.kernel.clock import SystemClock
from tests.support.postgres import private_postgres

NOW = SystemClock().now()
OFFICE = [
    {"effect": "include", "weekdays": [1, 2, 3, 4, 5], "window_start": "07:00", "window_end": "19:00"},
    {"effect": "exclude", "name": "holidays", "holiday_country": "AT"},
    {"effect": "exclude", "name": "Christmas", "range_start": "2026-12-24", "range_end": "2027-01-06"},
]


def fill(number: int) -> int:
    """Make the bed; returns the calendar's id."""
    from benchmarks.schedules import crontab_lines
    from calendars.services import save_calendar
    from scheduler.models import Job, Trigger
    from scheduler.services.lanes import lane_for

    pick = random.Random(5)
    calendar_id = save_calendar({"name": "office", "timezone": "Europe/Vienna", "rules": OFFICE}, NOW).calendar.pk
    common = {"tenant": "default", "lane": lane_for("default", [], [], 0), "created_at": NOW, "updated_at": NOW}
    jobs = Job.objects.bulk_create([Job(job_key=f"bench:job-{n}", **common) for n in range(number)])
    lines = [(line, ("UTC", "Europe/Berlin", "America/New_York")[k % 3]) for k, line in enumerate(crontab_lines(120))]
    triggers = []
    for n, job in enumerate(jobs):
        made = NOW - timedelta(days=30, seconds=n)
        columns: dict[str, object] = {"created_at": made, "updated_at": made, "cursor_at": NOW}
        if n % 3:
            line, zone = pick.choice(lines)
            columns |= {"kind": "cron", "cron_expression": line, "timezone": zone}
        else:
            every = timedelta(minutes=pick.choice([5, 15, 60, 360, 1440]))
            columns |= {"kind": "interval", "every": every, "anchor_at": made}
        policy = ("advance", "advance", "defer", "following", "preceding")[n % 5]
        triggers.append(Trigger(id=uuid4(), job=job, calendar_id=calendar_id, on_blocked=policy, **columns))
    Trigger.objects.bulk_create(triggers)
    return calendar_id


def pages(calendar_id: int) -> dict[str, Callable[[], object]]:
    """What is measured, by what the figure is called. An address is asked of the server's own views."""
    from django.contrib.auth import get_user_model
    from django.test import Client

    from calendars.models import Calendar
    from scheduler.queries.what_if import what_if

    client = Client()
    user = get_user_model().objects.create_superuser("bench", password=uuid4().hex)
    client.force_login(user)

    def get(path: str) -> Callable[[], object]:
        def ask() -> None:
            answer = client.get(path, secure=True)
            if answer.status_code != 200:
                raise SystemExit(f"{path}: {answer.status_code}")

        return ask

    closed = [*OFFICE, {"effect": "exclude", "dates": ["2026-12-01"]}]
    calendar = Calendar.objects.get(pk=calendar_id)
    return {
        "Next, 1 h": get("/next?window=1h"),
        "Next, 24 h": get("/next?window=24h"),
        "Next, 7 d": get("/next?window=7d"),
        "Next, 31 d": get("/next?window=31d"),
        "a calendar's month": get(f"/calendars/{calendar_id}"),
        "a calendar's 12 months": get(f"/calendars/{calendar_id}/year"),
        "what-if of a closed day": lambda: what_if(calendar, {"rules": closed}, NOW),
    }


def main() -> None:
    number = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
    with private_postgres(reuse=False) as server:
        os.environ["DATABASE_URL"] = server.url
        os.environ.setdefault("DJANGO_SETTINGS_MODULE", "croniq_site.settings")
        import django

        django.setup()
        from django.conf import settings
        from django.core.management import call_command

        settings.ALLOWED_HOSTS = ["testserver"]
        call_command("migrate", verbosity=0)
        for name, ask in pages(fill(number)).items():
            costs = []
            for _ in range(2):
                begin = time.process_time()
                ask()
                costs.append(time.process_time() - begin)
            print(f"{name:<24} {costs[0]:6.2f} s of a core, asked again {costs[1]:.2f} s", flush=True)


if __name__ == "__main__":
    main()
