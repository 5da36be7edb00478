"""How pages say instants, durations and levels."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from types import SimpleNamespace

import pytest
from django.utils.translation import override

from scheduler.templatetags.croniq import (
    at,
    countdown,
    duration,
    duration_ms,
    instant,
    reason_words,
    since,
    state,
)

AT = datetime(2026, 7, 1, 22, 30, 5, 250_000, tzinfo=UTC)


UTC_NIGHT = (datetime(2026, 10, 25, 0, 30, tzinfo=UTC), datetime(2026, 10, 25, 1, 30, tzinfo=UTC))
"""In Berlin both are 02:30."""


def seen_by(zone: str) -> dict[str, object]:
    """The context of a page of somebody who has chosen this zone."""
    return {"request": SimpleNamespace(user=SimpleNamespace(preferences=SimpleNamespace(time_zone=zone)))}


def test_an_instant_is_utc_without_script_and_has_the_jobs_zone_on_hover():
    shown = instant({}, AT, zone="Europe/Vienna")
    assert ">2026-07-01 22:30:05 UTC</time>" in shown
    assert 'datetime="2026-07-01T22:30:05.250000Z"' in shown
    assert 'title="2026-07-02 00:30:05 +02:00 Europe/Vienna\n2026-07-01 22:30:05 UTC"' in shown


def test_an_instant_of_another_offset_is_the_same_instant():
    assert instant({}, AT.astimezone(timezone(timedelta(hours=5)))) == instant({}, AT)


def test_whoever_has_chosen_a_zone_has_it_without_script():
    shown = instant(seen_by("Asia/Kathmandu"), AT, zone="Europe/Vienna")
    assert ">2026-07-02 04:15:05 +05:45</time>" in shown
    assert 'title="2026-07-02 00:30:05 +02:00 Europe/Vienna\n2026-07-01 22:30:05 UTC"' in shown
    assert ">since 04:15:05 +05:45</time>" in since(seen_by("Asia/Kathmandu"), AT)
    assert at(seen_by("Asia/Kathmandu"), AT) == "Thu 2 Jul 04:15:05 +05:45"
    assert at(seen_by("Asia/Kathmandu"), AT, "H:i") == "04:15 +05:45"
    assert at({}, AT) == "Wed 1 Jul 22:30:05 UTC"


def test_a_chosen_zone_that_is_none_any_more_is_as_none_chosen():
    assert instant(seen_by("Europe/Atlantis"), AT) == instant({}, AT)


@pytest.mark.parametrize("viewer", ["", "UTC", "Europe/Berlin", "America/New_York", "Pacific/Chatham"])
def test_the_two_half_past_two_of_an_autumn_night_are_told_apart(viewer):
    """DB-05, whoever looks: the text and what is on hover."""
    shown = [instant(seen_by(viewer), value, zone="Europe/Berlin") for value in UTC_NIGHT]
    texts = [text.partition(">")[2] for text in shown]
    assert texts[0] != texts[1]
    assert 'title="2026-10-25 02:30:00 +02:00 Europe/Berlin' in shown[0]
    assert 'title="2026-10-25 02:30:00 +01:00 Europe/Berlin' in shown[1]
    if viewer == "Europe/Berlin":
        assert texts == ["2026-10-25 02:30:00 +02:00</time>", "2026-10-25 02:30:00 +01:00</time>"]


@pytest.mark.parametrize(
    ("seconds", "said"),
    [(75, "in 1 min 15 s"), (1, "in 1 s"), (0.4, "due now"), (-59, "due now"), (-60, "due 1 min ago")],
)
def test_what_is_to_come_is_due_from_its_instant_on_and_late_a_minute_later(seconds, said):
    shown = countdown(AT + timedelta(seconds=seconds), AT)
    assert f">{said}</span>" in shown
    assert " data-due>" in shown  # and the page's script goes on with the same words


def test_only_what_is_to_come_can_be_due():
    assert " data-relative=due>" in instant({}, AT, relative="due")
    assert " data-relative>" in instant({}, AT, relative=True)
    assert "data-relative" not in instant({}, AT)


def test_what_has_no_instant_is_a_dash():
    assert instant({}, None) == since({}, None) == duration(None) == duration_ms(None) == "–"


@pytest.mark.parametrize(
    ("seconds", "said"),
    [
        (0, "0 s"),
        (0.25, "0.25 s"),
        (9.999, "10.00 s"),
        (12.34, "12.3 s"),
        (59.96, "60.0 s"),
        (60, "1 min"),
        (200, "3 min 20 s"),
        (3600, "1 h"),
        (7500, "2 h 5 min"),
        (86_399.6, "1 d"),
        (86_400 * 4 + 3 * 3600, "4 d 3 h"),
        (86_400 * 3653, "3653 d"),
    ],
)
def test_durations_are_said_as_people_say_them(seconds, said):
    assert duration(seconds) == said


def test_a_german_number_has_a_comma():
    with override("de"):
        assert (duration(0.25), duration(12.34), duration(5)) == ("0,25 s", "12,3 s", "5 s")


def test_short_runs_are_milliseconds():
    assert [duration_ms(value) for value in (0, 999, 1000, 61_000)] == ["0 ms", "999 ms", "1 s", "1 min 1 s"]


def test_a_state_is_a_word_with_a_class():
    assert state("claimed") == '<span class="state state-claimed">Running</span>'


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("lease", "its lease ran out"),
        ("retries_exhausted", "retries exhausted"),
        ("by my_hand", "by my_hand"),
        ("", ""),
    ],
)
def test_a_reason_is_said_in_words(code, said):
    assert reason_words(code) == said
