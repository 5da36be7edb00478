"""Log lines: one line an event, its ids, and none of the secrets."""

from __future__ import annotations

import asyncio
import json
import logging
import sys
from contextvars import copy_context

import pytest

from croniq_site.kernel.logs import JsonLines, Lines, masked, tell
from croniq_site.kernel.request import answering
from scheduler.api.work.coalesce import Batch


def record(message: str, *args: object, exc_info: object = None, **extra: object) -> logging.LogRecord:
    made = logging.LogRecord("croniq.test", logging.WARNING, __file__, 1, message, args, exc_info)
    made.__dict__.update(extra)
    return made


def test_an_event_is_one_line_of_json_with_what_is_known_of_it():
    def task() -> str:
        tell(execution_id="e1", job_key="a:b")
        tell(runner_id="r1")
        with answering("req-1"):
            return JsonLines().format(record("it %s\nsaid\u2028so", "broke"))

    line = copy_context().run(task)
    told = json.loads(line)
    assert line.isascii()
    assert "\n" not in line
    assert told.pop("time").endswith("Z")
    assert told == {
        "level": "WARNING",
        "logger": "croniq.test",
        "message": "it broke\nsaid\u2028so",
        "request_id": "req-1",
        "execution_id": "e1",
        "runner_id": "r1",
        "job_key": "a:b",
    }


def test_what_is_not_known_is_left_out_and_what_the_line_says_itself_goes_first():
    assert set(json.loads(JsonLines().format(record("m")))) == {"time", "level", "logger", "message"}

    def task() -> str:
        tell(job_key="a:b")
        return JsonLines().format(record("m", job_key="c:d"))

    assert json.loads(copy_context().run(task))["job_key"] == "c:d"
    assert "job_key" not in json.loads(JsonLines().format(record("m")))


def test_a_traceback_is_part_of_the_line():
    try:
        raise ValueError("no: ApiKey croniq_abcdefghijklmnopqrstuvwxyz0123")
    except ValueError:
        line = JsonLines().format(record("failed", exc_info=sys.exc_info()))
    told = json.loads(line)
    assert "Traceback" in told["exception"]
    assert "fghijklmnop" not in line
    assert "\n" not in line


def test_what_is_done_for_several_names_none_of_them():
    lines = []

    async def run(questions: list[str]) -> list[str]:
        lines.append(JsonLines().format(record("m")))
        return questions

    async def ask() -> None:
        tell(runner_id="r1")
        assert await Batch(run, slots=1)("a") == "a"

    asyncio.run(ask())
    assert set(json.loads(lines[0])) == {"time", "level", "logger", "message"}


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        ("key croniq_abcdefghijklmnopqrstuvwxyz0123", "key croniq_abcde***"),
        ("Authorization: ApiKey croniq_abcdefghijklmnopqrstuvwxyz0123", "Authorization: ApiKey croniq_abcde***"),
        ("[(b'authorization', b'Bearer eyJhbGciOi.abc')]", "[(b'authorization', b'Bearer ***')]"),
        ("Basic YWRtaW46YWRtaW4=", "Basic ***"),
        ("postgres://croniq:hunter2@db:5432/x", "postgres://croniq:***@db:5432/x"),
        ("conninfo host=db password=hunter2 user=croniq", "conninfo host=db password=*** user=croniq"),
        ("{'password': 'hunter2', 'x': 1}", "{'password': '***', 'x': 1}"),
        ("client_secret=hunter2&grant=x", "client_secret=***&grant=x"),
        ("Header format invalid! x-api-key: hunter2", "Header format invalid! x-api-key: ***"),
        ("the key croniq_abcde… was used", "the key croniq_abcde… was used"),
        ("croniq_site.kernel.loop and croniq_runner.runner", "croniq_site.kernel.loop and croniq_runner.runner"),
        ("https://croniq.example:8443/v1/jobs", "https://croniq.example:8443/v1/jobs"),
    ],
)
def test_what_looks_like_a_secret_is_masked_in_either_form(said, shown):
    assert masked(said) == shown
    assert Lines().format(record("%s", said)).endswith(shown)
    assert json.loads(JsonLines().format(record("%s", said)))["message"] == shown
