"""Columns as a jobs file writes them: what has its default is left out. Pure; `jobs_file` reads the same back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime, time, timedelta
from typing import Any

from calendars.domain.rules import WEEKDAYS
from scheduler.domain.durations import format_duration, parse_duration
from scheduler.domain.job_fields import FIELDS, RETRY
from scheduler.domain.schedules import OnceSchedule, parse_on_blocked

SECONDS = "_seconds"
"""Columns that end so are durations."""

_SCHEDULE = {
    "cron": ("cron_expression", "cron_expression"),
    "interval": ("every", "every"),
    "once": ("run_at", "run_at"),
}


def job_written(columns: Mapping[str, Any], *, whole: bool = False) -> dict[str, Any]:
    """The job's fields; with ``whole`` those too that have their defaults. The group is a name."""
    fields: dict[str, Any] = {}
    for name, (column, default, _) in FIELDS.items():
        if whole or columns[column] != default:
            fields[name] = _job_value(column, columns[column])
    retry = {
        name: _job_value(column, columns[column])
        for name, (column, default, _) in RETRY.items()
        if whole or columns[column] != default
    }
    if retry:
        fields["retry"] = retry
    if whole or not columns["is_active"]:
        fields["is_active"] = columns["is_active"]
    return fields


def trigger_written(columns: Mapping[str, Any], calendar: str | None) -> dict[str, Any]:
    """The trigger's fields; an interval with its anchor, so that it fires at the same instants elsewhere."""
    field, column = _SCHEDULE[columns["kind"]]
    fields: dict[str, Any] = {field: _trigger_value(columns[column])}
    if columns["kind"] == "interval":
        fields["anchor"] = _trigger_value(columns["anchor_at"])
    if columns["timezone"]:
        fields["timezone"] = columns["timezone"]
    if calendar is not None:
        fields["calendar"] = calendar
    usual = parse_on_blocked(None, OnceSchedule(columns["run_at"])) if columns["kind"] == "once" else "advance"
    if columns["on_blocked"] != usual:
        fields["on_blocked"] = str(columns["on_blocked"])
    if columns["window_start"] is not None and columns["window_end"] is not None:
        fields["window"] = f"{_time(columns['window_start'])}-{_time(columns['window_end'])}"
    for bound in ("not_before", "not_after"):
        if columns[bound] is not None:
            fields[bound] = _trigger_value(columns[bound])
    if not columns["enabled"]:
        fields["enabled"] = False
    return fields


def calendar_written(timezone: str, description: str, rules: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    fields: dict[str, Any] = {"timezone": timezone}
    if description:
        fields["description"] = description
    if rules:
        fields["rules"] = [_rule(rule) for rule in rules]
    return fields


def duration_written(seconds: float) -> str | float:
    """``"5m"``; the number itself where that would not be read back as the same."""
    text = format_duration(timedelta(seconds=seconds))
    if seconds > 0 and text != "0s" and parse_duration(text).total_seconds() == seconds:
        return text
    return "0s" if seconds == 0 else seconds


def instant_written(at: datetime) -> str:
    return at.astimezone(UTC).isoformat().removesuffix("+00:00") + "Z"


def _job_value(column: str, value: Any) -> Any:
    if column.endswith(SECONDS) and value is not None:
        return duration_written(value)
    return value


def _trigger_value(value: Any) -> Any:
    if isinstance(value, timedelta):
        return format_duration(value)
    return instant_written(value) if isinstance(value, datetime) else value


def _rule(rule: Mapping[str, Any]) -> dict[str, Any]:
    fields: dict[str, Any] = {"effect": str(rule["effect"])}
    for name, value in rule.items():
        if name == "weekdays":
            value = [WEEKDAYS[day - 1] for day in value]
        elif isinstance(value, time):
            value = _time(value)
        elif isinstance(value, date):
            value = value.isoformat()
        if name == "holiday_observed":
            # It says something of holidays alone, and true is what is meant without it.
            if rule["holiday_country"] and not value:
                fields[name] = False
        elif name != "effect" and value not in (None, "", []):
            fields[name] = value
    return fields


def _time(value: time) -> str:
    return value.isoformat("minutes") if value.second == value.microsecond == 0 else value.isoformat()
