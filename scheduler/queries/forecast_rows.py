"""What a forecast says: fires to come, what is blocked, and how many there are in which stretch of time."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID


@dataclass(frozen=True, slots=True)
class Coming:
    """A fire to come, or (``is_blocked``) an occurrence that the calendar does not let fire. ``is_skipped``: somebody
    took this fire out; it counts nowhere. ``zone`` is that of its schedule.

    ``moved_from``: the earliest occurrence that led to a fire elsewhere. Of a blocked one: ``rule`` names what closes
    the calendar ("" for a rule without a name), ``moved_to`` is where it goes, None if nowhere; with the policy
    `advance` that is the schedule's next fire.
    """

    at: datetime
    job_key: str
    trigger_id: UUID
    is_paused: bool
    is_blocked: bool = False
    calendar: str = ""
    rule: str = ""
    policy: str = ""
    moved_to: datetime | None = None
    moved_from: datetime | None = None
    is_skipped: bool = False
    zone: str = ""


@dataclass(frozen=True, slots=True)
class JobForecast:
    """A job with anything to come. ``coming`` has the first of ``fires`` + ``blocked``, ``more`` counts the others,
    ``more_blocked`` of which are blocked; ``coming`` has also what is skipped. ``held``: so many of the fires come
    before its pause ends, and do not start. ``starts_in``: how many of the others there are in each bucket of the
    forecast, () where it lists none."""

    job_key: str
    is_paused: bool
    paused_until: datetime | None
    fires: int
    blocked: int
    coming: tuple[Coming, ...]
    more: int
    held: int = 0
    more_blocked: int = 0
    starts_in: tuple[int, ...] = ()

    @property
    def starts(self) -> int:
        return self.fires - self.held

    def unlisted(self, buckets: Sequence[Bucket]) -> list[int]:
        """How many fires that start ``coming`` leaves out, in each of the forecast's buckets."""
        left, ends = list(self.starts_in), [bucket.end for bucket in buckets]
        for item in self.coming:
            if not (item.is_blocked or item.is_skipped or item.is_paused):
                left[bisect_left(ends, item.at)] -= 1
        return [max(0, number) for number in left]


@dataclass(frozen=True, slots=True)
class Bucket:
    """What lies in (start, end]: fires, occurrences that are blocked, and fires of jobs that are paused then."""

    start: datetime
    end: datetime
    fires: int
    blocked: int
    paused: int


@dataclass(frozen=True, slots=True)
class BrokenTrigger:
    job_key: str
    trigger_id: UUID
    error: str


@dataclass(frozen=True, slots=True)
class Forecast:
    """The window (start, end]. ``is_exact``: every number is; else some are lower or upper bounds. ``left_out``: the
    triggers beyond the most, of which nothing is said."""

    start: datetime
    end: datetime
    buckets: tuple[Bucket, ...]
    jobs: tuple[JobForecast, ...]
    broken: tuple[BrokenTrigger, ...]
    is_exact: bool
    left_out: int

    @property
    def coming(self) -> list[Coming]:
        """What all jobs list, in the order of time."""
        return sorted((item for job in self.jobs for item in job.coming), key=lambda item: (item.at, item.job_key))
