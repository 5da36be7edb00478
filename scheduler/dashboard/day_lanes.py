"""What lies where on a day: bars of runs, of what is to come, and how much there is in every quarter of an hour."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import groupby

from django.utils.safestring import SafeString
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from scheduler.dashboard.day_bars import Bar, drawing_of
from scheduler.dashboard.words import STATES
from scheduler.queries.day import QUARTER, Day, DayJob, DayRun, Expected, HourOfRuns
from scheduler.templatetags.croniq import duration

WIDTH = 1000
SECONDS = 86_400
QUARTERS = 96
LEVEL, MOST_LEVELS = 12, 4
"""Height of a run, and how many of a job are drawn beside each other where they overlap."""
LEAST_WIDTH, LEAST_SEEN = 1.6, 0.3
LEAST_HOLLOW = 4.0
"""A narrower bar would be all edge: it has no hollow."""
MOST_BARS, MOST_ROWS = 1500, 200
QUIET_QUARTERS = 4
ANY_RUNNER = "to come, on any runner"


@dataclass(frozen=True, slots=True)
class Stretch:
    """Hours in a row with the same number of runs (``kind`` many), or of fires to come (more)."""

    x: str
    width: str
    y: str
    height: str
    words: str
    kind: str
    has_failed: bool


@dataclass(slots=True)
class Row:
    job: DayJob
    runs: list[DayRun] = field(default_factory=list)
    expected: list[Expected] = field(default_factory=list)
    hours: list[HourOfRuns] = field(default_factory=list)
    unlisted: tuple[int, ...] = ()
    bars: list[Bar] = field(default_factory=list)
    stretches: list[Stretch] = field(default_factory=list)
    height: int = LEVEL

    @property
    def count(self) -> int:
        return len(self.runs) + sum(hour.runs for hour in self.hours)

    @property
    def coming(self) -> int:
        return len(self.expected) + sum(self.unlisted)

    @property
    def drawing(self) -> SafeString:
        return drawing_of(self.bars)


@dataclass(frozen=True, slots=True)
class Quarter:
    """A quarter of an hour: how many runs were at work in it, or begin in it if it is to come."""

    x: str
    y: str
    height: str
    number: int
    is_to_come: bool
    words: str


class _Said:
    """What bars say, in the viewer's language: looked up once for all of them."""

    def __init__(self) -> None:
        self.states = {state: str(words) for state, words in STATES.items()}
        self.waited = _("waited {length}")
        self.ran = _("ran {length}")
        self.ran_on = _("ran {length} on {runner_id}")
        self.usual = _("{at} UTC: to come, usually {usual}, 95 of 100 within {most}")
        self.unknown = _("{at} UTC: to come; no run yet says how long it takes")


def sections(day: Day, by: str, now: datetime) -> tuple[list[tuple[str, list[Row]]], int, int]:
    """The rows, in sections by ``by`` (runner, tag, group or tenant); how many rows are left out, and how many are
    drawn by the hour."""
    rows = _rows(day, by)
    order = sorted(rows, key=lambda key: (key[0].startswith(("no ", ANY_RUNNER)), key[0], rows[key].job.job_key))
    shown = order[:MOST_ROWS]
    room, by_the_hour, said = MOST_BARS, 0, _Said()
    for key in sorted(shown, key=lambda key: len(rows[key].runs) + len(rows[key].expected)):
        row = rows[key]
        room -= len(row.runs) + len(row.expected)
        if room >= 0 and not row.hours:
            _draw_bars(row, day.start, now, said)
        else:
            by_the_hour += 1
            _draw_hours(row, day.start)
    found = [(title, [rows[key] for key in keys]) for title, keys in groupby(shown, key=lambda key: key[0])]
    return found, len(order) - len(shown), by_the_hour


def quarters(day: Day, now: datetime) -> list[Quarter]:
    """How much there is in each quarter of an hour; the highest reaches the top."""
    numbers = _numbers(day, now)
    most = max(numbers, default=0)
    drawn = []
    for index, number in enumerate(numbers):
        at = day.start + index * QUARTER
        is_to_come = at > now
        height = max(4.0, number / most * 100) if number else 0.0
        if is_to_come:
            words = ngettext("{at} UTC: {n} run to come", "{at} UTC: {n} runs to come", number)
        else:
            words = ngettext("{at} UTC: {n} run at work", "{at} UTC: {n} runs at work", number)
        words = words.format(at=f"{at:%H:%M}", n=number)
        x, y = f"{index * WIDTH / QUARTERS:.2f}", f"{100 - height:.1f}"
        drawn.append(Quarter(x, y, f"{height:.1f}", number, is_to_come, words))
    return drawn


def quiet_times(drawn: Sequence[Quarter]) -> list[str]:
    """The stretches of an hour or more in which there is nothing, as words: "02:15 to 04:00"."""
    found = []
    for is_quiet, same in groupby(enumerate(drawn), key=lambda item: item[1].number == 0):
        indices = [index for index, _ in same]
        if is_quiet and len(indices) >= QUIET_QUARTERS:
            found.append(_("{first} to {last}").format(first=_clock(indices[0]), last=_clock(indices[-1] + 1)))
    return found


