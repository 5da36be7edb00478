"""The cases with right answers: tests/scheduler/cases/*.json, through the answers of `next_fires --jsonl`.

Those of more_schedules.json, some of each policy, were worked out minute by minute through `zoneinfo` and not by this
engine.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from scheduler.domain.cases import answer_line

CASES = json.loads((Path(__file__).parents[1] / "cases" / "schedules.json").read_text("utf-8"))

MORE = json.loads((Path(__file__).parents[1] / "cases" / "more_schedules.json").read_text("utf-8"))

# Cases that do not pass yet, each with the reason. One that passes must leave the list.
NOT_YET: dict[str, str] = {}


def question(case: dict) -> dict:
    asked = {name: case[name] for name in ("schedule", "calendar", "misfire", "after", "until") if name in case}
    if "until" not in case:
        asked["count"] = max(1, len(case["expected"]))
    return asked


def is_right(case: dict, answer: dict) -> bool:
    if case["policy"] == "reject-at-save":
        return "error" in answer and bool(answer["field"])
    return answer.get("fires") == case["expected"]


def test_all_cases_are_here():
    assert len(CASES) == 80
    assert set(NOT_YET) <= {case["id"] for case in CASES}


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["id"])
def test_case(case):
    answer = json.loads(answer_line(json.dumps(question(case))))
    if case["id"] in NOT_YET:
        assert not is_right(case, answer), "it passes now: take it from NOT_YET"
    else:
        assert is_right(case, answer), answer


@pytest.mark.parametrize("case", MORE, ids=lambda case: case["id"])
def test_more_of_the_same_kinds(case):
    answer = json.loads(answer_line(json.dumps(question(case))))
    assert is_right(case, answer), answer


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"schedule": {"cron": "0 3 * * *", "timezone": "Europe/Berln"}}, "timezone"),
        ({"schedule": {"cron": "0 3 * * *", "timezone": 7}}, "timezone"),
        ({"schedule": {"cron": "0 3 * *"}}, "cron_expression"),
        ({"schedule": {"cron": 5}}, "cron_expression"),
        ({"schedule": {"every": "P9999999999D", "anchor": "2026-01-01T00:00:00Z"}}, "every"),
        ({"schedule": {"every": "PT0S", "anchor": "2026-01-01T00:00:00Z"}}, "every"),
        ({"schedule": {"every": -5, "anchor": "2026-01-01T00:00:00Z"}}, "every"),
        ({"schedule": {"every": float("nan"), "anchor": "2026-01-01T00:00:00Z"}}, "every"),
        ({"schedule": {"every": "P", "anchor": "2026-01-01T00:00:00Z"}}, "every"),
        ({"schedule": {"every": "5m", "anchor": "today"}}, "anchor"),
        ({"schedule": {"every": "P1M"}}, "every"),
        ({"schedule": {"every": "PT1.5H30M"}}, "every"),
        ({"schedule": {"every": "PT0.5S"}}, "every"),
        ({"schedule": {"every": "5m", "cron": "* * * * *"}}, "schedule"),
        ({"schedule": None}, "schedule"),
        ({"after": "2026-01-01T00:00:00"}, "after"),
        ({"after": None}, "after"),
        ({"until": "soon"}, "until"),
        ({"count": -1}, "count"),
        ({"count": True}, "count"),
        ({"count": 10**9}, "count"),
        ({"on_blocked": "before"}, "on_blocked"),
        ({"on_blocked": 3}, "on_blocked"),
        ({"misfire": {"policy": "sometimes", "resume_at": "2026-01-01T00:00:00Z"}}, "misfire"),
        ({"misfire": {"policy": "skip"}}, "resume_at"),
        ({"calendar": {"timezone": "Mars/Phobos"}}, "timezone"),
        ({"calendar": {"timezone": "UTC", "exclude": {"weekdays": ["MON"]}}}, "exclude"),
        ({"calendar": {"timezone": "UTC", "exclude": [{"moon": "full"}]}}, "moon"),
        ({"calendar": {"timezone": "UTC", "exclude": [{"holidays": {"country": "ZZ"}}]}}, "holiday_country"),
        (
            {"calendar": {"timezone": "UTC", "exclude": [{"period": ["2026-01-02T00:00Z", "2026-01-01T00:00Z"]}]}},
            "period",
        ),
        ({"calendar": {"timezone": "UTC", "exclude": [{"window": ["08:00"]}]}}, "window"),
        ({"calendar": {"timezone": "UTC", "exclude": [{"effect": "include", "weekdays": [1]}]}}, "effect"),
    ],
)
def test_a_bad_case_is_refused_with_its_field(change, field):
    case = {"schedule": {"cron": "0 3 * * *", "timezone": "UTC"}, "after": "2026-01-01T00:00:00Z", "count": 1} | change
    answer = json.loads(answer_line(json.dumps(case)))
    assert answer["field"] == field, answer
    assert "fires" not in answer


@pytest.mark.parametrize("line", ["", "nonsense", "[" * 100_000, "[]", "null", '{"schedule": "x"}', "\0", "1e999"])
def test_a_line_that_is_no_case_is_answered_all_the_same(line):
    answer = json.loads(answer_line(line))
    assert answer["error"]
    assert "\n" not in answer_line(line)


def test_a_schedule_that_is_complete_has_no_fires_and_is_no_error():
    case = {"schedule": {"cron": "0 0 12 29 2 ? 2028"}, "after": "2029-01-01T00:00:00Z", "count": 3}
    assert json.loads(answer_line(json.dumps(case))) == {"fires": []}


def test_a_naive_period_is_wall_time_of_the_calendar():
    case = {
        "schedule": {"cron": "0 9,15 * * *", "timezone": "Europe/Berlin"},
        "calendar": {"timezone": "Europe/Berlin", "exclude": [{"period": ["2026-12-24T12:00", "2026-12-25T00:00"]}]},
        "after": "2026-12-23T18:00:00Z",
        "count": 2,
    }
    assert json.loads(answer_line(json.dumps(case))) == {"fires": ["2026-12-24T08:00:00Z", "2026-12-25T08:00:00Z"]}
