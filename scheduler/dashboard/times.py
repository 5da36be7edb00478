"""How pages say instants: in the viewer's own zone, with the job's zone and UTC on hover. Two instants never have one
text: each is said with its offset, so that the two 02:30 of an autumn night differ."""

from __future__ import annotations

from datetime import UTC, date, datetime, tzinfo
from functools import lru_cache
from typing import Any

from django.utils.formats import date_format
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import get_language
from django.utils.translation import gettext as _

from calendars.domain.zones import load_zone, zone_names

_FULL = "%Y-%m-%d %H:%M:%S"


def viewers_zone(user: Any) -> str:
    """The zone that somebody has chosen for himself; empty if none, or if it is not a zone any more."""
    preferences = getattr(user, "preferences", None)
    return preferences.time_zone if preferences is not None and preferences.time_zone in zone_names() else ""


def time_element(value: datetime, zone: str = "", viewer: str = "", relative: bool | str = False) -> SafeString:
    """Return an instant as ``<time>``, said in the zone ``viewer`` (empty: UTC); on hover in the job's ``zone`` and in
    UTC. The page's script tells it in the browser's zone where ``viewer`` is empty, and shorter."""
    hover = [full_text(value)]
    if zone and zone != "UTC":
        hover.insert(0, f"{full_text(value, zone)} {zone}")
    return format_html(
        '<time datetime="{}" title="{}" data-instant{}>{}</time>',
        wire_text(value),
        "\n".join(hover),
        " data-relative=due" if relative == "due" else " data-relative" if relative else "",
        full_text(value, viewer),
    )


def since_element(value: datetime, viewer: str = "") -> SafeString:
    """Return since when something goes on; the page's script makes it "for how long", and counts on."""
    return format_html(
        '<time datetime="{}" title="{}" data-since>{}</time>',
        wire_text(value),
        _("since {instant}").format(instant=full_text(value)),
        _("since {instant}").format(instant=f"{_local(value, viewer):%H:%M:%S} {offset_name(value, viewer)}"),
    )


def wire_text(value: datetime) -> str:
    return f"{value.astimezone(UTC):%Y-%m-%dT%H:%M:%S.%f}Z"


def full_text(value: datetime, zone: str = "") -> str:
    """Return an instant in a zone (empty: UTC): "2026-10-25 02:30:00 +01:00", "2026-10-25 01:30:00 UTC"."""
    return f"{_local(value, zone):{_FULL}} {offset_name(value, zone)}"


def short_text(value: datetime, zone: str = "", pattern: str = "") -> str:
    """Return an instant for a drawing, in the viewer's language: "Sun 25 Oct 02:30:00 +01:00"."""
    local = _local(value, zone)
    said = date_format(local, pattern) if pattern else f"{_day_text(local.date(), get_language())} {local:%H:%M:%S}"
    return f"{said} {offset_name(value, zone)}"


@lru_cache(maxsize=1000)
def _day_text(day: date, language: str | None) -> str:
    """A day in the ``language`` that is in force. A page says two thousand instants of few days."""
    return date_format(day, "D j M")


def offset_name(value: datetime, zone: str = "") -> str:
    """Return the offset of a zone at an instant, "+05:45"; of UTC its name."""
    if zone in ("", "UTC"):
        return "UTC"
    text = f"{_local(value, zone):%z}"
    return f"{text[:3]}:{text[3:5]}"


def _local(value: datetime, zone: str) -> datetime:
    info: tzinfo = UTC if zone in ("", "UTC") else load_zone(zone).info
    return value.astimezone(info)
