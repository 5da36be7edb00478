"""What is to come: the fires of all jobs in a window, computed from their schedules and not from planned rows.

What it costs is bounded: fires are counted by arithmetic (`scheduler.domain.forecast`), equal schedules once, only the
first ones of each job are worked out, and what is left out is counted.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import islice, pairwise
from uuid import UUID

from django.db.models import QuerySet

from calendars.domain.rules import CalendarSpec
from calendars.queries.specs import calendar_spec
from croniq_site.kernel.errors import InvalidInput
from scheduler.domain.forecast import counts
from scheduler.domain.occurrences import Fire, to_micro
from scheduler.models import Job, Trigger
from scheduler.queries.fires import schedule_of, trigger_fires, zone_of
from scheduler.queries.forecast_rows import BrokenTrigger, Bucket, Coming, Forecast, JobForecast
from scheduler.queries.gates import Gates
from scheduler.queries.job_fires import skipped_ahead

_TICK = timedelta(microseconds=1)
MOST_BUCKETS = 1000
MOST_TRIGGERS = 5000
MOST_OF_A_CALENDAR = 1000
MOST_LISTED, LEAST_OF_A_JOB = 2000, 8
"""So much is listed of all jobs together; of each job at least so many, however many jobs there are."""
MOST_WALKED, MOST_WALKED_TOGETHER = 1000, 10_000
"""Where arithmetic does not do (a policy moves fires, or triggers of one job meet) so many fires of a trigger, and of
all triggers, are walked through; beyond them the numbers are bounds."""
MOST_PAUSE_ENDS = 100
"""So many different ends of pauses within the window are counted to exactly."""


def forecast(
    now: datetime, window: timedelta, *, bucket: timedelta, tenant: str | None = None, per_job: int = 0
) -> Forecast:
    """What fires in (now, now + window], in buckets, and the first ``per_job`` fires and blocked occurrences of each
    job (all together the `MOST_LISTED` that come first). Four queries whatever there is.

    Disabled triggers and inactive jobs do not fire. At most `MOST_BUCKETS` buckets: the caller has seen to it.
    """
    edges = [now + n * bucket for n in range(-(-window // bucket))] + [now + window]
    return _forecast(_triggers(tenant), edges, per_job, MOST_TRIGGERS)


def calendar_forecast(calendar_id: int, edges: list[datetime], *, per_job: int = 0) -> Forecast:
    """What the triggers with this calendar do in (first edge, last edge], as `forecast`; a bucket is what lies between
    two edges, which ascend and are at most `MOST_BUCKETS` + 1. At most `MOST_OF_A_CALENDAR` triggers: a year of days of
    each is much to count."""
    return _forecast(_triggers(None).filter(calendar_id=calendar_id), edges, per_job, MOST_OF_A_CALENDAR)


def _forecast(rows: QuerySet[Trigger], edges: list[datetime], per_job: int, most: int) -> Forecast:
    triggers = list(rows[:most])
    if per_job and triggers:
        per_job = min(per_job, max(LEAST_OF_A_JOB, 4 * MOST_LISTED // len(triggers)))
    skipped = skipped_ahead({trigger.job_id for trigger in triggers}, edges[0], edges[-1]) if triggers else {}
    reading = _Reading(_with_pause_ends(edges, triggers), edges, per_job, skipped)
    for trigger in triggers:
        reading.add(trigger)
    left_out = rows.count() - most if len(reading.seen) == most else 0
    reading.settle()
    buckets = tuple(reading.buckets())
    jobs = tuple(reading.with_destinations(job) for job in _shortened(reading.jobs))
    return Forecast(edges[0], edges[-1], buckets, jobs, tuple(reading.broken), reading.is_exact, max(0, left_out))


def _with_pause_ends(edges: list[datetime], triggers: Iterable[Trigger]) -> list[datetime]:
    """The edges, and between them where pauses end: before it the fires of a job are held, after it they are not."""
    jobs = (trigger.job for trigger in triggers)
    ends = {job.paused_until for job in jobs if job.paused_at is not None and job.paused_until is not None}
    within = sorted(end for end in ends if edges[0] < end < edges[-1])
    return sorted({*edges, *within[:MOST_PAUSE_ENDS]})


def _triggers(tenant: str | None) -> QuerySet[Trigger]:
    rows = Trigger.objects.filter(enabled=True, job__is_active=True, job__deleted_at__isnull=True)
    if tenant is not None:
        rows = rows.filter(job__tenant=tenant)
    return rows.select_related("job", "calendar").prefetch_related("calendar__rules").order_by("job__job_key", "id")


@dataclass(frozen=True, slots=True)
class _Tally:
    """How many fires and blocked occurrences a trigger has in each bucket."""

    fires: Sequence[int]
    blocked: Sequence[int]
    is_exact: bool = True


class _Reading:
    """The triggers one by one, and the sums of what they give."""

    def __init__(
        self, edges: list[datetime], asked: list[datetime], per_job: int, skipped: dict[int, set[datetime]]
    ) -> None:
        """``asked``: the edges of the buckets that are asked for, each of which is one of ``edges``."""
        self.edges, self.asked, self.per_job, self._skipped = edges, asked, per_job, skipped
        self._places = [bisect_left(edges, edge) for edge in asked]
        self.micros = [to_micro(edge) for edge in edges]
        size = len(edges) - 1
        self.fires, self.blocked, self.paused = [0] * size, [0] * size, [0] * size
        self.broken: list[BrokenTrigger] = []
        self.jobs: list[JobForecast] = []
        self.seen: list[UUID] = []
        self.is_exact = True
        self._specs: dict[int, CalendarSpec] = {}
        self._tallies: dict[Hashable, _Tally] = {}
        self._firsts: dict[Hashable, tuple[list[Fire], list[tuple[datetime, str]]]] = {}
        self._walked = 0
        self._destinations: dict[UUID, Callable[[datetime], datetime | None]] = {}
        self._by_job: dict[int, list[tuple[Trigger, Gates]]] = defaultdict(list)

    def add(self, trigger: Trigger) -> None:
        self.seen.append(trigger.pk)
        if trigger.config_error:
            self.broken.append(BrokenTrigger(trigger.job.job_key, trigger.pk, trigger.config_error))
            return
        try:
            schedule = schedule_of(trigger)
            if trigger.calendar_id is not None and trigger.calendar_id not in self._specs:
                self._specs[trigger.calendar_id] = calendar_spec(trigger.calendar)
            calendar = self._specs[trigger.calendar_id] if trigger.calendar_id is not None else None
            self._by_job[trigger.job_id].append((trigger, Gates.of(trigger, schedule, calendar, self.edges)))
        except InvalidInput as refused:
            self._break(trigger, refused)

    def buckets(self) -> Iterator[Bucket]:
        """What was counted, between the edges that are asked for."""
        counted = (self._folded(numbers) for numbers in (self.fires, self.blocked, self.paused))
        for (start, end), *numbers in zip(pairwise(self.asked), *counted, strict=True):
            yield Bucket(start, end, *numbers)

    def _folded(self, numbers: Sequence[int]) -> tuple[int, ...]:
        return tuple(sum(numbers[low:high]) for low, high in pairwise(self._places))

    def settle(self) -> None:
        """Add up the jobs, in the order of their keys."""
        for triggers in self._by_job.values():
            self._add_job(triggers[0][0].job, triggers)

    def with_destinations(self, job: JobForecast) -> JobForecast:
        """The job with where its blocked occurrences go: asked for only of those that are listed in the end."""
        if not any(item.is_blocked for item in job.coming):
            return job
        coming = (
            replace(item, moved_to=self._destinations[item.trigger_id](item.at)) if item.is_blocked else item
            for item in job.coming
        )
        return replace(job, coming=tuple(coming))

    def _break(self, trigger: Trigger, refused: InvalidInput) -> None:
        self.broken.append(BrokenTrigger(trigger.job.job_key, trigger.pk, refused.message))

    def _add_job(self, job: Job, triggers: list[tuple[Trigger, Gates]]) -> None:
        tallies, coming, sound = [], [], []
        for trigger, gates in triggers:
            try:
                key = gates.key(trigger)
                tally = self._tally(key, trigger, gates)
                coming += self._coming(key, trigger, gates, tally) if self.per_job else []
            except InvalidInput as refused:
                self._break(trigger, refused)
            else:
                tallies.append(tally)
                sound.append((trigger, gates))
        fires = [sum(column) for column in zip(*(tally.fires for tally in tallies), strict=True)] if tallies else []
        if len(tallies) > 1 and self._is_met(tallies):
            fires = self._met(triggers, fires)
        skipped = self._taken_out(job, sound)
        for index, number in enumerate(self._in_buckets(skipped) if skipped else ()):
            fires[index] = max(0, fires[index] - number)
        if skipped:
            coming = [replace(item, is_skipped=not item.is_blocked and item.at in skipped) for item in coming]
        held_to, n_blocked = self._held_to(job), 0
        for index, number in enumerate(fires):
            (self.paused if index < held_to else self.fires)[index] += number
        for tally in tallies:
            self.is_exact = self.is_exact and tally.is_exact
            for index, number in enumerate(tally.blocked):
                if number:
                    self.blocked[index] += number
                    n_blocked += number
        n_fires = sum(fires)
        if n_fires + n_blocked or skipped:
            listed = _first(coming, self.per_job)
            self.jobs.append(
                JobForecast(
                    job.job_key,
                    job.paused_at is not None,
                    job.paused_until,
                    n_fires,
                    n_blocked,
                    tuple(listed),
                    more=max(0, n_fires + n_blocked - _counted(listed)),
                    held=sum(fires[:held_to]),
                    more_blocked=max(0, n_blocked - _blocked(listed)),
                    starts_in=self._folded([0] * held_to + fires[held_to:]) if self.per_job else (),
                )
            )

    def _held_to(self, job: Job) -> int:
        """The fires of so many of the first buckets the job's pause holds back."""
        if job.paused_at is None:
            return 0
        if job.paused_until is None or job.paused_until >= self.edges[-1]:
            return len(self.edges) - 1
        place = bisect_left(self.edges, job.paused_until)
        self.is_exact = self.is_exact and job.paused_until in (self.edges[place], min(job.paused_until, self.edges[0]))
        return place

    def _taken_out(self, job: Job, triggers: list[tuple[Trigger, Gates]]) -> set[datetime]:
        """What somebody took out and the job's schedules, as they are now, would still fire."""
        return {
            at
            for at in self._skipped.get(job.pk, ())
            for trigger, gates in triggers
            if trigger_fires(trigger, after=at - _TICK, until=at, count=1, calendar=gates.calendar)
        }

    def _is_met(self, tallies: list[_Tally]) -> bool:
        """Whether two triggers fire in one bucket, so that they may meet."""
        return any(sum(map(bool, column)) > 1 for column in zip(*(tally.fires for tally in tallies), strict=True))

    def _met(self, triggers: list[tuple[Trigger, Gates]], summed: list[int]) -> list[int]:
        """The fires of a job whose triggers may meet: an instant that two give is one run."""
        instants: set[datetime] = set()
        for trigger, gates in triggers:
            found = self._walk(trigger, gates)
            if found is None:
                self.is_exact = False
                return summed
            instants.update(found)
        return self._in_buckets(instants)

    def _walk(self, trigger: Trigger, gates: Gates) -> list[datetime] | None:
        """All fires of the trigger in the window; None where they are too many."""
        room = min(MOST_WALKED, MOST_WALKED_TOGETHER - self._walked)
        found = self._fires(trigger, gates, room + 1) if room > 0 else []
        self._walked += len(found)
        return [fire.at for fire in found] if len(found) <= room and room > 0 else None

    def _in_buckets(self, instants: Iterable[datetime]) -> list[int]:
        numbers = [0] * (len(self.edges) - 1)
        for at in instants:
            numbers[bisect_left(self.edges, at) - 1] += 1
        return numbers

    def _tally(self, key: Hashable, trigger: Trigger, gates: Gates) -> _Tally:
        if key not in self._tallies:
            self._tallies[key] = self._counted(trigger, gates)
        return self._tallies[key]

    def _counted(self, trigger: Trigger, gates: Gates) -> _Tally:
        if gates.last <= gates.first and not gates.moves:
            return _Tally((0,) * len(self.fires), (0,) * len(self.fires))
        low, high = to_micro(gates.first), to_micro(gates.last)
        edges = [min(max(micro, low), high) for micro in self.micros]
        wanted = counts(gates.schedule, edges, gates.wanted)
        allowed = counts(gates.schedule, edges, gates.allowed) if gates.calendar is not None else wanted
        hollow = [all_ - open_ for all_, open_ in zip(wanted, allowed, strict=True)]
        if not gates.moves:
            return _Tally(allowed, hollow)
        walked = self._walk(trigger, gates)
        if walked is None:
            return _Tally(allowed, hollow, is_exact=False)
        return _Tally(self._in_buckets(walked), hollow)

    def _coming(self, key: Hashable, trigger: Trigger, gates: Gates, tally: _Tally) -> Iterator[Coming]:
        """The first fires and the first blocked occurrences, each at most as many as a job lists."""
        if key not in self._firsts:
            found = self._fires(trigger, gates, self.per_job) if any(tally.fires) else []
            hollow = list(islice(gates.hollow(), self.per_job)) if any(tally.blocked) else []
            self._firsts[key] = found, hollow
        found, hollow = self._firsts[key]
        job, zone = trigger.job, zone_of(trigger)
        for fire in found:
            moved_from = fire.occurrence_at if fire.occurrence_at != fire.at else None
            is_paused = is_paused_at(job, fire.at)
            yield Coming(fire.at, job.job_key, trigger.pk, is_paused, moved_from=moved_from, zone=zone)
        if hollow:
            self._destinations[trigger.pk] = gates.destination_of(trigger)
            calendar, policy = trigger.calendar.name, trigger.on_blocked
            for at, rule in hollow:
                is_paused = is_paused_at(job, at)
                yield Coming(at, job.job_key, trigger.pk, is_paused, True, calendar, rule, policy, zone=zone)

    def _fires(self, trigger: Trigger, gates: Gates, count: int) -> list[Fire]:
        return trigger_fires(trigger, after=gates.first, until=gates.last, count=count, calendar=gates.calendar)


