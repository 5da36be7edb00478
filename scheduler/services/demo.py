"""Demo jobs: each shows one thing that the product does. Made once, on an installation that never had a job."""

from __future__ import annotations

from datetime import datetime

from calendars.models import Calendar
from croniq_site.kernel.database import one_at_a_time, write_transaction
from runners.services.audit import Actor
from scheduler.models import Job
from scheduler.services.calendars import edit_calendar
from scheduler.services.installation import FIRST_START
from scheduler.services.jobs import save_job
from scheduler.services.triggers import save_trigger

DEMO = Actor("system", "quickstart")
WORKING_DAYS = "working-days"

_FLAKY = """\
echo "rolling the dice at $(date -u +%H:%M:%S)"
dice=$(od -An -N1 -tu1 /dev/urandom | tr -d ' ')
if [ $((dice % 2)) -eq 0 ]; then echo "no luck this time" >&2; exit 1; fi
echo "lucky" """

_SLOW = """\
for step in 1 2 3 4 5 6 7 8 9 10; do echo "step $step of 10"; sleep 2; done"""

_CHATTY = """\
for line in $(seq 1 300); do echo "line $line: the quick brown fox jumps over the lazy dog"; done"""

JOBS: list[tuple[dict, dict]] = [
    (
        {"job_key": "demo:heartbeat", "description": "Every ten seconds: the scheduler and its runner are alive."},
        {"every": "10s", "shell": 'echo "alive at $(date -u +%H:%M:%S)"'},
    ),
    (
        {
            "job_key": "demo:flaky",
            "description": "Fails half of the time and is retried, up to three times, with a growing pause.",
            "max_retries": 3,
            "retry": {"strategy": "exponential", "base": "2s", "cap": "30s"},
        },
        {"every": "30s", "shell": _FLAKY},
    ),
    (
        {
            "job_key": "demo:slow",
            "description": "Runs for twenty seconds: watch its log, or cancel it.",
            "timeout": "60s",
        },
        {"cron_expression": "* * * * *", "shell": _SLOW},
    ),
    (
        {"job_key": "demo:chatty", "description": "Writes 300 lines of log at once."},
        {"cron_expression": "*/2 * * * *", "shell": _CHATTY},
    ),
    (
        {"job_key": "demo:office-hours", "description": "Every five minutes from 9 to 17, on working days only."},
        {
            "cron_expression": "*/5 9-16 * * *",
            "calendar": WORKING_DAYS,
            "shell": 'echo "somebody may be at work now"',
        },
    ),
]


def create_demo_jobs(now: datetime) -> list[str]:
    """Make the demo jobs and return their keys; nothing if there is or ever was any job, so that what a user deletes
    stays away."""
    with write_transaction(), one_at_a_time(FIRST_START):
        if Job.objects.exists():
            return []
        if not Calendar.objects.filter(tenant="default", name=WORKING_DAYS).exists():
            edit_calendar(
                {
                    "name": WORKING_DAYS,
                    "timezone": "UTC",
                    "description": "Monday to Friday.",
                    "rules": [{"effect": "include", "name": "weekdays", "weekdays": [1, 2, 3, 4, 5]}],
                },
                now,
                actor=DEMO,
            )
        for definition, trigger in JOBS:
            trigger = dict(trigger)
            action = {"type": "command", "shell": trigger.pop("shell")}
            job, _ = save_job({**definition, "action": action}, now, actor=DEMO, managed_by="demo")
            save_trigger(job, trigger, now, actor=DEMO, managed_by="demo")
    return [definition["job_key"] for definition, _ in JOBS]
