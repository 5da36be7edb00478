"""Calendars: which days are open, why, and what fires on them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from zoneinfo import ZoneInfo

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse

from calendars.domain.preview import DayPreview, DayState
from calendars.domain.reasons import NEVER_OPEN
from calendars.domain.rules import FIRST_DATE, LAST_DATE
from calendars.domain.zones import load_zone
from calendars.models import Calendar
from calendars.queries.lists import calendar_detail, calendar_list
from calendars.queries.preview import calendar_days
from calendars.queries.specs import calendar_spec
from croniq_site.kernel.errors import InvalidInput, NotFound
from scheduler.dashboard.pages import address, page, text_in
from scheduler.dashboard.sentences import said
from scheduler.dashboard.words import STATES
from scheduler.queries.calendar_days import PlannedDay, PlannedDays, job_counts, planned_days
from scheduler.queries.forecast_rows import Coming

PAGE_ROWS = 100
SHOWN_A_DAY = 5
TIMES_OF_A_JOB = 3
SHOWN_REASONS = 40
DAYS_OF_A_REASON = 6


@dataclass(frozen=True, slots=True)
class Line:
    """A calendar in the list. ``today``: None where its rows are nonsense (``error``)."""

    calendar: Calendar
    jobs: int
    rules: int
    today: DayPreview | None
    error: str


@dataclass(frozen=True, slots=True)
class Shown:
    """What a day lists of a job: times in the calendar's zone, and of blocked occurrences where they go."""

    job_key: str
    is_blocked: bool
    times: str
    moved_to: str


@dataclass(frozen=True, slots=True)
class Cell:
    day: PlannedDay
    shown: tuple[Shown, ...]
    more: bool
    is_today: bool
    is_past: bool

    @property
    def words(self) -> str:
        """The state with its reason, for a title: "closed: Christmas Day"."""
        state, reason = self.day.preview.state.value, self.day.preview.reason
        return f"{STATES[state]}: {said(reason)}" if reason else str(STATES[state])


@dataclass(frozen=True, slots=True)
class Month:
    """``weeks`` begin on Monday; a None is a day of another month."""

    first: date
    weeks: tuple[tuple[Cell | None, ...], ...]
    url: str


@page
def calendar_list_page(request: HttpRequest, now: datetime) -> HttpResponse:
    after = _place_in(request)
    calendars = calendar_list(limit=PAGE_ROWS + 1, after=after)
    more = ""
    if len(calendars) > PAGE_ROWS:
        last = calendars[PAGE_ROWS - 1]
        more = address("calendars", {"after": f"{last.pk},{last.name}"})
        calendars = calendars[:PAGE_ROWS]
    counts = job_counts([calendar.pk for calendar in calendars])
    lines = [_line(calendar, counts.get(calendar.pk, 0), now) for calendar in calendars]
    context = {"lines": lines, "more": more, "after": after, "may_add": request.user.has_perm("calendars.add_calendar")}
    return render(request, "dashboard/calendars.html", context)


@page
def calendar_page(request: HttpRequest, now: datetime, calendar_id: int) -> HttpResponse:
    """One month, each day with its reason and what fires in it."""
    calendar = _calendar(calendar_id)
    context = _frame(request, calendar, "month")
    if not context["error"]:
        first = _month_in(request, calendar, now)
        planned = planned_days(calendar, first, _after(first, 1) - timedelta(days=1), now, lists=True)
        (month,) = _months(calendar, planned, now)
        context |= {"month": month, "planned": planned, **_around(calendar, "calendar", first, 1)}
    return render(request, "dashboard/calendar.html", context)


@page
def calendar_year_page(request: HttpRequest, now: datetime, calendar_id: int) -> HttpResponse:
    """Twelve months: which days are open, on which something fires, and what closes the others."""
    calendar = _calendar(calendar_id)
    context = _frame(request, calendar, "year")
    if not context["error"]:
        first = _month_in(request, calendar, now)
        planned = planned_days(calendar, first, _after(first, 12) - timedelta(days=1), now, lists=False)
        context |= {
            "months": _months(calendar, planned, now),
            "planned": planned,
            "reasons": _reasons(planned),
            **_around(calendar, "calendar-year", first, 12),
        }
    return render(request, "dashboard/calendar_year.html", context)


def coming_year(calendar: Calendar, now: datetime) -> list[Month]:
    """The twelve months from this one on, as `_small_months.html` shows them. Raises InvalidInput for broken rules."""
    first = now.astimezone(load_zone(calendar.timezone).info).date().replace(day=1)
    return _months(
        calendar, planned_days(calendar, first, _after(first, 12) - timedelta(days=1), now, lists=False), now
    )


def _line(calendar: Calendar, jobs: int, now: datetime) -> Line:
    try:
        day = now.astimezone(load_zone(calendar.timezone).info).date()
        (today,) = calendar_days(calendar, day, day)
        error = ""
    except InvalidInput as refused:
        today, error = None, refused.message
    return Line(calendar, jobs, len(calendar.rules.all()), today, error)


def _calendar(calendar_id: int) -> Calendar:
    calendar = calendar_detail(calendar_id)
    if calendar is None:
        raise NotFound("There is no such calendar.")
    return calendar


