"""Calendars are written by their services only: all or nothing, each refusal by its field."""

from __future__ import annotations

from datetime import date, time, timedelta

import pytest
from django.db import IntegrityError, transaction

from calendars.domain.errors import InvalidField
from calendars.domain.rules import CalendarSpec, parse_rule
from calendars.models import Calendar, CalendarRule
from calendars.queries.specs import calendar_named, calendar_spec
from calendars.services import delete_calendar, save_calendar
from croniq_site.kernel.errors import Conflict, NotFound
from runners.models import AuditEvent
from runners.services.audit import Actor
from tests.factories import CalendarFactory, CalendarRuleFactory

pytestmark = pytest.mark.django_db
ANNA = Actor("user", "anna")
RULES = [
    {"effect": "include", "name": "week", "weekdays": ["MON", 2], "window_start": "08:00", "window_end": "18:00"},
    {"effect": "exclude", "holiday_country": "AT", "holiday_categories": ["public", "bank"]},
    {"effect": "exclude", "dates": ["2026-12-24"], "range_start": "2026-01-01", "yearly_dates": ["12-24"]},
]


def test_what_is_saved_is_what_the_pure_rules_read(now):
    saved = save_calendar({"name": "office", "timezone": "Europe/Vienna", "rules": RULES}, now, actor=ANNA)
    assert saved.created
    assert calendar_spec(calendar_named("office")) == CalendarSpec("Europe/Vienna", tuple(map(parse_rule, RULES)))
    week = saved.calendar.rules.first()
    assert (week.weekdays, week.window_start, week.position) == ([1, 2], time(8), 0)
    assert saved.calendar.rules.last().range_start == date(2026, 1, 1)
    event = AuditEvent.objects.get()
    assert (event.action, event.actor_id, event.target_id) == ("calendar.created", "anna", "office")


def test_a_change_replaces_what_it_names_and_leaves_the_rest(now):
    calendar = save_calendar({"name": "office", "timezone": "UTC", "rules": RULES}, now).calendar
    later = now + timedelta(hours=1)
    saved = save_calendar({"description": "ours", "name": "bureau"}, later, calendar=calendar)
    assert (saved.created, saved.fires_may_change) == (False, False)
    saved = save_calendar({"rules": RULES[:1]}, later, calendar=calendar)
    assert saved.fires_may_change
    assert save_calendar({"timezone": "Asia/Tokyo"}, later, calendar=calendar).fires_may_change
    row = Calendar.objects.get()
    assert (row.name, row.description, row.timezone, row.rules.count()) == ("bureau", "ours", "Asia/Tokyo", 1)
    assert (row.created_at, row.updated_at) == (now, later)


def test_saving_what_is_there_already_writes_nothing(now):
    values = {"name": "office", "timezone": "UTC", "rules": RULES}
    calendar = save_calendar(values, now).calendar
    ids = list(calendar.rules.values_list("id", flat=True))
    saved = save_calendar(values, now + timedelta(hours=1), calendar=calendar)
    assert not saved.fires_may_change
    assert list(calendar.rules.values_list("id", flat=True)) == ids
    assert Calendar.objects.get().updated_at == now
    assert AuditEvent.objects.count() == 1


@pytest.mark.parametrize(
    ("values", "field"),
    [
        ({"name": ""}, "name"),
        ({"name": " a"}, "name"),
        ({"name": "a\0"}, "name"),
        ({"name": "x" * 256}, "name"),
        ({"name": None}, "name"),
        ({"timezone": "Europe/Berln"}, "timezone"),
        ({"timezone": None}, "timezone"),
        ({"description": 5}, "description"),
        ({"description": "x" * 10_001}, "description"),
        ({"color": "red"}, "color"),
        ({"rules": {"effect": "include"}}, "rules"),
        ({"rules": ["weekdays"]}, "rules.0"),
        (
            {"rules": [{"effect": "include", "weekdays": [1]}, {"effect": "include", "weekdays": [8]}]},
            "rules.1.weekdays",
        ),
        ({"rules": [{"effect": "exclude", "holiday_country": "ZZ"}]}, "rules.0.holiday_country"),
        ({"rules": [{"effect": "include"}]}, "rules.0.effect"),
        ({"rules": [{"effect": "include", "weekdays": [1]}] * 201}, "rules"),
    ],
)
def test_a_refusal_names_the_field_and_nothing_is_written(now, values, field):
    with pytest.raises(InvalidField) as refused:
        save_calendar({"name": "office", "timezone": "UTC"} | values, now)
    assert list(refused.value.fields) == [field]
    assert not Calendar.objects.exists()


