"""Neighbours of the cases: the same kinds, other zones, fields and edges. The answers are worked out by hand from the
zone rules and the calendar of the year, as the notes say."""

from __future__ import annotations

import json

import pytest

from scheduler.domain.cases import answer_line

HONOLULU_NEW_YEAR = {"timezone": "Pacific/Honolulu", "exclude": [{"dates": ["2027-01-01"]}]}


def answered(schedule: dict, after: str, count: int = 3, **more) -> list[str]:
    answer = json.loads(answer_line(json.dumps({"schedule": schedule, "after": after, "count": count, **more})))
    return answer.get("fires", answer)


@pytest.mark.parametrize(
    ("expression", "zone", "after", "fires"),
    [
        # Lord Howe goes from +10:30 to +11 at 02:00 on 4 Oct 2026, and back at 02:00 (to 01:30) on 5 Apr 2026.
        ("0 2 * * *", "Australia/Lord_Howe", "2026-10-03T00:00Z", ["2026-10-03T15:30:00Z", "2026-10-04T15:00:00Z"]),
        ("45 1 * * *", "Australia/Lord_Howe", "2026-04-04T00:00Z", ["2026-04-04T14:45:00Z", "2026-04-05T15:15:00Z"]),
        ("*/15 2 * * *", "Australia/Lord_Howe", "2026-10-03T00:00Z", ["2026-10-03T15:30:00Z", "2026-10-03T15:45:00Z"]),
        # Apia had no 30 December 2011: every time of it comes at once.
        ("0 */6 * * *", "Pacific/Apia", "2011-12-30T04:00Z", ["2011-12-30T10:00:00Z", "2011-12-30T16:00:00Z"]),
        ("15 9,18 30 12 *", "Pacific/Apia", "2011-12-01T00:00Z", ["2011-12-30T10:00:00Z", "2012-12-29T19:15:00Z"]),
        # Zones that gave up summer time: Sao Paulo (-03 since 2019), Moscow (+03 since October 2014), Mexico City.
        ("0 0 * * *", "America/Sao_Paulo", "2019-11-02T12:00Z", ["2019-11-03T03:00:00Z", "2019-11-04T03:00:00Z"]),
        ("30 1 26 10 *", "Europe/Moscow", "2014-10-01T00:00Z", ["2014-10-25T21:30:00Z", "2015-10-25T22:30:00Z"]),
        ("30 2 * 4 *", "America/Mexico_City", "2023-04-01T12:00Z", ["2023-04-02T08:30:00Z", "2023-04-03T08:30:00Z"]),
        # The last rule of a zone goes on beyond 2037.
        ("30 2 * * SUN", "Europe/Berlin", "2050-03-26T12:00Z", ["2050-03-27T01:00:00Z", "2050-04-03T00:30:00Z"]),
        ("30 1 * * SUN", "America/New_York", "2100-11-06T12:00Z", ["2100-11-07T05:30:00Z", "2100-11-14T06:30:00Z"]),
        # 2100 has no leap day; 2000 had one.
        ("0 0 29 2 *", "UTC", "2096-02-29T00:00Z", ["2104-02-29T00:00:00Z", "2108-02-29T00:00:00Z"]),
        ("0 0 29 2 *", "UTC", "1996-02-29T00:00Z", ["2000-02-29T00:00:00Z", "2004-02-29T00:00:00Z"]),
        # Seconds in a repeated and in a skipped hour.
        ("*/30 30 2 * * *", "Europe/Berlin", "2026-10-25T00:30:10Z", ["2026-10-25T00:30:30Z", "2026-10-26T01:30:00Z"]),
        ("15 59 1 * * *", "Europe/London", "2026-03-29T00:00Z", ["2026-03-29T01:00:00Z", "2026-03-30T00:59:15Z"]),
        ("*/30 * 2 * * *", "Europe/Berlin", "2026-10-25T00:59:30Z", ["2026-10-25T01:00:00Z", "2026-10-25T01:00:30Z"]),
        # Cyclic ranges in every field.
        ("58-1 * * * *", "UTC", "2026-06-01T00:01Z", ["2026-06-01T00:58:00Z", "2026-06-01T00:59:00Z"]),
        ("0 0 30-2 * *", "UTC", "2026-02-03T00:00Z", ["2026-03-01T00:00:00Z", "2026-03-02T00:00:00Z"]),
        ("0 0 1 NOV-feb *", "UTC", "2026-02-01T00:00Z", ["2026-11-01T00:00:00Z", "2026-12-01T00:00:00Z"]),
        ("0 0 * * SAT-MON/2", "UTC", "2026-06-01T00:00Z", ["2026-06-06T00:00:00Z", "2026-06-08T00:00:00Z"]),
        ("50-5/5 0 0 1 1 *", "UTC", "2026-01-01T00:00:05Z", ["2026-01-01T00:00:50Z", "2026-01-01T00:00:55Z"]),
        # Last days and nearest weekdays: 31 May 2026 is a Sunday, 1 August a Saturday, 1 November a Sunday.
        ("0 0 L-3 * *", "UTC", "2028-02-01T00:00Z", ["2028-02-26T00:00:00Z", "2028-03-28T00:00:00Z"]),
        ("0 0 L,LW * *", "UTC", "2026-05-28T00:00Z", ["2026-05-29T00:00:00Z", "2026-05-31T00:00:00Z"]),
        ("0 0 1W * *", "UTC", "2026-10-30T00:00Z", ["2026-11-02T00:00:00Z", "2026-12-01T00:00:00Z"]),
        ("0 0 31w * *", "UTC", "2026-05-01T00:00Z", ["2026-05-29T00:00:00Z", "2026-07-31T00:00:00Z"]),
        ("0 0 30W 2-5 *", "UTC", "2026-04-01T00:00Z", ["2026-04-30T00:00:00Z", "2026-05-29T00:00:00Z"]),
        ("0 0 * * 1l,fri#1", "UTC", "2026-06-01T00:00Z", ["2026-06-05T00:00:00Z", "2026-06-29T00:00:00Z"]),
        # A star with a step in a day field asks for both fields; a range of all days does not.
        ("0 0 */2 * MON", "UTC", "2026-06-01T00:00Z", ["2026-06-15T00:00:00Z", "2026-06-29T00:00:00Z"]),
        ("0 0 1-31/2 * MON", "UTC", "2026-06-01T00:00Z", ["2026-06-03T00:00:00Z", "2026-06-05T00:00:00Z"]),
        ("0 0 13 * */5", "UTC", "2026-02-14T00:00Z", ["2026-03-13T00:00:00Z", "2026-09-13T00:00:00Z"]),
        ("0 0 ? * 0-6", "UTC", "2026-06-01T00:00Z", ["2026-06-02T00:00:00Z", "2026-06-03T00:00:00Z"]),
        # Aliases and names in any case; years.
        ("@MonthLy", "Asia/Tokyo", "2026-06-01T00:00Z", ["2026-06-30T15:00:00Z", "2026-07-31T15:00:00Z"]),
        ("0 9 * jUl mon-Fri", "UTC", "2026-06-01T00:00Z", ["2026-07-01T09:00:00Z", "2026-07-02T09:00:00Z"]),
        ("0 0 0 1 1 ? 2030/10", "UTC", "2026-06-01T00:00Z", ["2030-01-01T00:00:00Z", "2040-01-01T00:00:00Z"]),
        ("0 0 0 1 1 ? 2027,2199", "UTC", "2026-06-01T00:00Z", ["2027-01-01T00:00:00Z", "2199-01-01T00:00:00Z"]),
        # Before 1970 and far ahead.
        ("0 0 1 1 *", "UTC", "1950-06-01T00:00Z", ["1951-01-01T00:00:00Z", "1952-01-01T00:00:00Z"]),
        ("0 0 1 1 *", "UTC", "8998-06-01T00:00Z", ["8999-01-01T00:00:00Z", "9000-01-01T00:00:00Z"]),
    ],
)
def test_cron(expression, zone, after, fires):
    assert answered({"cron": expression, "timezone": zone}, after, len(fires)) == fires


