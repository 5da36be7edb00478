"""Make, change and delete calendars.

These know nothing of jobs: who edits a calendar that triggers use goes through the scheduler's services, which plan the
jobs again in the same transaction.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, time

from django.db import IntegrityError
from django.db.models import ProtectedError

from calendars.domain.errors import InvalidField
from calendars.domain.rules import MOST_RULES, parse_rule
from calendars.domain.zones import load_zone
from calendars.models import Calendar, CalendarRule
from calendars.queries.specs import RULE_COLUMNS, rule_values
from croniq_site.kernel.database import write_transaction
from croniq_site.kernel.errors import Conflict, NotFound
from croniq_site.kernel.text import cleaned, is_printable_name
from runners.domain.differences import difference, history_of
from runners.services.audit import SYSTEM, Actor, Event, Reverting, edit_event, record_events
from runners.services.file_managed import refuse_file_managed

LONGEST_DESCRIPTION = 10_000
FIELDS = ("name", "timezone", "description", "rules")


@dataclass(frozen=True, slots=True)
class SavedCalendar:
    """What a save did. ``fires_may_change``: its zone or its rules are not what they were."""

    calendar: Calendar
    created: bool
    fires_may_change: bool


def checked_calendar(values: Mapping[str, object]) -> dict[str, object]:
    """The values of a calendar, checked; ``rules`` becomes a list of rule rows' columns. Missing fields stay missing.

    Refuses, naming the field (a rule's as ``rules.0.weekdays``), what is unknown or out of bounds.
    """
    if unknown := sorted(str(name) for name in set(values) - set(FIELDS)):
        raise InvalidField(cleaned(unknown[0], 256), "A calendar has no such field.")
    checked: dict[str, object] = {}
    if "name" in values:
        if not isinstance(values["name"], str) or not is_printable_name(values["name"]):
            raise InvalidField("name", "A name has 1 to 255 printable characters, without a space at its ends.")
        checked["name"] = values["name"]
    if "timezone" in values:
        checked["timezone"] = load_zone(values["timezone"]).name
    if "description" in values:
        description = "" if values["description"] is None else values["description"]
        if not isinstance(description, str) or len(description) > LONGEST_DESCRIPTION:
            raise InvalidField("description", f"This must be a text of at most {LONGEST_DESCRIPTION} characters.")
        checked["description"] = cleaned(description, 4 * LONGEST_DESCRIPTION)
    if "rules" in values:
        checked["rules"] = _checked_rules(values["rules"])
    return checked


def lock_calendar(calendar_id: int) -> Calendar | None:
    """Lock a calendar until the transaction ends and return it as it is now, so that of two edits at one moment the
    second sees the first one's rules and not a mix. NO KEY: a row that refers to it may be inserted meanwhile."""
    return Calendar.objects.select_for_update(no_key=True).filter(pk=calendar_id).first()


def save_calendar(
    values: Mapping[str, object],
    now: datetime,
    *,
    actor: Actor = SYSTEM,
    tenant: str = "default",
    calendar: Calendar | None = None,
    managed_by: str = "api",
    reverting: Reverting | None = None,
) -> SavedCalendar:
    """Make a calendar of ``values``, or change ``calendar`` by them (what is missing stays as it is).

    ``rules``, if given, are all rules, in order. Refuses as `checked_calendar`, a name that is taken (`Conflict`
    ``calendar_exists``), a calendar deleted meanwhile (`NotFound`), one of a jobs file (`Conflict` ``file_managed``)
    unless ``managed_by``, which says who writes, is that file. A save that changes nothing writes nothing.
    ``reverting``: an earlier save is taken back, if the calendar is as that one left it.
    """
    checked = checked_calendar(values)
    if calendar is None:
        for name in ("name", "timezone"):
            if name not in checked:
                raise InvalidField(name, f"A calendar needs its {name}.")
    try:
        with write_transaction():
            if calendar is None:
                return _create(checked, now, actor, tenant, managed_by)
            return _change(calendar, checked, now, actor, managed_by, reverting)
    except IntegrityError:
        raise Conflict(f"There is a calendar named {checked.get('name')!r} already.", code="calendar_exists") from None


def delete_calendar(
    calendar: Calendar,
    now: datetime,
    *,
    actor: Actor = SYSTEM,
    users: Sequence[str] = (),
    managed_by: str = "api",
) -> None:
    """Delete a calendar that nobody uses.

    ``users``: the keys of the jobs that use it, which only the scheduler knows; with any it is refused (`Conflict`
    ``calendar_in_use``), naming them. A trigger bound to it in the same moment is protected by the database.
    """
    if users:
        some = ", ".join(sorted(users)[:10]) + (f" and {len(users) - 10} more" if len(users) > 10 else "")
        raise Conflict(f"Calendar {calendar.name!r} is used by {some}.", code="calendar_in_use")
    try:
        with write_transaction():
            row = lock_calendar(calendar.pk)
            if row is not None:
                refuse_file_managed("calendar", row.name, row.managed_by, row.tenant, by=managed_by)
            diff = {} if row is None else difference(calendar_definition(row), {})
            deleted, _ = Calendar.objects.filter(pk=calendar.pk).delete()
            if deleted == 0:
                raise NotFound(f"There is no calendar {calendar.name!r} any more.")
            record_events([_event("calendar.deleted", calendar, actor, diff)], now)
    except (ProtectedError, IntegrityError):
        raise Conflict(f"Calendar {calendar.name!r} is used by a job.", code="calendar_in_use") from None


def _checked_rules(rules: object) -> list[dict[str, object]]:
    if rules is None:
        return []
    if not isinstance(rules, (list, tuple)):
        raise InvalidField("rules", "This must be a list of rules.")
    if len(rules) > MOST_RULES:
        raise InvalidField("rules", f"A calendar may have {MOST_RULES} rules at most; this one has {len(rules)}.")
    rows = []
    for number, values in enumerate(rules):
        if not isinstance(values, Mapping):
            raise InvalidField(f"rules.{number}", "A rule is an object.")
        try:
            rule = parse_rule(values)
        except InvalidField as refused:
            raise InvalidField(f"rules.{number}.{refused.field}", refused.message) from refused
        start, end = rule.date_range or (None, None)
        opens, closes = rule.window or (None, None)
        of = rule.holidays
        rows.append(
            {
                "effect": rule.effect.value,
                "name": rule.name,
                "weekdays": sorted(rule.weekdays),
                "month_days": sorted(rule.month_days),
                "yearly_dates": [f"{month:02d}-{day:02d}" for month, day in sorted(rule.yearly_dates)],
                "dates": [day.isoformat() for day in sorted(rule.dates)],
                "range_start": start,
                "range_end": end,
                "window_start": opens,
                "window_end": closes,
                "holiday_country": of.country if of else "",
                "holiday_subdivision": of.subdivision if of else "",
                "holiday_categories": list(of.categories) if of else [],
                "holiday_observed": of.observed if of else True,
            }
        )
    return rows


def _create(checked: dict[str, object], now: datetime, actor: Actor, tenant: str, managed_by: str) -> SavedCalendar:
    columns = {name: value for name, value in checked.items() if name != "rules"}
    calendar = Calendar.objects.create(tenant=tenant, managed_by=managed_by, created_at=now, updated_at=now, **columns)
    _replace_rules(calendar, checked.get("rules", []))
    record_events([_event("calendar.created", calendar, actor, difference({}, calendar_definition(calendar)))], now)
    return SavedCalendar(calendar, created=True, fires_may_change=True)


def _change(
    calendar: Calendar,
    checked: dict[str, object],
    now: datetime,
    actor: Actor,
    managed_by: str,
    reverting: Reverting | None,
) -> SavedCalendar:
    row = lock_calendar(calendar.pk)
    if row is None:
        raise NotFound(f"There is no calendar {calendar.name!r} any more.")
    refuse_file_managed("calendar", row.name, row.managed_by, row.tenant, by=managed_by)
    before = calendar_definition(row)
    if reverting is not None:
        reverting.check(before)
    diff = difference(before, {**before, **{name: _plain(value) for name, value in checked.items()}})
    if not diff:
        return SavedCalendar(row, created=False, fires_may_change=False)
    for name in diff:
        if name != "rules":
            setattr(row, name, checked[name])
    row.updated_at = now
    row.save(update_fields=["name", "timezone", "description", "updated_at"])
    if "rules" in diff:
        _replace_rules(row, checked["rules"])
    history = history_of("calendar", row.pk)
    record_events([edit_event("calendar", row.name, actor, row.tenant, diff, history, reverting)], now)
    return SavedCalendar(row, created=False, fires_may_change="rules" in diff or "timezone" in diff)


def _replace_rules(calendar: Calendar, rows: Sequence[Mapping[str, object]]) -> None:
    calendar.rules.all().delete()
    CalendarRule.objects.bulk_create(
        CalendarRule(calendar=calendar, position=position, **{name: row[name] for name in RULE_COLUMNS})
        for position, row in enumerate(rows)
    )


def calendar_definition(calendar: Calendar) -> dict[str, object]:
    """What an edit of the calendar may set, as JSON holds it; one query for the rules."""
    rules = [_plain(rule_values(rule)) for rule in calendar.rules.all()]
    return {
        "name": calendar.name,
        "timezone": calendar.timezone,
        "description": calendar.description,
        "rules": rules,
    }


def _plain(value: object) -> object:
    """The value as JSON holds it, for the audit."""
    if isinstance(value, list):
        return [_plain(item) for item in value]
    if isinstance(value, dict):
        return {name: _plain(item) for name, item in value.items()}
    return value.isoformat() if isinstance(value, (date, time)) else value


def _event(action: str, calendar: Calendar, actor: Actor, diff: dict) -> Event:
    history = history_of("calendar", calendar.pk)
    return Event(action, "calendar", calendar.name, actor, calendar.tenant, diff, history)