def _frame(request: HttpRequest, calendar: Calendar, view: str) -> dict[str, object]:
    """What both views of a calendar show. ``error``: why its rows are nonsense; its triggers stand still."""
    try:
        calendar_spec(calendar)
        error = ""
    except InvalidInput as refused:
        error = refused.message
    may_edit = request.user.is_staff and request.user.has_perm("calendars.change_calendar")
    edit = reverse("admin:calendars_calendar_change", args=[calendar.pk]) if may_edit else ""
    month = request.GET.get("month", "") if not error else ""
    return {
        "calendar": calendar,
        "error": error,
        "edit": edit,
        "view": view,
        "month_url": address("calendar", {"month": month}, calendar_id=calendar.pk),
        "year_url": address("calendar-year", {"month": month}, calendar_id=calendar.pk),
    }


def _month_in(request: HttpRequest, calendar: Calendar, now: datetime) -> date:
    """The first day of the month that the address names; without one this month, by the calendar's zone."""
    text = text_in(request, "month")
    if not text:
        return now.astimezone(load_zone(calendar.timezone).info).date().replace(day=1)
    match = re.fullmatch(r"(\d{4})-(\d\d)", text, re.ASCII)
    if match is None or not 1 <= int(match[2]) <= 12 or not FIRST_DATE.year < int(match[1]) < LAST_DATE.year - 1:
        raise InvalidInput.of("month", "A month is written YYYY-MM, such as 2026-12.")
    return date(int(match[1]), int(match[2]), 1)


def _around(calendar: Calendar, name: str, first: date, months: int) -> dict[str, object]:
    def url(day: date) -> str:
        return address(name, {"month": f"{day:%Y-%m}"}, calendar_id=calendar.pk)

    return {"first": first, "earlier": url(_after(first, -months)), "later": url(_after(first, months))}


def _after(first: date, months: int) -> date:
    number = first.year * 12 + first.month - 1 + months
    return date(number // 12, number % 12 + 1, 1)


def _months(calendar: Calendar, planned: PlannedDays, now: datetime) -> list[Month]:
    zone = ZoneInfo(calendar.timezone)
    today = now.astimezone(zone).date()
    months: dict[date, list[Cell | None]] = {}
    for day in planned.days:
        first = day.preview.day.replace(day=1)
        if first not in months:
            months[first] = [None] * first.weekday()
        months[first].append(_cell(day, zone, today))
    return [_month(calendar, first, cells) for first, cells in months.items()]


def _month(calendar: Calendar, first: date, cells: list[Cell | None]) -> Month:
    cells = cells + [None] * (-len(cells) % 7)
    weeks = tuple(tuple(cells[at : at + 7]) for at in range(0, len(cells), 7))
    return Month(first, weeks, address("calendar", {"month": f"{first:%Y-%m}"}, calendar_id=calendar.pk))


def _cell(day: PlannedDay, zone: ZoneInfo, today: date) -> Cell:
    by_job: dict[tuple[str, bool, str], list[Coming]] = {}
    for item in day.coming:
        by_job.setdefault((item.job_key, item.is_blocked, _moved(item, zone)), []).append(item)
    shown = tuple(
        Shown(job_key, is_blocked, _times(items, zone), moved_to)
        for (job_key, is_blocked, moved_to), items in list(by_job.items())[:SHOWN_A_DAY]
    )
    more = len(by_job) > SHOWN_A_DAY or day.fires + day.paused + day.blocked > len(day.coming)
    return Cell(day, shown, more, day.preview.day == today, day.preview.day < today)


def _times(items: list[Coming], zone: ZoneInfo) -> str:
    shown = ", ".join(f"{item.at.astimezone(zone):%H:%M}" for item in items[:TIMES_OF_A_JOB])
    return f"{shown} …" if len(items) > TIMES_OF_A_JOB else shown


def _moved(item: Coming, zone: ZoneInfo) -> str:
    if item.moved_to is None:
        return ""
    moved, at = item.moved_to.astimezone(zone), item.at.astimezone(zone)
    return f"{moved:%H:%M}" if moved.date() == at.date() else f"{moved.day} {moved:%b %H:%M}"


def _reasons(planned: PlannedDays) -> list[tuple[str, list[date], int]]:
    """What closes days, by the first of them: the reason, its first days, and how many more there are."""
    found: dict[str, list[date]] = {}
    for day in planned.days:
        if day.preview.state is not DayState.OPEN and day.preview.reason != NEVER_OPEN:
            found.setdefault(day.preview.reason, []).append(day.preview.day)
    listed = [(reason, days[:DAYS_OF_A_REASON], max(0, len(days) - DAYS_OF_A_REASON)) for reason, days in found.items()]
    return listed[:SHOWN_REASONS]


def _place_in(request: HttpRequest) -> tuple[str, int] | None:
    number, _, name = text_in(request, "after").partition(",")
    if not number:
        return None
    if not (number.isascii() and number.isdigit() and len(number) <= 18):
        raise InvalidInput.of("after", "This is no place in the list; begin at its top.")
    return name, int(number)