@pytest.mark.parametrize(
    ("every", "after", "fires"),
    [
        ("P1W", "2026-06-02T00:00Z", ["2026-06-08T00:00:00Z", "2026-06-15T00:00:00Z"]),
        ("P1W2D", "2026-06-02T00:00Z", ["2026-06-10T00:00:00Z", "2026-06-19T00:00:00Z"]),
        ("P0.5D", "2026-06-01T00:00Z", ["2026-06-01T12:00:00Z", "2026-06-02T00:00:00Z"]),
        ("PT1,5H", "2026-06-01T00:00Z", ["2026-06-01T01:30:00Z", "2026-06-01T03:00:00Z"]),
        ("PT2.25S", "2026-06-01T00:00Z", ["2026-06-01T00:00:02.250000Z", "2026-06-01T00:00:04.500000Z"]),
        (2.25, "2026-06-01T00:00Z", ["2026-06-01T00:00:02.250000Z", "2026-06-01T00:00:04.500000Z"]),
        ("P1DT1H", "2126-06-01T00:00Z", ["2126-06-02T00:00:00Z", "2126-06-03T01:00:00Z"]),  # 36524 d = 35063·25 h + 1 h
    ],
)
def test_intervals(every, after, fires):
    assert answered({"every": every, "anchor": "2026-06-01T00:00:00Z"}, after, len(fires)) == fires


