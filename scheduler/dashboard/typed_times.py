"""How pages read the times that people type: on the clock of the zone that the form names, which is the one in which
its pages tell times. One field (`time_field`), one reader."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from django.contrib import messages
from django.http import HttpRequest
from django.utils.translation import gettext as _

from calendars.domain.zones import load_zone, to_instant, to_seconds
from croniq_site.kernel.errors import InvalidInput
from croniq_site.kernel.text import cleaned
from scheduler.dashboard.times import offset_name, viewers_zone

ZONE = "zone"
"""The field of a form, or of an address, that says on whose clock its times are."""
_FIRST_YEAR, _LAST_YEAR = 1971, 9979
_LONGEST_ZONE = 64


@dataclass(frozen=True)
class TypedTime:
    """``note``: what was decided where the clock shows the time twice or never; empty where there was nothing to."""

    at: datetime
    note: str = ""


def read_time(field: str, text: str, zone: str = "") -> TypedTime | None:
    """An instant, UTC, from a date and a time on the clock of ``zone`` (empty: UTC), or from a text that says its own
    offset; None if it is empty.

    Of a time that the clock shows twice the first is meant; of one that it leaves out, the first moment after the gap.
    Raises InvalidInput ``field``, also of a zone that there is not.
    """
    text = text.strip()
    if not text:
        return None
    try:
        if len(text) <= len("2026-12-24"):
            raise ValueError
        value = datetime.fromisoformat(text)
    except ValueError:
        raise InvalidInput.of(field, _("Write a date and a time of day, such as 2026-12-24 18:00.")) from None
    if not _FIRST_YEAR <= value.year <= _LAST_YEAR:
        years = {"first": _FIRST_YEAR, "last": _LAST_YEAR}
        raise InvalidInput.of(field, _("The year lies between {first} and {last}.").format(**years))
    if value.tzinfo is not None:
        return TypedTime(value.astimezone(UTC))
    return _on_the_clock(field, value, zone)


def zone_of(request: HttpRequest, values: Mapping[str, Any]) -> str:
    """On whose clock the times of a form are: the one that it names, else the viewer's own; empty is UTC."""
    return cleaned(values.get(ZONE, ""), _LONGEST_ZONE) or viewers_zone(request.user)


def time_in(request: HttpRequest, values: Mapping[str, Any], name: str) -> datetime | None:
    """The instant that a form, or an address, says by the field ``name``; None if none. What had to be decided for it
    is told on the page that comes next."""
    typed = read_time(name, values.get(name, ""), zone_of(request, values))
    if typed is None:
        return None
    # A part that asks again and again has told it in its page.
    if typed.note and (request.method == "POST" or not request.htmx):
        messages.info(request, typed.note)
    return typed.at


def field_text(value: datetime, zone: str = "") -> str:
    """An instant as a field for date and time has it: whole minutes, or seconds where there are some."""
    local = value.astimezone(UTC if zone in ("", "UTC") else load_zone(zone).info)
    return f"{local:%Y-%m-%dT%H:%M:%S}" if local.second else f"{local:%Y-%m-%dT%H:%M}"


def _on_the_clock(field: str, wall: datetime, name: str) -> TypedTime:
    if name in ("", "UTC"):
        return TypedTime(wall.replace(tzinfo=UTC))
    zone = load_zone(name, field=field)
    at = to_instant(zone.to_utc(to_seconds(wall.replace(tzinfo=UTC))))
    if at.astimezone(zone.info).replace(tzinfo=None) != wall.replace(microsecond=0):
        words = _("The clocks of {zone} leave {time} out: {instant}, the first moment after it, is meant.")
    else:
        first = wall.replace(tzinfo=zone.info, fold=0).utcoffset()
        at = at.replace(microsecond=wall.microsecond)
        if first == wall.replace(tzinfo=zone.info, fold=1).utcoffset():
            return TypedTime(at)
        words = _("The clocks of {zone} show {time} twice: {instant}, the first of the two, is meant.")
    # On the clock that it is about, whatever the reader's own: pages tell an instant with seconds on the reader's.
    instant = f"{at.astimezone(zone.info):%Y-%m-%d %H:%M} {offset_name(at, name)}"
    return TypedTime(at, words.format(zone=name, time=f"{wall:%Y-%m-%d %H:%M}", instant=instant))
