"""`manage.py jobs`: its exit codes, what it prints, and the page and the schema that go with it."""

from __future__ import annotations

import io
import json
import re
import sys
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from django.core.management import ManagementUtility, call_command
from django.core.management.base import CommandError

from calendars.queries.specs import RULE_COLUMNS
from scheduler.domain.job_fields import FIELDS, RETRY
from scheduler.domain.jobs_file import OF_TRIGGER
from scheduler.domain.jobs_file_schema import RULE, TRIGGER, jobs_file_schema
from scheduler.domain.yaml_text import read_yaml
from scheduler.models import Job
from tests.architecture.tree import ROOT
from tests.scheduler.jobs_file.support import EXAMPLE, snapshot, text
from tests.scheduler.planning.support import make_job

pytestmark = pytest.mark.django_db
SCHEMA = ROOT / "docs" / "croniq.schema.json"
PAGE = ROOT / "docs" / "jobs-as-code.md"


def jobs(*arguments: str) -> str:
    out = io.StringIO()
    call_command("jobs", *arguments, stdout=out)
    return out.getvalue()


@pytest.fixture
def file(tmp_path: Path):
    def write(content: str) -> str:
        path = tmp_path / "croniq.yaml"
        path.write_bytes(text(content))
        return str(path)

    return write


def exit_code(*arguments: str) -> int:
    try:
        jobs(*arguments)
    except SystemExit as ended:
        return int(ended.code)
    except CommandError as error:
        return error.returncode
    return 0


def test_the_whole_way(file):
    name = file(EXAMPLE)
    assert exit_code("validate", name) == 0
    assert exit_code("plan", name) == 2
    assert exit_code("apply", name) == 0
    assert exit_code("plan", name) == 0
    assert jobs("apply", name).splitlines()[-2:] == ["Nothing to change.", "Nothing was changed."]
    assert exit_code("plan", file(EXAMPLE.replace("10m", "11m"))) == 2


def test_a_plan_for_a_person(file, capsys):
    with pytest.raises(SystemExit):
        call_command("jobs", "plan", file(EXAMPLE))
    lines = capsys.readouterr().out.splitlines()
    assert "+ job billing:invoices" in lines
    assert "    timeout: 10m" in lines
    assert "    action.env.API_TOKEN: ***" in lines
    assert "    + trigger at 03:00, Europe/Berlin" in lines
    assert re.fullmatch(r"4 to add; plan [0-9a-f]{16}\.", lines[-1])


def test_an_unreadable_file_and_one_with_errors_exit_with_1_and_name_the_lines(file):
    for verb in ("validate", "plan", "apply"):
        assert exit_code(verb, "/nowhere/croniq.yaml") == 1
        for content in (
            "jobs: [",
            "jobs: {a:b: {timeout: soon}}",
            "jobs: {a:b: {triggers: [{every: 5m, calendar: x}]}}",
        ):
            name = file(content)
            out = io.StringIO()
            with pytest.raises(CommandError):
                call_command("jobs", verb, name, stdout=out)
            assert out.getvalue().startswith(f"{name}:1:")


def test_what_a_terminal_would_obey_is_not_printed(file):
    out = io.StringIO()
    with pytest.raises(CommandError):
        call_command("jobs", "validate", file('jobs: {"a:\\e[2J": {}}'), stdout=out)
    assert "\x1b" not in out.getvalue()


def test_a_word_that_is_not_understood_is_no_plan_with_changes(capsys):
    for arguments in (["plan", "--pruen"], ["plan", "a", "b"], ["paln"], []):
        with pytest.raises(SystemExit) as ended:
            ManagementUtility(["manage.py", "jobs", *arguments]).execute()
        assert ended.value.code == 1
    assert "--pruen" in capsys.readouterr().err


def test_json_for_programs(file, capsys):
    name = file(EXAMPLE)
    assert exit_code("plan", name, "--json") == 2
    with pytest.raises(SystemExit):
        call_command("jobs", "plan", name, "--json")
    body = json.loads(capsys.readouterr().out)
    assert [change["name"] for change in body["changes"]] == [
        "business-days",
        "database",
        "billing:invoices",
        "ops:tick",
    ]
    assert body["next_fires"][1]["before"] is None
    assert "s3cret" not in json.dumps(body)
    applied = json.loads(jobs("apply", name, "--json", "--expect", body["plan"]))
    assert (applied["plan"], applied["started"]) == (body["plan"], [])
    out = io.StringIO()
    with pytest.raises(CommandError):
        call_command("jobs", "validate", file("jobs: {a:b: {timeout: soon}}"), "--json", stdout=out)
    (error,) = json.loads(out.getvalue())["errors"]
    assert (error["line"], error["column"], error["path"]) == (1, 14, "jobs.a:b.timeout")