def test_an_interval_without_an_anchor_begins_at_the_question():
    assert answered({"every": "PT5M"}, "2026-06-01T00:02:03Z", 1) == ["2026-06-01T00:07:03Z"]


@pytest.mark.parametrize(
    ("misfire", "fires"),
    [
        # Hourly at :00; down from 03:30 to 08:30. Missed: 04:00 to 08:00.
        ({"policy": "fire_once", "grace": "PT29M"}, ["2026-06-01T09:00:00Z"]),
        ({"policy": "fire_once", "grace": "PT30M"}, ["2026-06-01T08:00:00Z", "2026-06-01T09:00:00Z"]),
        ({"policy": "fire_all", "max": 2}, ["2026-06-01T07:00:00Z", "2026-06-01T08:00:00Z", "2026-06-01T09:00:00Z"]),
        ({"policy": "fire_all", "max": 0}, ["2026-06-01T09:00:00Z"]),
        ({"policy": "fire_all", "max": 1, "grace": "PT10H"}, ["2026-06-01T08:00:00Z", "2026-06-01T09:00:00Z"]),
        ({"policy": "skip", "resume_at": "2026-06-01T08:00:00Z"}, ["2026-06-01T09:00:00Z"]),
        (
            {"policy": "fire_once", "resume_at": "2026-06-01T08:00:00Z"},
            ["2026-06-01T08:00:00Z", "2026-06-01T09:00:00Z"],
        ),
        ({"policy": "fire_all", "resume_at": "2026-06-01T03:45:00Z"}, ["2026-06-01T04:00:00Z"]),
    ],
)
def test_misfires(misfire, fires):
    misfire = {"resume_at": "2026-06-01T08:30:00Z", **misfire}
    assert answered({"cron": "0 * * * *"}, "2026-06-01T03:30Z", len(fires), misfire=misfire) == fires


