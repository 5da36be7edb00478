"""Calendars as rows, read into what the pure rules understand."""

from __future__ import annotations

from calendars.domain.errors import InvalidField
from calendars.domain.rules import CalendarSpec, parse_rule
from calendars.models import Calendar, CalendarRule

RULE_COLUMNS = (
    "effect",
    "name",
    "weekdays",
    "month_days",
    "yearly_dates",
    "dates",
    "range_start",
    "range_end",
    "window_start",
    "window_end",
    "holiday_country",
    "holiday_subdivision",
    "holiday_categories",
    "holiday_observed",
)


def rule_values(rule: CalendarRule) -> dict[str, object]:
    """The columns of a rule by name, as `parse_rule` takes them."""
    return {column: getattr(rule, column) for column in RULE_COLUMNS}


def calendar_spec(calendar: Calendar) -> CalendarSpec:
    """The calendar's rules; one query, none if they are prefetched.

    Refuses a row that was written past the services and is nonsense, naming the calendar, the rule and its field.
    """
    rules = []
    for number, rule in enumerate(calendar.rules.all()):
        try:
            rules.append(parse_rule(rule_values(rule)))
        except InvalidField as refused:
            message = f"Calendar {calendar.name!r}, rule {number + 1}, {refused.field}: {refused.message}"
            raise InvalidField(f"rules.{number}.{refused.field}", message) from refused
    return CalendarSpec(calendar.timezone, tuple(rules))


def calendar_named(name: str, *, tenant: str = "default") -> Calendar | None:
    """The calendar of that name, with its rules."""
    return Calendar.objects.prefetch_related("rules").filter(tenant=tenant, name=name).first()
