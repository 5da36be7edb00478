from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from calendars.domain.errors import InvalidField
from calendars.domain.zones import EPOCH, load_zone, to_instant, to_seconds, zone_names


def seconds(text: str) -> int:
    return to_seconds(datetime.fromisoformat(text))


def test_the_zones_are_those_of_the_pinned_package_whatever_the_host_has(monkeypatch):
    monkeypatch.setenv("PYTHONTZPATH", "/nowhere")
    assert load_zone("America/Asuncion").offset_at(seconds("2025-06-01T00:00Z")) == -3 * 3600  # tzdata 2024b and later
    assert len(zone_names()) > 500


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("Europe/Berln", "Europe/Berlin"),
        ("europe/vienna", "Europe/Vienna"),
        ("Vienna", "Europe/Vienna"),
        ("UTC+3", "fixed offset"),
        ("+02:00", "fixed offset"),
        ("", "Europe/Vienna"),
        ("CEST", "An abbreviation is not a zone"),
        ("cst", "An abbreviation is not a zone"),
        ("Rome", "Europe/Rome"),
        ("..", ""),
        ("../../etc/passwd", ""),
        ("Europe", ""),
        ("localtime", ""),
        ("right/UTC", ""),
        ("posix/UTC", ""),
        ("zone.tab", ""),
        ("Europe/Berlin\0", ""),
        ("Europe/Berlin/", ""),
        ("x" * 5000, "UTC"),
        (None, "needed"),
        (7, "needed"),
    ],
)
def test_any_other_name_is_refused_with_a_suggestion(name, hint):
    with pytest.raises(InvalidField) as refused:
        load_zone(name, field="zone")
    assert list(refused.value.fields) == ["zone"]
    assert hint in refused.value.message
    assert len(refused.value.message) < 250


@settings(max_examples=40, deadline=None)
@given(zone=st.sampled_from(sorted(zone_names())), year=st.integers(1950, 2100))
def test_the_spans_of_a_year_are_whole_and_constant_and_end_at_every_change(zone, year):
    zone = load_zone(zone)
    at, end = seconds(f"{year}-01-01T00:00Z"), seconds(f"{year + 1}-01-01T00:00Z")
    spans = []
    while at < end:
        spans.append(zone.span_at(at))
        at = spans[-1].end
    assert at == end
    changes = []
    for hour in range(seconds(f"{year}-01-01T00:00Z"), end, 6 * 3600):
        offset = to_instant(hour).astimezone(zone.info).utcoffset() // timedelta(seconds=1)
        assert zone.span_at(hour).offset == offset
        changes.append(offset)
    changes.append(zone.offset_at(end - 1))
    assert len(spans) - 1 == sum(a != b for a, b in pairwise(changes))
    for before, span in pairwise(spans):
        assert zone.offset_at(span.start - 1) == before.offset
        assert zone.offset_at(span.start) == span.offset != before.offset
        assert span.seen >= before.end + before.offset


@pytest.mark.parametrize(
    ("zone", "wall", "instant"),
    [
        ("Europe/Berlin", "2026-03-29T02:30", "2026-03-29T01:00Z"),  # in the gap: the first second after it
        ("Europe/Berlin", "2026-03-29T03:00", "2026-03-29T01:00Z"),
        ("Europe/Berlin", "2026-10-25T02:30", "2026-10-25T00:30Z"),  # twice: the first
        ("Europe/Berlin", "2026-10-25T03:00", "2026-10-25T02:00Z"),
        ("Pacific/Apia", "2011-12-30T12:00", "2011-12-30T10:00Z"),
        ("Pacific/Kiritimati", "2026-01-01T00:00", "2025-12-31T10:00Z"),
        ("Etc/GMT+12", "2026-01-01T00:00", "2026-01-01T12:00Z"),
    ],
)
def test_a_wall_time_becomes_one_instant(zone, wall, instant):
    walls = (datetime.fromisoformat(wall).replace(tzinfo=UTC) - EPOCH) // timedelta(seconds=1)
    assert to_instant(load_zone(zone).to_utc(walls)) == datetime.fromisoformat(instant)
