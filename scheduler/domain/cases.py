"""A question about a schedule as one JSON object, and its answer: what `next_fires --jsonl` reads and writes.

In: ``schedule`` (``cron``, ``every`` with ``anchor``, or ``once``; ``timezone``), ``calendar``, ``misfire``, ``after``,
``until``, ``count``.
Out: ``{"fires": [...]}`` or ``{"error", "field"}``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from fractions import Fraction

from calendars.domain.errors import InvalidField
from calendars.domain.rules import CalendarSpec, Effect, OnBlocked, Rule, parse_rule
from calendars.domain.zones import load_zone, to_instant, to_seconds
from scheduler.domain.durations import LONGEST, checked_duration, parse_duration
from scheduler.domain.newest import newest_fires
from scheduler.domain.schedules import (
    CronSchedule,
    IntervalSchedule,
    OnceSchedule,
    Schedule,
    fires,
    next_fire,
    occurrences,
    parse_on_blocked,
    refuse_never,
)

MOST_FIRES = 10_000
_POLICIES = {"skip": OnBlocked.ADVANCE}
_CATCH_UPS = {
    "skip": "none",
    "fire_once": "latest",
    "fire_all": "all",
    "none": "none",
    "latest": "latest",
    "all": "all",
}
_DEFAULT_MOST = 100
# ISO 8601. Years and months have no length of their own; only the last number may have a fraction.
_NUMBER = r"(\d{1,12}(?:[.,]\d{1,9})?)"
_ISO_DURATION = re.compile(
    rf"P(?:{_NUMBER}W)?(?:{_NUMBER}D)?(?:T(?=\d)(?:{_NUMBER}H)?(?:{_NUMBER}M)?(?:{_NUMBER}S)?)?", re.ASCII
)
_ISO_SECONDS = (7 * 86_400, 86_400, 3600, 60, 1)


@dataclass(frozen=True, slots=True)
class Case:
    """A question, checked."""

    schedule: Schedule
    calendar: CalendarSpec | None
    on_blocked: OnBlocked
    after: datetime
    until: datetime | None
    count: int
    resume_at: datetime | None = None
    missed_after: datetime | None = None
    missed_most: int = 0


def answer_line(line: str, *, timezone: str = "UTC") -> str:
    """Answer one line of JSON with one line of JSON, whatever it holds. ``timezone``: where the case names none."""
    try:
        answer = {"fires": [_written(at) for at in answer_case(parse_case(json.loads(line), timezone=timezone))]}
    except InvalidField as refused:
        answer = {"error": refused.message, "field": refused.field}
    except (ValueError, RecursionError, OverflowError) as broken:
        answer = {"error": f"The line is not a case: {str(broken)[:200]}", "field": "line"}
    return json.dumps(answer)


def answer_case(case: Case) -> list[datetime]:
    """The fires of a case: what is caught up, then the regular ones. Refuses one whose calendar never lets it run."""
    asked = {"calendar": case.calendar, "on_blocked": case.on_blocked}
    if next_fire(case.schedule, after=case.after, **asked) is None:
        if next(occurrences(case.schedule, after=case.after), None) is None:
            return []  # complete: it has no occurrence any more
        refuse_never(case.schedule, after=case.after, **asked)
    found, after = [], case.after
    if case.resume_at is not None:
        missed_after = after if case.missed_after is None else max(after, case.missed_after)
        found = newest_fires(case.schedule, after=missed_after, until=case.resume_at, count=case.missed_most, **asked)
        after = max(after, case.resume_at)
    left = case.count - len(found)
    if left > 0:
        found += fires(case.schedule, after=after, until=case.until, count=left, **asked)
    return [fire.at for fire in found[: case.count]]


def parse_case(value: object, *, timezone: str = "UTC") -> Case:
    """Check a question; refuses with the field named."""
    case = _mapping(value, "case")
    described_schedule, after = _mapping(case.get("schedule"), "schedule"), _instant(case.get("after"), "after")
    schedule = _schedule(described_schedule, timezone, after)
    calendar, blocked = None, case.get("on_blocked")
    if case.get("calendar") is not None:
        described = _mapping(case["calendar"], "calendar")
        zone = described.get("timezone", "UTC")
        calendar = CalendarSpec(zone, tuple(_rules(described, zone)))
        blocked = described.get("on_blocked", blocked)
    if blocked is not None and not isinstance(blocked, str):
        raise InvalidField("on_blocked", "This must be a text.")
    until = None if case.get("until") is None else _instant(case["until"], "until")
    misfire = _mapping(case["misfire"], "misfire") if case.get("misfire") is not None else None
    return Case(
        schedule=schedule,
        calendar=calendar,
        on_blocked=parse_on_blocked(_POLICIES.get(blocked, blocked), schedule),
        after=after,
        until=until,
        count=_number(case.get("count"), "count", MOST_FIRES, 1 if until is None else MOST_FIRES),
        **({} if misfire is None else _misfire(misfire)),
    )


def _misfire(misfire: Mapping[str, object]) -> dict[str, object]:
    policy = misfire.get("policy")
    catch_up = _CATCH_UPS.get(policy) if isinstance(policy, str) else None
    if catch_up is None:
        raise InvalidField("misfire", f"The policy is one of: {', '.join(_CATCH_UPS)}.")
    most = _number(misfire.get("max"), "max", MOST_FIRES, _DEFAULT_MOST)
    resume_at = _instant(misfire.get("resume_at"), "resume_at")
    grace = None if misfire.get("grace") is None else _duration(misfire["grace"], "grace")
    return {
        "resume_at": resume_at,
        # One that is exactly as old as the grace still runs.
        "missed_after": None if grace is None else resume_at - grace - timedelta(microseconds=1),
        "missed_most": {"none": 0, "latest": 1, "all": most}[catch_up],
    }


def _schedule(described: Mapping[str, object], timezone: str, after: datetime) -> Schedule:
    """The schedule; an interval without an anchor begins at ``after``."""
    zone = described.get("timezone", timezone)
    kinds = [kind for kind in ("cron", "every", "once") if described.get(kind) is not None]
    if len(kinds) != 1:
        raise InvalidField("schedule", "A schedule has exactly one of cron, every and once.")
    if kinds == ["cron"]:
        if not isinstance(described["cron"], str):
            raise InvalidField("cron_expression", "A cron expression is a text.")
        key = described.get("job_key", "")
        return CronSchedule(described["cron"], zone, key if isinstance(key, str) else "")
    if kinds == ["once"]:
        return OnceSchedule(_instant(described["once"], "once"), zone)
    anchor = after if described.get("anchor") is None else _instant(described["anchor"], "anchor")
    return IntervalSchedule(_duration(described["every"], "every"), anchor, zone)


def _rules(described: Mapping[str, object], zone: object) -> Iterator[Rule]:
    for effect in Effect:
        rules = described.get(effect.value)
        if rules is not None and not isinstance(rules, list):
            raise InvalidField(effect.value, "This must be a list of rules.")
        for rule in rules or ():
            yield _rule(effect, dict(_mapping(rule, effect.value)), zone)


def _rule(effect: Effect, described: dict[str, object], zone: object) -> Rule:
    """A rule in the words of a case (`range`, `annual`, `window`, `holidays`, `period`) or of a rule's columns."""
    if "effect" in described:
        raise InvalidField("effect", "A rule's effect is the list in which it stands.")
    period = described.pop("period", None)
    if period is not None:
        if described:
            raise InvalidField("period", "A period stands alone in its rule.")
        start, end = (_instant(item, "period", zone) for item in _pair(period, "period"))
        if end <= start:
            raise InvalidField("period", "The period ends before it starts.")
        return Rule(effect, period=(start, end))
    if "range" in described:
        described["range_start"], described["range_end"] = _pair(described.pop("range"), "range")
    if "window" in described:
        described["window_start"], described["window_end"] = _pair(described.pop("window"), "window")
    if "annual" in described:
        described["yearly_dates"] = described.pop("annual")
    if "holidays" in described:
        of = dict(_mapping(described.pop("holidays"), "holidays"))
        of.pop("years", None)  # the years that the listed dates are for
        described.pop("dates", None)  # what the package must give
        described |= {f"holiday_{name}": item for name, item in of.items()}
    return parse_rule({"effect": effect.value, **described})