def place(seconds: float, start: datetime) -> float:
    """Where an instant (seconds since 1970) lies on the day, within its ends."""
    return min(max((seconds - start.timestamp()) / SECONDS, 0.0), 1.0) * WIDTH


def _clock(index: int) -> str:
    return f"{index // 4:02}:{index % 4 * 15:02}"


def _rows(day: Day, by: str) -> dict[tuple[str, int], Row]:
    rows: dict[tuple[str, int], Row] = {}

    def row_of(title: str, job_id: int) -> Row:
        row = rows.get((title, job_id))
        if row is None:
            row = rows[title, job_id] = Row(day.jobs[job_id])
        return row

    for run in day.runs:
        for title in _titles(day.jobs[run.job_id], by, run.runner_id or "no runner"):
            row_of(title, run.job_id).runs.append(run)
    for hour in day.hours:
        for title in _titles(day.jobs[hour.job_id], by, hour.runner_id or "no runner"):
            row_of(title, hour.job_id).hours.append(hour)
    for fire in day.expected:
        for title in _titles(day.jobs[fire.job_id], by, ANY_RUNNER):
            row_of(title, fire.job_id).expected.append(fire)
    for job_id, numbers in day.unlisted.items():
        for title in _titles(day.jobs[job_id], by, ANY_RUNNER):
            row_of(title, job_id).unlisted = numbers
    return rows


def _titles(job: DayJob, by: str, runner: str) -> Iterable[str]:
    if by == "runner":
        return (runner,)
    if by == "tag":
        return job.tags or ("no tag",)
    return (job.group or "no group",) if by == "group" else (job.tenant,)


def _draw_bars(row: Row, start: datetime, now: datetime, said: _Said) -> None:
    """What overlaps lies beside each other, by the times as they are. What is drawn wider than it was, so that it is
    seen, ends where the next one of its level begins: two short ones in a row are not told as two at once."""
    ends: list[float] = []
    placed: list[tuple[int, float, DayRun | Expected]] = []
    items: list[tuple[float, float, DayRun | Expected]] = [(run.due, _end_of(run, now), run) for run in row.runs] + [
        (fire.at, fire.at + (fire.most_seconds or 0), fire) for fire in row.expected
    ]
    for begin, end, item in sorted(items, key=lambda item: item[:2]):
        level = next((level for level, free in enumerate(ends) if free <= begin), len(ends))
        level = min(level, MOST_LEVELS - 1)
        if level == len(ends):
            ends.append(end)
        else:
            ends[level] = max(ends[level], end)
        placed.append((level, place(begin, start), item))
    following = dict.fromkeys(range(len(ends)), float(WIDTH))
    for level, x, item in reversed(placed):
        y, until = level * LEVEL, following[level]
        is_run = isinstance(item, DayRun)
        row.bars.append(
            _run_bar(item, start, now, y, until, said) if is_run else _coming_bar(item, start, y, until, said)
        )
        following[level] = x
    row.bars.reverse()
    row.height = max(1, len(ends)) * LEVEL
    unlisted = {hour: [number, 0] for hour, number in enumerate(row.unlisted)}
    row.stretches = list(_stretches(unlisted, max(row.unlisted, default=0), "more"))


def _seen(width: float, room: float, least: float = LEAST_WIDTH) -> float:
    """The width of a bar that is ``width`` wide, so that it is seen: at least ``least`` where there is room for it."""
    return max(width, min(least, room), LEAST_SEEN)


def _end_of(run: DayRun, now: datetime) -> float:
    return now.timestamp() if run.ended is None else run.ended


def _run_bar(run: DayRun, start: datetime, now: datetime, y: int, until: float, said: _Said) -> Bar:
    end = _end_of(run, now)
    began = end if run.claimed is None else max(run.claimed, run.due)
    x, waited = place(began, start), place(run.due, start)
    state = run.verdict or ("queued" if run.claimed is None else "claimed")
    waited_for, ran_for = duration(_whole(began - run.due)), duration(_whole(end - began))
    words = [f"{_at(run.due)} UTC: {said.states[state]}", said.waited.format(length=waited_for)]
    if run.claimed is not None and run.runner_id:
        words.append(said.ran_on.format(length=ran_for, runner_id=run.runner_id))
    elif run.claimed is not None:
        words.append(said.ran.format(length=ran_for))
    width = 0.0 if run.claimed is None else _seen(place(end, start) - x, until - x)
    has_wait = run.claimed is None or x - waited > 0.3
    return Bar(
        run_id=str(run.id),
        kind=state,
        words=", ".join(words),
        x=f"{min(x, WIDTH - LEAST_WIDTH):.1f}",
        width=f"{width:.1f}" if width else "",
        y=y,
        wait_x=f"{waited:.1f}" if has_wait else "",
        wait_width=f"{_seen(x - waited, until - waited):.1f}" if has_wait else "",
        tail_width="",
    )