def test_the_plan_that_was_looked_at_is_the_one_that_is_applied(file):
    before = snapshot()
    with pytest.raises(CommandError, match="look at it again"):
        jobs("apply", file(EXAMPLE), "--expect", "0" * 16)
    assert snapshot() == before


def test_from_export_to_apply_by_hand(file, now, monkeypatch):
    make_job(now, "a:b", timeout="7m")
    content = jobs("export")
    assert content == "jobs:\n  a:b:\n    timeout: 7m\n"
    name = file(content)
    assert "job a:b: it is managed by 'api'" in jobs("plan", name)
    assert jobs("adopt", "a:b") == "job a:b is now in the hands of the jobs file.\n"
    assert jobs("plan", name) == "Nothing to change.\n"
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"jobs: {}")))
    assert "- job a:b" in jobs("apply", "-", "--prune")
    assert not Job.objects.filter(deleted_at=None).exists()
    make_job(now, "a:c")
    jobs("adopt", "a:c")
    assert jobs("unadopt", "a:c") == "job a:c is not in the hands of the jobs file any more.\n"
    assert jobs("unadopt", "a:c") == "Nothing was changed.\n"
    for arguments in (["adopt"], ["adopt", "a:d"], ["export", "--tenant", "No Slug"]):
        assert exit_code(*arguments) == 1


def test_validate_offline_asks_no_database(file, django_assert_num_queries):
    with django_assert_num_queries(0):
        assert "a:b" not in jobs("validate", "--offline", file(EXAMPLE))
        assert "warning" in jobs("validate", "--offline", file("jobs: {a:b: {concurrency_group: g}}"))


def test_a_plan_costs_the_same_few_queries_however_many_jobs(file, django_assert_max_num_queries):
    name = file("jobs:\n" + "".join(f"  many:{n}: {{triggers: [{{every: {n + 5}m}}]}}\n" for n in range(40)))
    jobs("apply", name)
    with django_assert_max_num_queries(10):
        jobs("plan", name)


def test_the_schema_for_editors_is_that_of_the_tables():
    assert json.loads(SCHEMA.read_text(encoding="utf-8")) == jobs_file_schema() == json.loads(jobs("schema"))
    assert TRIGGER.keys() == OF_TRIGGER
    assert RULE.keys() == set(RULE_COLUMNS)
    job = jobs_file_schema()["properties"]["jobs"]["anyOf"][0]["additionalProperties"]["anyOf"][0]["properties"]
    assert job.keys() == {*FIELDS, "retry", "is_active", "triggers", "run_on_change"}
    assert job["retry"]["anyOf"][0]["properties"].keys() == RETRY.keys()


def plain(content: str) -> Any:
    return read_yaml(text(content))[0].plain()


def test_the_schema_lets_sound_files_through_and_finds_what_editors_should():
    schema = jobs_file_schema()
    jsonschema.Draft202012Validator.check_schema(schema)
    validator = jsonschema.Draft202012Validator(schema)
    sound = [EXAMPLE, "jobs:", "x-a: 1\njobs: {a:b: , a:c: {timeout: null, retry: {base: 3, jitter: 0.5}}}"]
    for content in sound:
        assert list(validator.iter_errors(plain(content))) == []
    for content in (
        "job: {}",
        "jobs: {a:b: {timout: 5m}}",
        "jobs: {a:b: {timeout: soon}}",
        "jobs: {a:b: {overlap: maybe}}",
        "jobs: {a:b: {triggers: [{evry: 5m}]}}",
        "groups: {g: {}}",
        "calendars: {c: {rules: []}}",
        "calendars: {c: {timezone: UTC, rules: [{weekdays: [MON]}]}}",
    ):
        assert list(validator.iter_errors(plain(content))) != []


def test_the_examples_of_the_page_are_sound(file):
    examples = re.findall(r"```yaml\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    assert len(examples) >= 2
    validator = jsonschema.Draft202012Validator(jobs_file_schema())
    for example in examples:
        assert list(validator.iter_errors(plain(example))) == []
        assert "warning" not in jobs("validate", "--offline", file(example))
    assert exit_code("apply", file(examples[0])) == 0
