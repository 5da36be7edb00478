"""All series of one scrape as text."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from prometheus_client import generate_latest
from prometheus_client.core import Metric

from scheduler.metrics import hot, siblings
from scheduler.metrics.families import of_jobs, of_process, of_site, rare_events
from scheduler.queries.gauges import job_gauges, tallied
from scheduler.queries.successes import Successes

_successes = Successes()


class _Scrape:
    def __init__(self, now: datetime, version: str) -> None:
        self._now, self._version = now, version

    def collect(self) -> Iterator[Metric]:
        counted = hot.job_ids()
        jobs = job_gauges(self._now)
        keys = {job.job_id: job.job_key for job in jobs}
        hot.forget(counted - keys.keys())  # not what was made while the jobs were read
        counts, others = siblings.everybody()
        yield from others
        yield from of_process(counts, keys)
        yield from rare_events(tallied(), keys)
        yield from of_site(self._now, self._version)
        yield from of_jobs(jobs, _successes.last_success_at(list(keys), self._now))


def exposition(now: datetime, version: str) -> bytes:
    """Return what is so at ``now``, in Prometheus' text format: of this server, and of the whole site."""
    return generate_latest(_Scrape(now, version))