def _coming_bar(fire: Expected, start: datetime, y: int, until: float, said: _Said) -> Bar:
    x = place(fire.at, start)
    at = _at(fire.at)
    median, most = 0.0, 0.0
    if fire.median_seconds is not None and fire.most_seconds is not None:
        usual, longest = duration(_whole(fire.median_seconds)), duration(_whole(fire.most_seconds))
        words = said.usual.format(at=at, usual=usual, most=longest)
        median, most = (place(fire.at + took, start) - x for took in (fire.median_seconds, fire.most_seconds))
    else:
        words = said.unknown.format(at=at)
    width = _seen(median, until - x, LEAST_HOLLOW)
    tail = f"{most:.1f}" if most - width > 0.3 else ""
    kind = "coming" if width >= LEAST_HOLLOW else "coming thin"
    return Bar("", kind, words, f"{min(x, WIDTH - width):.1f}", f"{width:.1f}", y, "", "", tail)


def _draw_hours(row: Row, start: datetime) -> None:
    """By the hour: what ran, with what failed marked, and what is to come."""
    begin = start.timestamp()
    ran: dict[int, list[int]] = defaultdict(lambda: [0, 0])
    for hour in row.hours:
        ran[hour.hour][0] += hour.runs
        ran[hour.hour][1] += hour.failed
    for run in row.runs:
        index = min(23, max(0, int((run.due - begin) // 3600)))
        ran[index][0] += 1
        ran[index][1] += run.verdict in ("failed", "dead")
    coming: dict[int, list[int]] = defaultdict(lambda: [0, 0])
    for fire in row.expected:
        coming[int((fire.at - begin) // 3600)][0] += 1
    for index, number in enumerate(row.unlisted):
        coming[index][0] += number
    most = max(runs for numbers in (ran, coming) for runs, _ in [*numbers.values(), (1, 0)])
    row.stretches = [*_stretches(ran, most, "many"), *_stretches(coming, most, "more")]


def _stretches(numbers: dict[int, list[int]], most: int, kind: str) -> Iterable[Stretch]:
    for (runs, failed), same in groupby(range(24), key=lambda index: tuple(numbers.get(index, (0, 0)))):
        hours = list(same)
        if not runs:
            continue
        height = max(2.0, runs / most * LEVEL)
        if kind == "more":
            words = ngettext(
                "{first} to {last} UTC: {n} run an hour to come",
                "{first} to {last} UTC: {n} runs an hour to come",
                runs,
            )
        elif failed:
            words = ngettext(
                "{first} to {last} UTC: {n} run an hour, {failed} failed",
                "{first} to {last} UTC: {n} runs an hour, {failed} failed",
                runs,
            )
        else:
            words = ngettext("{first} to {last} UTC: {n} run an hour", "{first} to {last} UTC: {n} runs an hour", runs)
        ends = {"first": f"{hours[0]:02}:00", "last": f"{hours[-1] + 1:02}:00"}
        yield Stretch(
            x=f"{hours[0] * WIDTH / 24:.1f}",
            width=f"{len(hours) * WIDTH / 24 - 1:.1f}",
            y=f"{LEVEL - height:.1f}",
            height=f"{height:.1f}",
            words=words.format(n=runs, failed=failed, **ends),
            kind=kind,
            has_failed=failed > 0,
        )


def _numbers(day: Day, now: datetime) -> list[int]:
    edges = [0] * (QUARTERS + 1)
    start, until, length = day.start.timestamp(), now.timestamp(), QUARTER.total_seconds()

    def quarter_of(seconds: float) -> int:
        return int((seconds - start) // length)

    def add(begin: float, end: float) -> None:
        # What ends with a quarter is not in the next one; what takes no time is in its own.
        first, last = quarter_of(begin), max(quarter_of(begin), quarter_of(end - 1e-3))
        if last >= 0 and first < QUARTERS:
            edges[max(0, first)] += 1
            edges[min(QUARTERS, last + 1)] -= 1

    for run in day.runs:
        if run.claimed is not None:
            add(run.claimed, until if run.ended is None else min(run.ended, until))
    for fire in day.expected:
        # Its own quarter counts it as a fire, with those that are not listed.
        following = start + (quarter_of(fire.at) + 1) * length
        end = fire.at + (fire.median_seconds or 0)
        if end > following:
            add(following, end)
    numbers, active = [], 0
    for change in edges[:QUARTERS]:
        active += change
        numbers.append(active)
    for hour in day.hours:
        for quarter in range(hour.hour * 4, hour.hour * 4 + 4):
            if day.start + quarter * QUARTER <= now:
                numbers[quarter] += hour.runs
    for bucket in day.quarters:
        index = int((bucket.start + timedelta(microseconds=1) - day.start) / QUARTER)
        if bucket.end > now and 0 <= index < QUARTERS:
            numbers[index] += bucket.fires
    return numbers


def _at(seconds: float) -> str:
    return f"{datetime.fromtimestamp(seconds, UTC):%H:%M:%S}"


def _whole(seconds: float) -> float:
    seconds = max(0.0, seconds)
    return round(seconds, 1) if seconds < 10 else float(round(seconds))
