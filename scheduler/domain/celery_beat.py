"""The jobs that periodic tasks of django-celery-beat become. Pure: `scheduler.queries.celery_tables` reads them."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from calendars.domain.errors import InvalidField
from calendars.domain.zones import load_zone
from croniq_site.kernel.errors import InvalidInput
from scheduler.domain.cron import WEEKDAYS
from scheduler.domain.imports import Draft, NotTaken, Remark, digest_of, slug_of
from scheduler.domain.job_fields import job_key_of
from scheduler.domain.schedules import CronSchedule, IntervalSchedule, Schedule, next_fire

PREFIX = "celery"
TAGS = ["celery"]
MOST_TASKS = 5000

AS_BEAT = {"timeout": "24h", "max_retries": 0, "max_losses": 0, "catch_up": "latest"}
"""Beat sends each task once and knows of no retry; what fell due while it was down it sends once when it is back."""

Row = Mapping[str, Any]

_PLAIN_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,79}", re.ASCII)
_ITEM = re.compile(r"(?:\*|(?P<low>[0-9A-Za-z]+)(?:-(?P<high>[0-9A-Za-z]+))?)(?:/(?P<step>\d{1,4}))?", re.ASCII)
_WEEKS = {tuple(range(first, first + 7)): week for week, first in enumerate((1, 8, 15, 22), 1)}
_FIELDS = (
    ("minute", 0, 59),
    ("hour", 0, 23),
    ("day_of_month", 1, 31),
    ("month_of_year", 1, 12),
    ("day_of_week", 0, 6),
)


@dataclass(frozen=True, slots=True)
class Tables:
    """The rows of the tables: the tasks in the order of their ids, and the schedules of each kind by id."""

    tasks: Sequence[Row]
    crontabs: Mapping[int, Row] = field(default_factory=dict)
    intervals: Mapping[int, Row] = field(default_factory=dict)
    clocked: Mapping[int, Row] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Options:
    """``timezone``: of instants without one, and of crontabs of versions that had no zone. ``queues``: a queue's name
    is a capability that the runner needs. ``first``: further fields of new jobs."""

    prefix: str = PREFIX
    timezone: str = "UTC"
    queues: bool = False
    first: Mapping[str, Any] = field(default_factory=dict)


def drafts_of(tables: Tables, options: Options, now: datetime) -> tuple[list[Draft], list[Remark], list[Remark]]:
    """The jobs, what could not be taken, and what is worth saying, in the order of the tasks."""
    drafts: dict[str, Draft] = {}
    refused: list[Remark] = []
    notes: list[Remark] = []
    for task in tables.tasks:
        where, name = f"task {task['id']}", str(task["name"])
        try:
            draft = draft_of(task, tables, options, now)
            if draft.job_key in drafts:
                raise NotTaken(f"its key {draft.job_key!r} is that of {drafts[draft.job_key].where}")
        except (NotTaken, InvalidInput, InvalidField) as error:
            refused.append(Remark(where, name, str(error)))
            continue
        drafts[draft.job_key] = draft
        ignored = [column for column in ("exchange", "routing_key", "priority") if task.get(column) not in (None, "")]
        if task.get("queue") and not options.queues:
            ignored.append("queue (--queues makes it a capability)")
        if ignored:
            notes.append(Remark(where, name, f"left out: {', '.join(ignored)}"))
    return list(drafts.values()), refused, notes


def draft_of(task: Row, tables: Tables, options: Options, now: datetime) -> Draft:
    """One task as a job of a handler, which finds task, args and kwargs in its metadata. Raises NotTaken."""
    name, function = str(task["name"]), str(task["task"])
    if function == "celery.backend_cleanup":
        raise NotTaken("it cleans up Celery's own results")
    is_one_off = bool(task.get("one_off")) or task.get("clocked_id") is not None
    if is_one_off and not task["enabled"] and task.get("total_run_count"):
        raise NotTaken("it was to run once, and has run")
    bounds = {
        "not_before": _instant(task.get("start_time"), options),
        "not_after": _instant(task.get("expires"), options),
    }
    schedule, first_schedule = _schedules(task, tables, options, now, bounds["not_before"])
    first = {
        **AS_BEAT,
        "description": str(task.get("description") or "") or f"{name} ({function})",
        "tags": TAGS,
        "is_active": bool(task["enabled"]),
        **options.first,
    }
    if task.get("expire_seconds"):
        first["queue_ttl"] = int(task["expire_seconds"])
    if options.queues and task.get("queue"):
        first["require"] = sorted({*(first.get("require") or ()), str(task["queue"])})
    return Draft(
        job_key=job_key_of("name", f"{options.prefix}:{_key_part(name)}"),
        where=f"task {task['id']}",
        what=f"{name}: {function}",
        fields={"metadata": _told(task, function)},
        schedule={**schedule, **(bounds if schedule else {})},
        first=first,
        first_schedule=first_schedule,
    )


def _key_part(name: str) -> str:
    """The name itself where it can be a part of a key, else one like it with a digest, the same at every import."""
    return name if _PLAIN_NAME.fullmatch(name) else f"{slug_of(name) or 'task'}-{digest_of(name)}"


def _told(task: Row, function: str) -> dict[str, Any]:
    told: dict[str, Any] = {"task": function}
    for column, kind in (("args", list), ("kwargs", dict), ("headers", dict)):
        try:
            value = json.loads(task.get(column) or ("[]" if kind is list else "{}"))
        except ValueError as error:
            raise NotTaken(f"its {column} are no JSON: {error}") from error
        if not isinstance(value, kind):
            raise NotTaken(f"its {column} are no {'list' if kind is list else 'object'}")
        if value or column != "headers":
            told[column] = value
    return told


def _schedules(
    task: Row, tables: Tables, options: Options, now: datetime, start: datetime | None
) -> tuple[dict[str, Any], dict[str, Any]]:
    """The schedule that every import sets, and what only the first one does."""
    kinds = [kind for kind in ("crontab", "interval", "solar", "clocked") if task.get(f"{kind}_id") is not None]
    if len(kinds) != 1:
        raise NotTaken(f"it has {len(kinds)} schedules, not one")
    (kind,) = kinds
    if kind == "solar":
        raise NotTaken("it follows the sun (solar), and no schedule here does")
    rows = {"crontab": tables.crontabs, "interval": tables.intervals, "clocked": tables.clocked}[kind]
    row = rows.get(task[f"{kind}_id"])
    if row is None:
        raise NotTaken(f"its {kind} schedule {task[f'{kind}_id']} is not there")
    if kind == "clocked":
        return {"run_at": _instant(row["clocked_time"], options)}, {}
    anchor = _instant(task.get("last_run_at"), options) or start or now
    if kind == "crontab":
        zone = load_zone(str(row.get("timezone") or options.timezone)).name
        schedule: dict[str, Any] = {"cron_expression": expression_of(row), "timezone": zone}
        pure: Schedule = CronSchedule(schedule["cron_expression"], zone)
    else:
        every = _period(row)
        schedule, pure = {"every": every}, IntervalSchedule(every, anchor)
    if task.get("one_off"):
        # Its next fire, as of the import that makes it: a later one would find another, and run it once more.
        fire = next_fire(pure, after=max(now, start or now) - timedelta(microseconds=1))
        if fire is None:
            raise NotTaken("its schedule has no fire left")
        return {}, {"run_at": fire.at}
    return schedule, {} if kind == "crontab" else {"anchor": anchor}


def expression_of(row: Row) -> str:
    """The crontab in the words of this scheduler. Celery wants the day of month *and* the day of week."""
    texts, sets = [], []
    for name, low, high in _FIELDS:
        text = "".join(str(row.get(name) or "*").split())
        values = _values(name, text, low, high)
        sets.append(values)
        if len(values) == high - low + 1:
            texts.append("*")
        else:
            texts.append(text if re.fullmatch(r"\*/\d+", text) else _listed(values))
    month_day, weekday = texts[2], texts[4]
    if not month_day.startswith("*") and not weekday.startswith("*"):
        # Here either would do, unless one of them begins with *.
        week = _WEEKS.get(tuple(sets[2]))
        if week is None:
            raise NotTaken(
                f"day of month {month_day} and day of week {weekday} both have to match in Celery, and here either "
                "would do; make it a schedule of the weekday with a calendar of the days"
            )
        texts[2], texts[4] = "*", ",".join(f"{day}#{week}" for day in sets[4])
    return " ".join(texts)


def _values(name: str, text: str, low: int, high: int) -> list[int]:
    """The values of a field, as celery.schedules.crontab_parser expands them; ranges may go round."""
    values: set[int] = set()
    for item in text.split(","):
        match = _ITEM.fullmatch(item)
        if match is None or (match["step"] and match["low"] and not match["high"]) or match["step"] in ("0", "00"):
            raise NotTaken(f"{item[:30]!r} in {name} is nothing that Celery runs")
        begin = _value(name, match["low"], low, high) if match["low"] else low
        end = _value(name, match["high"], low, high) if match["high"] else (begin if match["low"] else high)
        span = [*range(begin, end + 1)] if begin <= end else [*range(begin, high + 1), *range(low, end + 1)]
        values |= set(span[:: int(match["step"] or 1)])
    return sorted(values)


def _value(name: str, text: str, low: int, high: int) -> int:
    value = int(text) if text.isdigit() and len(text) < 5 else WEEKDAYS.get(text[:3].upper(), -1)
    if not low <= value <= high:
        raise NotTaken(f"{text[:30]!r} is not in {low}-{high}, the range of {name}")
    return value


def _listed(values: list[int]) -> str:
    """``1-5,7``: the values with neighbours as ranges."""
    spans: list[list[int]] = []
    for value in values:
        if spans and spans[-1][1] == value - 1:
            spans[-1][1] = value
        else:
            spans.append([value, value])
    return ",".join(str(low) if low == high else f"{low}-{high}" for low, high in spans)


def _period(row: Row) -> timedelta:
    unit = str(row["period"])
    if unit not in ("days", "hours", "minutes", "seconds", "microseconds"):
        raise NotTaken(f"{unit[:30]!r} is no unit of an interval")
    try:
        return timedelta(**{unit: int(row["every"])})
    except (ValueError, OverflowError) as error:
        raise NotTaken(f"an interval of {str(row['every'])[:30]} {unit} is none") from error


def _instant(value: Any, options: Options) -> datetime | None:
    """An instant of a row. SQLite has them without a zone: UTC, unless the application was set up otherwise."""
    if value is None or value == "":
        return None
    if isinstance(value, str):
        try:
            value = datetime.fromisoformat(value)
        except ValueError:
            raise NotTaken(f"{value[:40]!r} is no instant") from None
    return value if value.tzinfo is not None else value.replace(tzinfo=load_zone(options.timezone).info)
