"""`python -m tests.browser.demo`: migrate the database that DATABASE_URL names, and put into it what pages show.

A process of its own, so that a test's own database settings have no part in it. It prints one line of JSON: `Demo`.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from scheduler.models import Job

PASSWORD = "a long secret of the demo"
LOG_LINES = 20_000
PEOPLE = {"vera": "viewer", "otto": "operator", "ada": "admin", "tess": "viewer", "nobody": ""}
"""Who can sign in → the role; ada may do everything, tess has a second factor."""


@dataclass(frozen=True)
class Demo:
    """``objects``: for each part of an address (``job_key``, ``run_id``, …) the one that a page is shown of."""

    admin_key: str
    runner_key: str
    codes: list[str]
    """Of tess; each opens once."""
    objects: dict[str, str]
    error_pages: dict[str, str]
    """Pages that an error makes and no address: name → HTML."""


def set_up(jobs: int, runs: int) -> Demo:
    """Make people, keys, and ``jobs`` jobs with ``runs`` ended runs; without ``jobs`` those of quickstart."""
    from django.core.management import call_command

    from croniq_site.kernel.clock import DatabaseClock
    from runners.domain.scopes import RUNNER_SCOPES
    from runners.services.clients import create_client, issue_key
    from scheduler.services.demo import create_demo_jobs
    from scheduler.services.seed import seed_demo

    call_command("migrate", verbosity=0, interactive=False)
    now = DatabaseClock().now()
    codes = _make_people()
    long_log = {}
    _make_alerts(now)
    if jobs:
        seed_demo(jobs, runs, now)
        _make_misses(now)
        long_log = {"long_run_id": _make_a_long_log()}
    else:
        create_demo_jobs(now)
    keys = [
        issue_key(create_client(name, scopes, now), now)
        for name, scopes in (("looker", ("admin",)), ("demo-runner", RUNNER_SCOPES))
    ]
    return Demo(*keys, codes, _objects() | long_log, _error_pages())


def _make_people() -> list[str]:
    from allauth.mfa.recovery_codes.internal.auth import RecoveryCodes
    from allauth.mfa.totp.internal.auth import TOTP, generate_totp_secret
    from django.contrib.auth.hashers import make_password
    from django.contrib.auth.models import Group, User

    secret = make_password(PASSWORD)  # slow by intention: once for all of them
    for name, role in PEOPLE.items():
        is_admin = role == "admin"
        user = User.objects.create(username=name, password=secret, is_superuser=is_admin, is_staff=is_admin)
        user.groups.set(Group.objects.filter(name=role))
    tess = User.objects.get(username="tess")
    TOTP.activate(tess, generate_totp_secret())
    return RecoveryCodes.activate(tess).get_unused_codes()


def _make_misses(now: datetime) -> None:
    from scheduler.models import SkippedSpan

    first_at, last_at = now - timedelta(hours=5), now - timedelta(hours=3)
    SkippedSpan.objects.create(
        job=_job(), first_at=first_at, last_at=last_at, count=3, reason="paused", recorded_at=now
    )


def _make_alerts(now: datetime) -> None:
    from runners.services.audit import SYSTEM
    from scheduler.services.alerts.definitions import check_channel, create_channel, save_rule
    from scheduler.services.alerts.exemptions import make_exemption

    told = {"name": "ops", "kind": "webhook", "target": "https://hooks.example.org/key"}
    channel = create_channel(told, now, SYSTEM, "default")
    rule = {"name": "late", "kind": "missed", "channels": ["ops"], "job_glob": "billing:*", "throttle": "10m"}
    save_rule(rule, now, SYSTEM, "default")
    snooze = {"effect": "snooze", "rule": "late", "duration": "1h", "note": "the bank is down"}
    make_exemption(snooze, now, SYSTEM, "default")
    check_channel(channel.pk, now, SYSTEM, None)


def _job() -> Job:
    """The one that pages of a job show: it has failed."""
    from scheduler.models import Job, Run

    newest = Run.objects.filter(verdict="dead").order_by("-scheduled_for").select_related("job").first()
    return newest.job if newest else Job.objects.earliest("pk")


def _make_a_long_log() -> str:
    from scheduler.models import Run, RunLog

    run = Run.objects.filter(verdict="completed").order_by("-scheduled_for").first()
    assert run is not None
    RunLog.objects.bulk_create(
        (
            RunLog(
                run=run,
                attempt=run.attempt,
                logged_at=run.claimed_at,
                level=("info", "debug", "info", "warning")[number % 4],
                message=f"{number} of {LOG_LINES}: the quick brown fox jumps over the lazy dog and reads its own log",
            )
            for number in range(1, LOG_LINES + 1)
        ),
        batch_size=5000,
    )
    return str(run.pk)


def _objects() -> dict[str, str]:
    from django.contrib.auth.models import User

    from calendars.models import Calendar
    from runners.models import ApiClient, Runner
    from scheduler.models import AlertRule, DeadLetter, Job, Run

    newest = {
        "job_key": Job.objects.filter(pk=_job().pk),
        "run_id": Run.objects.filter(verdict="dead").order_by("-scheduled_for"),
        "letter_id": DeadLetter.objects.order_by("-created_at"),
        "calendar_id": Calendar.objects.order_by("pk"),
        "runner_id": Runner.objects.order_by("pk"),
        "runner_pk": Runner.objects.order_by("pk"),
        "client_id": ApiClient.objects.order_by("pk"),
        "rule_id": AlertRule.objects.order_by("pk"),
        "user_id": User.objects.filter(username="otto"),
    }
    found = {name: rows.first() for name, rows in newest.items()}
    texts = {"job_key": "job_key", "runner_id": "runner_id"}
    return {name: str(getattr(row, texts.get(name, "pk"))) for name, row in found.items() if row is not None}


def _error_pages() -> dict[str, str]:
    from django.shortcuts import render

    return {name: render(None, f"{name}.html").content.decode() for name in ("400", "500", "503")}


def main(arguments: list[str] | None = None) -> int:
    import django

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=0)
    parser.add_argument("--runs", type=int, default=0)
    chosen = parser.parse_args(arguments)
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "croniq_site.settings")
    django.setup()
    sys.stdout.write(json.dumps(asdict(set_up(chosen.jobs, chosen.runs))) + "\n")
    return 0


def read(line: str) -> Demo:
    """Read what `main` printed."""
    values: dict[str, Any] = json.loads(line)
    return Demo(**values)


if __name__ == "__main__":
    sys.exit(main())