def _mapping(value: object, field: str) -> Mapping[str, object]:
    if not isinstance(value, dict):
        raise InvalidField(field, "This must be an object.")
    return value


def _pair(value: object, field: str) -> tuple[object, object]:
    if not isinstance(value, list) or len(value) != 2:
        raise InvalidField(field, "This must be a list of two values.")
    return value[0], value[1]


def _number(value: object, field: str, most: int, default: int) -> int:
    if value is None:
        return default
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= most:
        raise InvalidField(field, f"This must be a whole number from 0 to {most}.")
    return value


def _instant(value: object, field: str, zone: object = None) -> datetime:
    """An RFC 3339 instant; with ``zone`` one without an offset is that zone's wall time."""
    try:
        instant = datetime.fromisoformat(value) if isinstance(value, str) else None
    except ValueError:
        instant = None
    if instant is not None and instant.tzinfo is None and isinstance(zone, str):
        instant = to_instant(load_zone(zone).to_utc(to_seconds(instant.replace(tzinfo=UTC))))
    if instant is None or instant.tzinfo is None or not 1902 <= instant.year <= 9000:
        raise InvalidField(field, "An instant is written like 2026-12-24T12:00:00Z and lies between 1902 and 9000.")
    return instant.astimezone(UTC)


def _duration(value: object, field: str) -> timedelta:
    """A duration of the wire ("90s"), of ISO 8601 ("PT1H30M", "P1W", "PT0.5S"), or a number of seconds."""
    if isinstance(value, int | float) and not isinstance(value, bool) and -1e12 < value < 1e12:
        value = f"{value:.6f}" if isinstance(value, float) else str(value)
    if not isinstance(value, str):
        raise InvalidField(field, "A duration is written like '90s' or 'PT1H30M'.")
    match = _ISO_DURATION.fullmatch(value) if len(value) <= 64 else None
    numbers = match.groups() if match else ()
    given = [(number.replace(",", "."), size) for number, size in zip(numbers, _ISO_SECONDS, strict=False) if number]
    if not given or any("." in number for number, _ in given[:-1]):
        return parse_duration(value, field=field, bare_seconds=True)
    seconds = sum(Fraction(number) * size for number, size in given)
    if seconds > LONGEST.total_seconds():
        raise InvalidField(field, "A duration may be ten years at most.")
    return checked_duration(timedelta(microseconds=round(seconds * 1_000_000)), field=field)


def _written(at: datetime) -> str:
    return at.isoformat().replace("+00:00", "Z")
