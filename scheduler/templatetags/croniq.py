"""How pages show instants, durations and states: each in one way everywhere."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Literal

from django import template
from django.template import Context
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _

from scheduler.dashboard.times import short_text, since_element, time_element, viewers_zone, wire_text
from scheduler.dashboard.typed_times import ZONE, field_text
from scheduler.dashboard.words import (
    choice_words,
    lane_words,
    missed_words,
    number_words,
    reason_words,
    source_words,
    state_words,
    wait_words,
)

register = template.Library()
for words in (reason_words, source_words, missed_words, choice_words, lane_words, wait_words):
    register.filter(words)


@register.simple_tag(takes_context=True)
def instant(context: Context, value: datetime | None, zone: str = "", relative: bool | str = False) -> str | SafeString:
    """Show an instant: in the viewer's zone (his own, else his browser's, else UTC); ``zone``, the job's, on hover.

    ``relative``: the script adds how far away it is ("in 8 s", "8 s ago"); "due" for what is to come, which is "due
    now" then. None is a dash.
    """
    return "–" if value is None else time_element(value, zone, _viewers_zone(context), relative)


@register.inclusion_tag("dashboard/_time_field.html", takes_context=True)
def time_field(
    context: Context,
    name: str,
    label: str,
    value: datetime | str | None = None,
    *,
    id: str = "",
    wrong: str = "",
    hint: str = "",
    within: bool = False,
    required: bool = False,
    step: int = 60,
    zone_said: bool = False,
) -> dict[str, object]:
    """A field in which a time is typed, read by `typed_times.time_in`; beside its label the zone of its clock: the
    viewer's. The script puts the browser's in where he has chosen none.

    ``value``: an instant, or the text that was refused (``wrong`` says why). ``within``: the label is around the field.
    ``zone_said``: another field of the form has said the zone.
    """
    request = context["request"]
    own = viewers_zone(request.user)
    text, zone, is_guessed = "", own, not own
    if isinstance(value, str):
        said_zone = (request.POST if request.method == "POST" else request.GET).get(ZONE, "")[:64]
        text, zone, is_guessed = value, said_zone or own, is_guessed and not (said_zone and value)
    elif value is not None:
        text = field_text(value, own)
    return {
        "name": name,
        "label": label,
        "id": id or name,
        "text": text,
        "at": wire_text(value) if is_guessed and isinstance(value, datetime) else "",
        "zone": zone or "UTC",
        "zone_name": "" if zone_said else ZONE,
        "is_guessed": is_guessed,
        "wrong": wrong,
        "hint": hint,
        "within": within,
        "required": required,
        "step": 1 if step == 1 or len(text) > len("2026-12-24T18:00") else step,
    }


@register.simple_tag(takes_context=True)
def viewer_zone(context: Context) -> str:
    """The zone that the viewer has chosen; empty: his browser's."""
    return _viewers_zone(context)


@register.simple_tag(takes_context=True)
def at(context: Context, value: datetime, pattern: str = "") -> str:
    """Say an instant within a text, in a drawing's title for example: in the zone that the viewer has chosen, else in
    UTC, with the offset."""
    return short_text(value, _viewers_zone(context), pattern)


@register.simple_tag
def countdown(value: datetime, now: datetime) -> SafeString:
    """Show how far away the instant of something to come is, counted on by the page's script."""
    seconds = (value - now).total_seconds()
    if seconds >= 1:
        words = _("in {length}").format(length=duration(round(seconds)))
    else:
        words = _("due now") if seconds > -60 else _("due {length} ago").format(length=duration(round(-seconds)))
    return format_html('<span class="away" data-away="{}" data-due>{}</span>', wire_text(value), words)


@register.simple_tag(takes_context=True)
def since(context: Context, value: datetime | None) -> str | SafeString:
    """Show how long ago something began, counted on by the page's script; without it when it began."""
    return "–" if value is None else since_element(value, _viewers_zone(context))


def _viewers_zone(context: Context) -> str:
    return viewers_zone(getattr(context.get("request"), "user", None))


@register.simple_tag
def state(name: str) -> SafeString:
    """Show a state as a word; its colour only repeats it."""
    return format_html('<span class="state state-{}">{}</span>', name, state_words(name))


@register.simple_tag
def day_state(name: str) -> SafeString:
    """Show whether a day is open; its colour only repeats the word."""
    return format_html('<span class="state state-{}">{}</span>', name, state_words(name))


_IN_MENU = ("alert", "letter", "missed", "calendar", "budgets", "runner", "audit", "settings")


@register.filter
def of(values: Mapping[str, str] | str, key: str) -> str:
    """What a mapping says of a key; empty if nothing, or if there is no mapping."""
    return values.get(key, "") if isinstance(values, Mapping) else ""


@register.filter
def begins_with(name: str | None, start: str) -> bool:
    return (name or "").startswith(start)


@register.filter
def is_in_menu(name: str | None) -> bool:
    """Whether the page of this name is one of those behind "More"."""
    return (name or "").startswith(_IN_MENU)


@register.filter
def state_word(name: str) -> str:
    return state_words(name)


@register.filter
def duration(seconds: float | Literal[""] | None) -> str:
    """A duration as a person says it: "0.25 s", "12.3 s", "3 min 20 s", "2 h 5 min", "4 d 3 h"; None is a dash, and so
    is "", which is what a template finds beyond a None (`wait.total_seconds`)."""
    if seconds is None or seconds == "":
        return "–"
    if seconds < 60:
        return (
            number_words(seconds, ".0f") + " s"
            if seconds == int(seconds)
            else number_words(seconds, ".2f") + " s"
            if seconds < 10
            else number_words(seconds, ".1f") + " s"
        )
    whole = round(seconds)
    for size, unit, smaller_size, smaller in ((86_400, "d", 3600, "h"), (3600, "h", 60, "min"), (60, "min", 1, "s")):
        if whole >= size:
            rest = whole % size // smaller_size
            return f"{whole // size} {unit} {rest} {smaller}" if rest else f"{whole // size} {unit}"
    raise AssertionError("unreachable")


@register.filter
def duration_ms(milliseconds: int | None) -> str:
    if milliseconds is None:
        return "–"
    return f"{milliseconds} ms" if milliseconds < 1000 else duration(milliseconds / 1000)
