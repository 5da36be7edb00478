"""What a job's process sees: the allow-list, and never a secret of the runner's."""

from __future__ import annotations

import json
import os
import pwd
import sys
from datetime import UTC, datetime, timedelta, timezone

import pytest

from runners.agent.actions import ACTION_KEY, ActionRefused
from runners.agent.environment import (
    ALLOWED,
    SECRET,
    account_named,
    child_environment,
    inherited,
    run_variables,
)
from tests.runners.agent.helpers import command, execute

HOST = {name: f"<{name}>" for name in ALLOWED | SECRET} | {
    "LC_ALL": "C",
    "LC_TIME": "de",
    "AWS_SECRET": "x",
    "LD_A": "y",
}


def variables(**changes: object) -> dict[str, str]:
    known = {"job_key": "demo:a", "execution_id": "e", "attempt": 2, "scheduled_for": None, "metadata": {}}
    return run_variables(**(known | changes))


def test_only_the_allow_list_is_inherited() -> None:
    assert inherited(HOST) == {name: f"<{name}>" for name in ALLOWED} | {"LC_ALL": "C", "LC_TIME": "de"}


def test_the_operator_can_allow_more() -> None:
    assert inherited(HOST, ["AWS_SECRET"])["AWS_SECRET"] == "x"


def test_no_option_lets_a_secret_through() -> None:
    assert not SECRET & inherited(HOST, SECRET).keys()


def test_the_run_tells_who_it_is() -> None:
    vienna = timezone(timedelta(hours=1))
    told = variables(
        scheduled_for=datetime(2026, 3, 2, 13, 0, 0, 5, tzinfo=vienna),
        metadata={"region": "Kärnten", ACTION_KEY: {"type": "command"}, "n": [1]},
    )
    assert told == {
        "CRONIQ_JOB_KEY": "demo:a",
        "CRONIQ_EXECUTION_ID": "e",
        "CRONIQ_ATTEMPT": "2",
        "CRONIQ_SCHEDULED_FOR": "2026-03-02T12:00:00.000005Z",
        "CRONIQ_METADATA": '{"region":"Kärnten","n":[1]}',
    }


def test_an_unknown_instant_is_left_out() -> None:
    assert "CRONIQ_SCHEDULED_FOR" not in variables()
    assert "CRONIQ_SCHEDULED_FOR" in variables(scheduled_for=datetime(2026, 3, 2, tzinfo=UTC))


def test_the_action_may_set_variables_but_not_the_runs_identity() -> None:
    env = child_environment(
        {"PATH": "/bin", "HOME": "/root"},
        account=None,
        action_env={"HOME": "/srv", "DATABASE_URL": "mine", "CRONIQ_JOB_KEY": "another:job"},
        run=variables(),
    )
    assert (env["PATH"], env["HOME"], env["DATABASE_URL"], env["CRONIQ_JOB_KEY"]) == ("/bin", "/srv", "mine", "demo:a")


def test_a_real_process_sees_exactly_that() -> None:
    env = child_environment(
        inherited({"PATH": os.environ["PATH"], "CRONIQ_RUNNER_KEY": "croniq_secret", "DATABASE_URL": "postgres://"}),
        account=None,
        action_env={"A": "1"},
        run=variables(metadata={"x": "→" * 20_000}),
    )
    code = "import json, os; print(json.dumps(sorted(os.environ))); print(os.environ['CRONIQ_METADATA'][:9])"
    lines = [message for _, _, message in execute(command(argv=[sys.executable, "-c", code]), env=env)]
    seen = set(json.loads(lines[0])) - {"LC_CTYPE"}  # Python's own coercion of the C locale
    assert seen == {"PATH", "A", "CRONIQ_JOB_KEY", "CRONIQ_EXECUTION_ID", "CRONIQ_ATTEMPT", "CRONIQ_METADATA"}
    assert lines[1] == '{"x":"→→→'


def test_only_root_changes_the_user(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(ActionRefused, match="runs as root"):
        account_named("nobody")


def test_an_unknown_user_is_refused_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    with pytest.raises(ActionRefused, match="no-such-user"):
        account_named("no-such-user")


def test_an_account_brings_its_home_and_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    entry = pwd.getpwnam("nobody")
    account = account_named("nobody")
    assert (account.uid, account.gid) == (entry.pw_uid, entry.pw_gid)
    assert entry.pw_gid in account.groups
    env = child_environment({"HOME": "/root", "USER": "root"}, account=account, action_env={}, run={})
    assert (env["HOME"], env["USER"], env["LOGNAME"], env["SHELL"]) == (
        entry.pw_dir,
        "nobody",
        "nobody",
        entry.pw_shell,
    )