@pytest.mark.parametrize(
    ("schedule", "calendar", "after", "fires"),
    [
        # A window over midnight on the night on which Berlin's clock goes forward: closed 22:00 to 04:00 (+2).
        (
            {"cron": "*/30 * * * *", "timezone": "Europe/Berlin"},
            {"timezone": "Europe/Berlin", "exclude": [{"window": ["22:00", "04:00"]}]},
            "2026-03-28T20:00Z",
            ["2026-03-28T20:30:00Z", "2026-03-29T02:00:00Z", "2026-03-29T02:30:00Z"],
        ),
        # The window of Friday's night reaches into Saturday, Saturday's does not exist.
        (
            {"cron": "0 * * * *"},
            {"timezone": "UTC", "include": [{"weekdays": ["FRI"], "window": ["22:00", "02:00"]}]},
            "2026-06-05T22:30Z",
            ["2026-06-05T23:00:00Z", "2026-06-06T00:00:00Z", "2026-06-06T01:00:00Z", "2026-06-12T22:00:00Z"],
        ),
        # Include is any, exclude wins.
        (
            {"cron": "0 12 * * *"},
            {
                "timezone": "UTC",
                "include": [{"weekdays": ["SAT"]}, {"month_days": [-1]}],
                "exclude": [{"annual": ["06-30"]}],
            },
            "2026-06-27T12:00Z",
            ["2026-07-04T12:00:00Z", "2026-07-11T12:00:00Z"],
        ),
        # 4 July 2026 is a Saturday: observed on Friday the 3rd, a working day of the calendar otherwise.
        (
            {"cron": "0 9 * * MON-FRI", "timezone": "America/New_York"},
            {"timezone": "America/New_York", "exclude": [{"holidays": {"country": "US"}}]},
            "2026-07-01T14:00Z",
            ["2026-07-02T13:00:00Z", "2026-07-06T13:00:00Z"],
        ),
        # Epiphany is a holiday in Bavaria, not in Berlin; a bank holiday's category is asked for by name.
        (
            {"cron": "0 9 6 1 *", "timezone": "Europe/Berlin"},
            {"timezone": "Europe/Berlin", "exclude": [{"holidays": {"country": "DE", "subdivision": "BY"}}]},
            "2026-01-01T00:00Z",
            {"error"},
        ),
        (
            {"cron": "0 9 6 1 *", "timezone": "Europe/Berlin"},
            {"timezone": "Europe/Berlin", "exclude": [{"holidays": {"country": "DE", "subdivision": "BE"}}]},
            "2026-01-01T00:00Z",
            ["2026-01-06T08:00:00Z", "2027-01-06T08:00:00Z"],
        ),
        (
            {"cron": "0 9 * * *", "timezone": "Europe/Vienna"},
            {"timezone": "Europe/Vienna", "exclude": [{"holidays": {"country": "AT", "categories": ["bank"]}}]},
            "2026-12-23T00:00Z",
            ["2026-12-23T08:00:00Z", "2026-12-25T08:00:00Z"],
        ),
        # The calendar's own clock: New Year's Day in Honolulu is 1 January 10:00Z to 2 January 10:00Z.
        (
            {"cron": "0 */10 * * *"},
            HONOLULU_NEW_YEAR,
            "2027-01-01T00:00Z",
            ["2027-01-02T10:00:00Z", "2027-01-02T20:00:00Z"],
        ),
        (
            {"every": "PT6H", "anchor": "2027-03-01T00:00Z"},
            HONOLULU_NEW_YEAR,
            "2026-12-31T00:00Z",
            ["2027-03-01T00:00:00Z"],
        ),
        # 07:30 of a night worker is deferred to the opening, and meets what is due there: one fire.
        (
            {"cron": "30 7 * * *", "timezone": "Europe/Vienna"},
            {
                "timezone": "Europe/Vienna",
                "include": [{"window": ["07:30", "18:00"], "weekdays": ["MON", "WED"]}],
                "on_blocked": "defer",
            },
            "2026-06-01T06:00Z",
            ["2026-06-03T05:30:00Z", "2026-06-08T05:30:00Z"],
        ),
        # following and preceding: Whit Monday 25 May 2026 and the weekend before it are closed in Austria.
        (
            {"cron": "0 7 23 5 *", "timezone": "Europe/Vienna"},
            {
                "timezone": "Europe/Vienna",
                "include": [{"weekdays": ["MON", "TUE", "WED", "THU", "FRI"]}],
                "exclude": [{"holidays": {"country": "AT"}}],
                "on_blocked": "following",
            },
            "2026-05-01T00:00Z",
            ["2026-05-26T05:00:00Z"],
        ),
        (
            {"cron": "0 7 25 5 *", "timezone": "Europe/Vienna"},
            {
                "timezone": "Europe/Vienna",
                "include": [{"weekdays": ["MON", "TUE", "WED", "THU", "FRI"]}],
                "exclude": [{"holidays": {"country": "AT"}}],
                "on_blocked": "preceding",
            },
            "2026-05-01T00:00Z",
            ["2026-05-22T05:00:00Z"],
        ),
    ],
)
def test_calendars(schedule, calendar, after, fires):
    if isinstance(fires, set):
        assert set(answered(schedule, after, 2, calendar=calendar)) >= fires
    else:
        assert answered(schedule, after, len(fires), calendar=calendar) == fires