def test_a_new_calendar_needs_its_name_and_zone(now):
    for values, field in (({"timezone": "UTC"}, "name"), ({"name": "office"}, "timezone")):
        with pytest.raises(InvalidField) as refused:
            save_calendar(values, now)
        assert refused.value.field == field


def test_a_name_is_taken_once_in_a_tenant(now):
    first = save_calendar({"name": "office", "timezone": "UTC"}, now).calendar
    save_calendar({"name": "office", "timezone": "UTC"}, now, tenant="other")
    second = save_calendar({"name": "shop", "timezone": "UTC"}, now).calendar
    for make in (
        lambda: save_calendar({"name": "office", "timezone": "UTC", "rules": RULES}, now),
        lambda: save_calendar({"name": "office"}, now, calendar=second),
    ):
        with pytest.raises(Conflict) as refused:
            make()
        assert refused.value.code == "calendar_exists"
    assert calendar_named("office") == first
    assert CalendarRule.objects.count() == 0


def test_a_used_calendar_is_not_deleted_and_an_unused_one_goes_with_its_rules(now):
    calendar = save_calendar({"name": "office", "timezone": "UTC", "rules": RULES}, now).calendar
    with pytest.raises(Conflict, match=r"used by a:1, a:2") as refused:
        delete_calendar(calendar, now, users=["a:2", "a:1"])
    assert refused.value.code == "calendar_in_use"
    delete_calendar(calendar, now)
    assert not Calendar.objects.exists()
    assert not CalendarRule.objects.exists()
    for late in (lambda: delete_calendar(calendar, now), lambda: save_calendar({"name": "x"}, now, calendar=calendar)):
        with pytest.raises(NotFound):
            late()


def test_a_bad_row_is_named_with_its_calendar_and_rule(now):
    calendar = CalendarFactory(name="office")
    CalendarRuleFactory(calendar=calendar, weekdays=[1])
    CalendarRuleFactory(calendar=calendar, position=1, weekdays=[9])
    with pytest.raises(InvalidField, match=r"'office', rule 2, weekdays: "):
        calendar_spec(calendar)
    Calendar.objects.update(timezone="Nowhere")
    calendar.refresh_from_db()
    with pytest.raises(InvalidField):
        calendar_spec(calendar)


def test_the_rules_of_a_calendar_cost_one_query(now, django_assert_num_queries):
    save_calendar({"name": "office", "timezone": "UTC", "rules": RULES}, now)
    with django_assert_num_queries(2):
        calendar = calendar_named("office")
    with django_assert_num_queries(0):
        assert len(calendar_spec(calendar).rules) == 3


def test_the_database_refuses_a_second_calendar_of_a_name_and_an_unknown_effect(now):
    calendar = CalendarFactory(name="office")
    for break_it in (
        lambda: CalendarFactory(name="office"),
        lambda: CalendarRuleFactory(calendar=calendar, effect="maybe"),
        lambda: CalendarRuleFactory(calendar=calendar, window_start=time(8)),
        lambda: CalendarRuleFactory(calendar=calendar, range_start=date(2026, 2, 1), range_end=date(2026, 1, 1)),
    ):
        with pytest.raises(IntegrityError), transaction.atomic():
            break_it()
