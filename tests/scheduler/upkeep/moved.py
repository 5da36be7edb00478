"""A process of its own that tells what an installation is, whatever database it is on.

    DATABASE_URL=… python -m tests.scheduler.upkeep.moved NOW KEY

Prints rows by table, the next fires of each job after NOW, and whose KEY is.
"""

from __future__ import annotations

import json
import sys
from datetime import datetime
from itertools import islice


def main(now: datetime, key: str) -> dict:
    from django.db import connection

    from runners.queries.principals import principal_of
    from scheduler.models import Job
    from scheduler.queries.job_fires import fires_after
    from scheduler.services.move.tables import all_tables

    with connection.cursor() as cursor:
        counts = {}
        for table in all_tables():
            cursor.execute(f'SELECT count(*) FROM "{table.name}"')
            counts[table.name] = cursor.fetchone()[0]
    principal = principal_of(key, now)
    return {
        "rows": counts,
        "fires": {
            job.job_key: [fire.at.isoformat() for fire in islice(fires_after(job, now), 5)]
            for job in Job.objects.filter(deleted_at__isnull=True).order_by("job_key")
        },
        "key": principal and principal.name,
    }


if __name__ == "__main__":
    import os

    import django

    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "croniq_site.settings")
    django.setup()
    json.dump(main(datetime.fromisoformat(sys.argv[1]), sys.argv[2]), sys.stdout)