def _first(coming: list[Coming], most: int) -> list[Coming]:
    """The first of them in time, an instant that two triggers fire at once."""
    found: dict[tuple[datetime, bool], Coming] = {}
    for item in sorted(coming, key=lambda item: item.at):
        found.setdefault((item.at, item.is_blocked), item)
    fires = [item for item in found.values() if not item.is_blocked][:most]
    hollow = [item for item in found.values() if item.is_blocked][:most]
    return sorted([*fires, *hollow], key=lambda item: item.at)


def is_paused_at(job: Job, at: datetime) -> bool:
    """Whether the job's pause, as it stands, keeps a fire at this instant back: up to its end, and that included."""
    return job.paused_at is not None and (job.paused_until is None or at <= job.paused_until)


def _counted(listed: Iterable[Coming]) -> int:
    return sum(not item.is_skipped for item in listed)


def _blocked(listed: Iterable[Coming]) -> int:
    return sum(item.is_blocked for item in listed)


def _shortened(jobs: list[JobForecast]) -> Iterator[JobForecast]:
    """The jobs, listing together only what comes first in time."""
    instants = sorted(item.at for job in jobs for item in job.coming)
    if len(instants) <= MOST_LISTED:
        yield from jobs
        return
    last = instants[MOST_LISTED - 1]
    room = MOST_LISTED - bisect_left(instants, last)
    for job in jobs:
        kept = [item for item in job.coming if item.at < last]
        of_last = [item for item in job.coming if item.at == last][: max(0, room)]
        room -= len(of_last)
        kept += of_last
        more, more_blocked = (counted(job.coming) - counted(kept) for counted in (_counted, _blocked))
        yield replace(job, coming=tuple(kept), more=job.more + more, more_blocked=job.more_blocked + more_blocked)
