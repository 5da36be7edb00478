"""`manage.py next_fires`: words and instants, and the cases as JSON lines."""

from __future__ import annotations

import io
import json
import sys
from types import SimpleNamespace

import pytest
from django.core.management import CommandError, call_command

from calendars.services import save_calendar
from tests.scheduler.domain.test_cases import CASES, is_right, question


def next_fires(*arguments: str) -> list[str]:
    out = io.StringIO()
    call_command("next_fires", *arguments, stdout=out)
    return out.getvalue().splitlines()


def answers(monkeypatch: pytest.MonkeyPatch, data: bytes, *arguments: str) -> list[dict]:
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(data)))
    return [json.loads(line) for line in next_fires("--jsonl", *arguments)]


def test_cron_in_words_and_instants():
    asked = [
        "--cron",
        "0 2 * * MON-FRI",
        "--timezone",
        "Europe/Vienna",
        "--after",
        "2026-06-05T12:00:00Z",
        "--count",
        "2",
    ]
    assert next_fires(*asked) == [
        "at 02:00 on Monday to Friday, Europe/Vienna",
        "2026-06-08T00:00:00Z  Mon 2026-06-08 02:00:00 CEST",
        "2026-06-09T00:00:00Z  Tue 2026-06-09 02:00:00 CEST",
    ]


def test_an_interval_begins_after_now_and_the_zone_is_the_settings(settings):
    settings.CRONIQ_TIME_ZONE = "Asia/Tokyo"
    lines = next_fires("--every", "90s", "--after", "2026-06-05T12:00:00+00:00", "--count", "1")
    assert lines == ["every 1 minute 30 seconds", "2026-06-05T12:01:30Z  Fri 2026-06-05 21:01:30 JST"]
    assert len(next_fires("--every", "1h")) == 6
    assert next_fires("--cron", "@daily", "--count", "1")[0] == "at 00:00, Asia/Tokyo"


def test_a_schedule_that_ends_says_so():
    lines = next_fires("--cron", "0 0 12 1 1 ? 2028", "--after", "2026-06-05T12:00:00Z")
    assert lines[1:] == ["2028-01-01T12:00:00Z  Sat 2028-01-01 12:00:00 UTC", "and then no more"]


@pytest.mark.django_db
def test_a_calendar_decides_and_a_deferred_fire_says_from_when(now):
    rules = [{"effect": "include", "weekdays": [1, 2, 3, 4, 5]}]
    save_calendar({"name": "office", "timezone": "Europe/Vienna", "rules": rules}, now)
    asked = ["--cron", "0 12 * * SAT", "--calendar", "office", "--after", "2026-06-05T12:00:00Z", "--count", "1"]
    assert next_fires(*asked, "--on-blocked", "defer")[1:] == [
        "2026-06-07T22:00:00Z  Sun 2026-06-07 22:00:00 UTC  deferred from 2026-06-06T12:00:00Z"
    ]
    with pytest.raises(CommandError, match=r"calendar: .*never run"):
        next_fires(*asked)
    with pytest.raises(CommandError, match="no calendar 'shop'"):
        next_fires("--cron", "@daily", "--calendar", "shop")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--cron", "0 2 30 2 *"], "cron_expression: "),
        (["--cron", "@daily", "--timezone", "Europe/Berln"], "timezone: .*Europe/Berlin"),
        (["--every", "0s"], "every: "),
        (["--every", "5m", "--after", "noon"], "--after: "),
        (["--every", "5m", "--count", "0"], "--count: "),
        (["--every", "5m", "--cron", "@daily"], "not allowed"),
        ([], "required"),
    ],
)
def test_nonsense_is_refused_by_name(arguments, said):
    with pytest.raises(CommandError, match=said):
        next_fires(*arguments)


def test_all_cases_as_json_lines(monkeypatch):
    lines = "".join(json.dumps(question(case)) + "\n" for case in CASES)
    found = answers(monkeypatch, lines.encode())
    assert len(found) == len(CASES)
    assert [case["id"] for case, answer in zip(CASES, found, strict=True) if not is_right(case, answer)] == []


def test_a_bad_line_does_not_end_the_conversation(monkeypatch):
    good = b'{"schedule": {"cron": "0 3 * * *"}, "after": "2026-06-05T12:00:00Z", "count": 1}\n'
    data = good + b"nonsense\n\xff\xfe\n" + b"[" * 50_000 + b"\n\n" + b'{"schedule": 5}\n' + good
    found = answers(monkeypatch, data, "--timezone", "Asia/Tokyo")
    assert [sorted(answer) for answer in found] == [["fires"], *[["error", "field"]] * 4, ["fires"]]
    assert found[0]["fires"] == ["2026-06-05T18:00:00Z"]
