"""Why a calendar is open or closed, in words."""

from __future__ import annotations

from datetime import date, timedelta

from calendars.domain import holiday_days
from calendars.domain.rules import WEEKDAYS, Rule

NEVER_OPEN = "outside of the open times"


def holiday_name(rule: Rule, day: date) -> str:
    """The name of the holiday that makes ``rule`` match on a day; "" if holidays are none of its conditions."""
    of = rule.holidays
    if of is None:
        return ""
    # With a window over midnight it is the day before whose holiday it is.
    for of_day in (day, day - timedelta(days=1)):
        names = holiday_days.named_days(of.country, of.subdivision, of.categories, of.observed, of_day.year)
        if of_day in names:
            return names[of_day]
    return ""


def rule_words(rule: Rule) -> str:
    """The rule's name, or its conditions where it has none."""
    if rule.name:
        return rule.name
    said = []
    if rule.weekdays:
        said.append(" ".join(WEEKDAYS[number - 1].title() for number in sorted(rule.weekdays)))
    if rule.month_days:
        said.append("days " + ", ".join(map(str, sorted(rule.month_days))) + " of the month")
    if rule.yearly_dates:
        said.append(_some([f"{month:02d}-{day:02d}" for month, day in sorted(rule.yearly_dates)]))
    if rule.dates:
        said.append(_some([day.isoformat() for day in sorted(rule.dates)]))
    if rule.date_range is not None:
        said.append(" to ".join("…" if day is None else day.isoformat() for day in rule.date_range))
    if rule.holidays is not None:
        of = rule.holidays
        said.append(f"holidays of {of.country}" + (f"-{of.subdivision}" if of.subdivision else ""))
    if rule.window is not None:
        said.append(f"{rule.window[0]:%H:%M} to {rule.window[1]:%H:%M}")
    return ", ".join(said)


def _some(texts: list[str]) -> str:
    return ", ".join(texts[:3]) + (f" and {len(texts) - 3} more" if len(texts) > 3 else "")
