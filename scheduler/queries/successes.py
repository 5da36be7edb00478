"""When each job last succeeded, without an index on what every success would have to change."""

from __future__ import annotations

import threading
from collections.abc import Collection
from datetime import UTC, datetime

from croniq_site.kernel.database import IDS_PER_QUERY, chunks
from scheduler.models import Run
from scheduler.sql.gauges import newest_successes

_LONG_AGO = datetime(1970, 1, 1, tzinfo=UTC)
MOST_LOOKED_AT = 1_000
"""Newest runs of a job that are looked at again; one that failed more often in between keeps the success known."""


class Successes:
    """Remembers each job's newest success, so that the next look reads only the runs since then. Safe in threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: dict[int, tuple[datetime, datetime]] = {}

    def last_success_at(self, job_ids: Collection[int], now: datetime) -> dict[int, datetime]:
        """Return when the newest run that completed did so, of each job that has one; other jobs are forgotten.

        The first look at a job goes back until it finds one: as far as its newest runs are none.
        """
        with self._lock:
            known = {job_id: self._known.get(job_id, (_LONG_AGO, _LONG_AGO)) for job_id in job_ids}
            new = [(job_id, _LONG_AGO) for job_id in known if job_id not in self._known]
            again = [(job_id, since) for job_id, (since, _) in known.items() if job_id in self._known]
            found = newest_successes(new, now) + newest_successes(again, now, MOST_LOOKED_AT)
            for some in chunks(found, IDS_PER_QUERY):
                rows = Run.objects.filter(pk__in=some).values_list("job_id", "scheduled_for", "finished_at")
                known |= {job_id: (scheduled_for, finished_at) for job_id, scheduled_for, finished_at in rows}
            self._known = known
        return {job_id: finished_at for job_id, (_, finished_at) in known.items() if finished_at > _LONG_AGO}
