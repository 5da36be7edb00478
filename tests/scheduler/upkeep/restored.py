"""A process of its own on a restored database: what was going on when it was copied goes on, to the end.

    DATABASE_URL=sqlite:////the/copy python -m tests.scheduler.upkeep.restored UNTIL

Plans until the instant UNTIL, hands out and completes all that is due by then, and prints what became of each fire.
"""

from __future__ import annotations

import json
import sys
from datetime import datetime, timedelta


def main(until: datetime) -> dict:
    from scheduler.domain.work import Ack, AckStatus
    from scheduler.models import Job, Lane, QueueEntry, Run
    from scheduler.services.claim import claim_due
    from scheduler.services.finish import finish
    from scheduler.workers import materializer, reaper
    from tests.factories import RunnerInstanceFactory

    before = Run.objects.count()
    while not materializer.run_once(until).is_done:
        pass
    later = until + timedelta(hours=1)  # every lease of the old installation has run out by then
    while not reaper.run_once(later).is_done:
        pass
    # Names of their own: a factory's numbers begin anew here.
    holder = RunnerInstanceFactory(runner__runner_id="after-the-restore", runner__client__name="restored")
    lanes = list(Lane.objects.values_list("pk", flat=True))
    for turn in range(1, 10_000):
        claimed = claim_due(later + turn * timedelta(minutes=1), 100, holder.pk, lanes)
        acks = [Ack(run.run_id, run.attempt, "after-the-restore", AckStatus.SUCCESS) for run in claimed]
        finish(acks, later + turn * timedelta(minutes=1))
        if not claimed and not QueueEntry.objects.filter(run__scheduled_for__lte=until).exists():
            break
    runs = Run.objects.filter(kind="scheduled", scheduled_for__lte=until)
    fires = runs.order_by("scheduled_for").values_list("job__job_key", "scheduled_for", "verdict")
    return {
        "before": before,
        "jobs": list(Job.objects.values_list("job_key", flat=True)),
        "fires": [[job, at.isoformat(), verdict] for job, at, verdict in fires],
    }


if __name__ == "__main__":
    import os

    import django

    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "croniq_site.settings")
    django.setup()
    json.dump(main(datetime.fromisoformat(sys.argv[1])), sys.stdout)
