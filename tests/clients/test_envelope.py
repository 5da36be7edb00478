"""What travels between a Django project and Croniq."""

from __future__ import annotations

import pytest
from croniq_tasks.envelope import MOST_RESULT_CHARACTERS, Call, RefusedCall, errors_in, result_in, result_line
from croniq_tasks.jobs import Naming


def test_a_call_is_read_as_it_was_written():
    call = Call("shop.tasks.total", [[1, 2]], {"discount": 0.1})
    assert Call.of(call.metadata()) == call


@pytest.mark.parametrize(
    "metadata", [None, {}, {"django_task": "x"}, {"django_task": {"path": "x", "args": {}, "kwargs": {}}}]
)
def test_other_metadata_are_refused(metadata):
    with pytest.raises(RefusedCall, match="no 'django_task'"):
        Call.of(metadata)


def test_a_result_that_a_line_does_not_hold_is_an_error_and_no_cut_text():
    assert result_line("x" * (MOST_RESULT_CHARACTERS - 2)).endswith('x"')
    with pytest.raises(ValueError, match="Store it"):
        result_line("x" * (MOST_RESULT_CHARACTERS - 1))


def test_the_result_is_that_of_the_last_attempt_and_lines_of_others_are_none():
    lines = [
        {"attempt": 1, "message": "boom", "fields": {"django_task": "error", "exception": "builtins.ValueError"}},
        {"attempt": 2, "message": "17", "fields": None},
        # Of a worker that was deposed meanwhile by another of its name.
        {"attempt": 2, "message": "[4]", "fields": {"django_task": "result", "django_task_attempt": "1"}},
        {"attempt": 2, "message": "[5]", "fields": {"django_task": "result", "django_task_attempt": "2"}},
    ]
    assert result_in(lines, 2) == [5]
    assert result_in(lines, 3) is None
    assert [error.exception_class for error in errors_in(lines)] == [ValueError]


def test_jobs_of_two_projects_and_of_two_queues_are_different_ones():
    keys = {Naming(prefix).job_key(queue, "a.b") for prefix in ("x", "y") for queue in ("default", "mail")}
    assert len(keys | {Naming("x").schedule_key("mail", "a.b")}) == 5
    job = Naming("x").job("mail", "a.b", {"tags": ["money"], "max_retries": 2})
    assert Naming("x").queue_and_priority("x:mail:a.b@-7") == ("mail", -7)
    assert [Naming("x").queue_and_priority(key) for key in ("x-schedule:often:a.b", "y:mail:a.b", "x:mail")] == [
        None
    ] * 3
    assert (job["require"], job["tags"], job["max_retries"]) == (["django:x:mail"], ["django-task", "money"], 2)
