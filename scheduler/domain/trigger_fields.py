"""What a trigger's definition on the wire means: wire fields to the columns of `Trigger`. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime, time, timedelta
from typing import Any

from calendars.domain.rules import OnBlocked
from calendars.domain.zones import load_zone
from croniq_site.kernel.errors import InvalidInput
from scheduler.domain.all_at_once import AllAtOnce
from scheduler.domain.durations import checked_duration, parse_duration
from scheduler.domain.inputs import flag_of
from scheduler.domain.job_fields import refuse_unknown
from scheduler.domain.schedules import SHORTEST_PERIOD, CronSchedule, IntervalSchedule, OnceSchedule, parse_on_blocked

COLUMNS = (
    "kind",
    "cron_expression",
    "every",
    "anchor_at",
    "run_at",
    "timezone",
    "on_blocked",
    "window_start",
    "window_end",
    "not_before",
    "not_after",
    "enabled",
)
NEW: dict[str, Any] = dict.fromkeys(COLUMNS) | {
    "cron_expression": "",
    "timezone": "",
    "on_blocked": OnBlocked.ADVANCE.value,
    "enabled": True,
}
"""The columns of a trigger of which nothing was said yet."""

NO_WINDOW = (None, None)
KINDS = {"cron_expression": "cron", "every": "interval", "run_at": "once"}
_MORE = ("timezone", "calendar", "on_blocked", "window", "not_before", "not_after", "enabled", "job_key")
FIELDS = {*KINDS, "anchor", *_MORE}


def _is_length(value: Any) -> bool:
    return isinstance(value, str) and re.fullmatch(r"\s*\d+(\.\d+)?\s*[smhd]\s*", value[:40]) is not None


def instant_of(field: str, value: Any) -> datetime:
    """An aware instant between 1970 and 9990, from RFC 3339 text or a datetime; UTC."""
    said = value
    if isinstance(value, str) and len(value) <= 40:
        try:
            value = datetime.fromisoformat(value)
        except ValueError:
            value = None
    if not isinstance(value, datetime) or value.tzinfo is None or value.utcoffset() is None:
        hint = " A length of time is none: say when that is over." if _is_length(said) else ""
        raise InvalidInput.of(field, f"{field} is an instant with its offset, such as 2026-12-24T12:00:00Z.{hint}")
    if not 1970 < value.year < 9990:
        raise InvalidInput.of(field, f"{field} lies between 1970 and 9990.")
    return value.astimezone(UTC)


def trigger_columns(
    fields: Mapping[str, Any], *, before: Mapping[str, Any], job_key: str, default_zone: str, now: datetime
) -> dict[str, Any]:
    """The columns, but ``calendar``, that ``fields`` sets. A missing field is untouched (``before``: the row's columns
    as they are, or a new row's defaults), null is the default.

    Refuses, by field and all at once, what is no schedule; whether it ever fires is the caller's question.
    """
    columns, wrong = dict(before), AllAtOnce()
    wrong.read(lambda _field: refuse_unknown(fields, FIELDS), "")
    if fields.get("timezone") is not None:
        columns["timezone"] = wrong.read(_zone_of, "timezone", fields["timezone"]) or ""
    elif "timezone" in fields:
        columns["timezone"] = ""
    _set_schedule(columns, fields, job_key, columns["timezone"] or default_zone, now, wrong)
    if "on_blocked" in fields or columns["kind"] != before["kind"]:
        once = OnceSchedule(now) if columns["kind"] == "once" else None
        columns["on_blocked"] = wrong.read(_policy_of, "on_blocked", fields.get("on_blocked"), once)
    if "window" in fields:
        columns["window_start"], columns["window_end"] = wrong.read(_window_of, "window", fields["window"]) or NO_WINDOW
    for bound in ("not_before", "not_after"):
        if bound in fields:
            columns[bound] = None if fields[bound] is None else wrong.read(instant_of, bound, fields[bound])
    if columns["not_before"] and columns["not_after"] and columns["not_after"] < columns["not_before"]:
        wrong.refuse("not_after", "not_after lies before not_before; it would never run.")
    if "enabled" in fields:
        columns["enabled"] = True if fields["enabled"] is None else wrong.read(flag_of, "enabled", fields["enabled"])
    wrong.end()
    return columns


def _zone_of(field: str, name: Any) -> str:
    return load_zone(name, field=field).name


def _policy_of(field: str, wanted: Any, once: OnceSchedule | None) -> str:
    if wanted is not None and not isinstance(wanted, str):
        raise InvalidInput.of(field, "on_blocked is a text.")
    return parse_on_blocked(wanted, once).value


def _set_schedule(
    columns: dict[str, Any], fields: Mapping[str, Any], job_key: str, zone: str, now: datetime, wrong: AllAtOnce
) -> None:
    given = [name for name in KINDS if fields.get(name) not in (None, "")]
    if len(given) > 1:
        wrong.refuse(given[1], f"A schedule has one of {', '.join(KINDS)}; not {' and '.join(given)}.")
    if not given:
        if columns["kind"] is None:
            return wrong.refuse("cron_expression", f"A schedule needs one of {', '.join(KINDS)}.")
        for name, kind in KINDS.items():
            if name in fields and columns["kind"] == kind:
                wrong.refuse(name, f"A schedule needs one of {', '.join(KINDS)}; this leaves it none.")
        given = [name for name, kind in KINDS.items() if kind == columns["kind"]]
    kind = KINDS[given[0]]
    value = fields.get(given[0], columns[given[0]])
    anchor = columns["anchor_at"]  # kept when the period changes: what ran at :07 goes on at :07
    if fields.get("anchor") is not None:
        anchor = wrong.read(instant_of, "anchor", fields["anchor"])
    columns |= {"kind": kind, "cron_expression": "", "every": None, "anchor_at": None, "run_at": None}
    if kind == "cron":
        columns["cron_expression"] = wrong.read(_cron_of, "cron_expression", value, zone, job_key)
    elif kind == "interval":
        columns["every"] = every = wrong.read(_period_of, "every", value)
        if every is not None:
            columns["anchor_at"] = IntervalSchedule(every, anchor or now).anchor
    else:
        columns["run_at"] = wrong.read(instant_of, "run_at", value)
    return None


def _cron_of(field: str, value: Any, zone: str, job_key: str) -> str:
    if not isinstance(value, str):
        raise InvalidInput.of(field, "A cron expression is a text.")
    return CronSchedule(value.strip(), zone, job_key).expression


def _period_of(field: str, value: Any) -> timedelta:
    every = value if isinstance(value, timedelta) else parse_duration(value, field=field)
    return checked_duration(every, field=field, least=SHORTEST_PERIOD)


def _window_of(field: str, value: Any) -> tuple[time | None, time | None]:
    """``"09:00-17:00"``, ``["09:00", "17:00"]`` or ``{"start": …, "end": …}``; half-open, may cross midnight."""
    if value is None or value == "":
        return NO_WINDOW
    parts: Any = value
    if isinstance(value, str):
        parts = value.split("-")
    elif isinstance(value, Mapping) and set(value) == {"start", "end"}:
        parts = [value["start"], value["end"]]
    try:
        start, end = (time.fromisoformat(part.strip()) for part in parts)
    except (TypeError, ValueError, AttributeError):
        start = end = time(0)
    if start == end or start.tzinfo or end.tzinfo:
        raise InvalidInput.of(field, "A window is two different times of day, such as '09:00-17:00'.")
    return start, end
