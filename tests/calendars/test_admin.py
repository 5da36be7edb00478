"""Calendars in the admin: rules as rows, each refusal at its field, saved through the services."""

from __future__ import annotations

import pytest
from django.urls import reverse

from calendars.models import Calendar
from calendars.services import save_calendar
from runners.models import AuditEvent
from tests.factories import TriggerFactory

pytestmark = pytest.mark.django_db
ADD = reverse("admin:calendars_calendar_add")
LIST = reverse("admin:calendars_calendar_changelist")


def form(*rules: dict, initial: int = 0, **values: str) -> dict[str, object]:
    data = {"name": "office", "timezone": "Europe/Vienna", "description": "", **values}
    data |= {"rules-TOTAL_FORMS": len(rules), "rules-INITIAL_FORMS": initial}
    blank = dict.fromkeys(("name", "month_days", "yearly_dates", "dates", "holiday_categories"), "")
    for number, rule in enumerate(rules):
        shown = {"effect": "include", "holiday_observed": "on", **blank, **rule}
        data |= {f"rules-{number}-{name}": value for name, value in shown.items()}
    return data


def test_a_calendar_is_made_with_its_rules(admin_client):
    week = {"weekdays": ["1", "2"], "window_start": "08:00", "window_end": "18:00"}
    off = {"effect": "exclude", "dates": "2026-12-24, 2026-12-31", "month_days": "1 -1", "holiday_country": "AT"}
    answer = admin_client.post(ADD, form(week, off))
    assert answer.status_code == 302, answer.context["errors"]
    first, second = Calendar.objects.get().rules.all()
    assert (first.weekdays, first.position) == ([1, 2], 0)
    assert (second.dates, second.month_days, second.holiday_country) == (["2026-12-24", "2026-12-31"], [-1, 1], "AT")
    event = AuditEvent.objects.get(action="calendar.created")
    assert (event.actor_type, event.actor_id) == ("user", "admin")


def test_a_calendar_is_changed_and_a_rule_taken_away(admin_client, now):
    rules = [{"effect": "include", "weekdays": [1]}, {"effect": "exclude", "dates": ["2026-12-24"]}]
    calendar = save_calendar({"name": "office", "timezone": "UTC", "rules": rules}, now).calendar
    page = reverse("admin:calendars_calendar_change", args=[calendar.pk])
    assert b"2026-12-24" in admin_client.get(page).content
    ids = [str(rule.pk) for rule in calendar.rules.all()]
    data = form(
        {"id": ids[0], "calendar": calendar.pk, "weekdays": ["1"], "DELETE": "on"},
        {"id": ids[1], "calendar": calendar.pk, "effect": "exclude", "dates": "2026-12-24"},
        {"effect": "exclude", "dates": "2026-12-31"},
        initial=2,
    )
    answer = admin_client.post(page, data)
    assert answer.status_code == 302, answer.context["errors"]
    calendar.refresh_from_db()
    assert calendar.timezone == "Europe/Vienna"
    assert [rule.dates for rule in calendar.rules.all()] == [["2026-12-24"], ["2026-12-31"]]


@pytest.mark.parametrize(
    ("rule", "values", "said"),
    [
        ({"weekdays": ["1"]}, {"timezone": "Europe/Berln"}, "Europe/Berlin"),
        ({"weekdays": ["1"]}, {"name": "a\u202eb"}, "printable"),
        ({"dates": "2026-02-30"}, {}, "A date is written YYYY-MM-DD"),
        ({"month_days": "32"}, {}, "A month day is 1 to 31"),
        ({"holiday_country": "de"}, {}, "DE"),
        ({"holiday_country": "DE", "holiday_subdivision": "XX"}, {}, "no subdivision"),
        ({"window_start": "08:00"}, {}, "A window needs"),
        ({"name": "empty"}, {}, "at least one condition"),
    ],
)
def test_a_refusal_is_shown_on_the_page_and_nothing_is_saved(admin_client, rule, values, said):
    answer = admin_client.post(ADD, form(rule, **values))
    assert answer.status_code == 200
    assert said in answer.content.decode()
    assert not Calendar.objects.exists()


def test_a_taken_name_is_a_message_at_the_name(admin_client, now):
    save_calendar({"name": "office", "timezone": "UTC"}, now)
    answer = admin_client.post(ADD, form({"weekdays": ["1"]}))
    assert "of that name already" in answer.content.decode()
    assert Calendar.objects.count() == 1


def test_a_calendar_in_use_is_not_deleted_and_an_unused_one_is(admin_client, now):
    used = save_calendar({"name": "used", "timezone": "UTC"}, now).calendar
    free = save_calendar(
        {"name": "free", "timezone": "UTC", "rules": [{"effect": "include", "weekdays": [1]}]}, now
    ).calendar
    TriggerFactory(calendar=used, job__job_key="ops:backup")
    for calendar in (used, free):
        admin_client.post(reverse("admin:calendars_calendar_delete", args=[calendar.pk]), {"post": "yes"})
    assert list(Calendar.objects.values_list("name", flat=True)) == ["used"]
    assert AuditEvent.objects.filter(action="calendar.deleted", target_id="free").exists()
    answer = admin_client.post(
        LIST, {"action": "delete_selected", "_selected_action": [used.pk], "post": "yes"}, follow=True
    )
    assert Calendar.objects.filter(pk=used.pk).exists()
    assert answer.status_code == 200


def test_a_calendar_that_somebody_deleted_meanwhile_is_a_message(admin_client, now, monkeypatch):
    calendar = save_calendar({"name": "office", "timezone": "UTC"}, now).calendar
    page = reverse("admin:calendars_calendar_change", args=[calendar.pk])

    def deleted_first(model_admin, *arguments, **options):
        Calendar.objects.all().delete()
        return original(model_admin, *arguments, **options)

    from scheduler.admin.calendars import PlanningCalendarAdmin

    original = PlanningCalendarAdmin.save_values
    monkeypatch.setattr(PlanningCalendarAdmin, "save_values", deleted_first)
    answer = admin_client.post(page, form({"weekdays": ["1"]}), follow=True)
    assert "any more" in answer.content.decode()


def test_the_list_of_rules_is_to_look_at(admin_client, now):
    save_calendar({"name": "office", "timezone": "UTC", "rules": [{"effect": "include", "weekdays": [1]}]}, now)
    rules = reverse("admin:calendars_calendarrule_changelist")
    assert b"office" in admin_client.get(rules).content
    assert admin_client.get(reverse("admin:calendars_calendarrule_add")).status_code == 403
