from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from scheduler.domain.schedules import CronSchedule, IntervalSchedule, OnceSchedule
from scheduler.domain.words import describe

NOON = datetime(2026, 6, 5, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("expression", "words"),
    [
        ("* * * * *", "every minute"),
        ("*/5 * * * *", "every 5 minutes"),
        ("*/10 * * * * *", "every 10 seconds"),
        ("5 * * * *", "at minute 5 of every hour"),
        ("0 */4 * * *", "every 4 hours at minute 0"),
        ("0 2 * * 1-5", "at 02:00 on Monday to Friday"),
        ("0 9,15 * * MON,7", "at 09:00 and 15:00 on Monday and Sunday"),
        ("0 0 1,15 * *", "at 00:00 on the 1st and 15th of the month"),
        ("0 0 L * ?", "at 00:00 on the last day of the month"),
        ("30 4 2 JAN,7 *", "at 04:30 on the 2nd of January and July"),
        ("0 0 * 6 *", "at 00:00 in June"),
        ("@weekly", "at 00:00 on Sunday"),
        ("*/5 9-16 * * *", "every 5 minutes from 09:00 to 16:59"),
        ("*/5 8-17 * * MON-FRI", "every 5 minutes from 08:00 to 17:59 on Monday to Friday"),
        ("* 9-9 * * *", "every minute from 09:00 to 09:59"),
        # No simple words: the text itself, never a wrong sentence.
        ("*/40 * * * *", "cron '*/40 * * * *'"),
        ("0 0 13 * 5", "cron '0 0 13 * 5'"),
        ("0 */5 * * *", "cron '0 */5 * * *'"),
        ("*/5 9,16 * * *", "cron '*/5 9,16 * * *'"),
        ("*/5 22-2 * * MON", "cron '*/5 22-2 * * MON'"),
        ("*/5 9-16/2 * * *", "cron '*/5 9-16/2 * * *'"),
        ("*/7 9-16 * * *", "cron '*/7 9-16 * * *'"),
        ("0 0 * * MON#2", "cron '0 0 * * MON#2'"),
        ("0 0 12 1 1 ? 2028", "cron '0 0 12 1 1 ? 2028'"),
    ],
)
def test_cron_in_words(expression, words):
    assert describe(CronSchedule(expression, "Europe/Vienna")) == f"{words}, Europe/Vienna"


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (1, "every second"),
        (10, "every 10 seconds"),
        (60, "every minute"),
        (5400, "every 1 hour 30 minutes"),
        (86_400, "every day"),
        (1.5, "every 1.5 seconds"),
        (90_061, "every 1 day 1 hour 1 minute 1 second"),
    ],
)
def test_an_interval_in_words(seconds, words):
    assert describe(IntervalSchedule(timedelta(seconds=seconds), NOON)) == words


@pytest.mark.parametrize(
    ("at", "zone", "words"),
    [
        ("2026-06-05T12:00Z", "UTC", "2026-06-05 12:00, UTC"),
        ("2027-03-14T07:00Z", "America/New_York", "2027-03-14 03:00, America/New_York"),
        ("2027-03-14T07:00:09.5Z", "Asia/Kathmandu", "2027-03-14 12:45:09, Asia/Kathmandu"),
        # What the clock shows twice is said with its offset.
        ("2026-10-25T00:30Z", "Europe/Vienna", "2026-10-25 02:30 +02:00, Europe/Vienna"),
        ("2026-10-25T01:30Z", "Europe/Vienna", "2026-10-25 02:30 +01:00, Europe/Vienna"),
    ],
)
def test_once_in_words(at, zone, words):
    assert describe(OnceSchedule(datetime.fromisoformat(at), zone)) == f"once at {words}"
