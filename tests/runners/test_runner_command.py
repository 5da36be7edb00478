"""`manage.py runner`: its options, and that it needs nothing but a server's URL and a key."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from ipaddress import ip_network
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command

from runners.agent.addresses import HostRules
from runners.management.commands import runner
from tests.support.polling import poll_until

ROOT = Path(__file__).resolve().parents[2]
GIVEN = ["--server", "http://127.0.0.1:1", "--key", "croniq_k"]


@pytest.fixture(autouse=True)
def _no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("CRONIQ_SERVER_URL", "CRONIQ_RUNNER_KEY", "CRONIQ_RUNNER_KEY_FILE"):
        monkeypatch.delenv(name, raising=False)


def refusal(*arguments: str) -> str:
    with pytest.raises(CommandError) as caught:
        runner._agent(settings_of(*arguments))
    assert caught.value.returncode == 2
    assert "\n" not in str(caught.value)
    return str(caught.value)


def settings_of(*arguments: str, environ: dict[str, str] | None = None):
    parser = runner.Command().create_parser("manage.py", "runner")
    return runner._settings(vars(parser.parse_args(arguments)), environ or {})


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["--key", "k"], "--server"),
        (["--server", "http://127.0.0.1:1"], "--key"),
        (["--server", "127.0.0.1:4000", "--key", "k"], "'127.0.0.1:4000' is not a URL"),
        (["--server", "ftp://a", "--key", "k"], "'ftp://a' is not a URL"),
        (["--server", "http://", "--key", "k"], "'http://' is not a URL"),
        (["--server", "http://a:99999", "--key", "k"], "'http://a:99999' is not a URL"),
        (["--server", "http://[::1", "--key", "k"], "is not a URL"),
        (["--server", "http://croniq.example.org", "--key", "k"], "--allow-insecure-http"),
        (["--server", "http://127.0.0.1:1", "--key", "a b"], "--key"),
        (["--server", "http://127.0.0.1:1", "--key", "schlüssel"], "--key"),
        ([*GIVEN, "--max-inflight", "0"], "--max-inflight"),
        ([*GIVEN, "--max-inflight", "1001"], "--max-inflight"),
        ([*GIVEN, "--runner-id", "a\n"], "--runner-id"),
        ([*GIVEN, "--capability", ""], "--capability"),
        ([*GIVEN, "--tag", "a=" + "x" * 255], "--tag"),
        ([*GIVEN, "--drain-timeout", "nan"], "--drain-timeout"),
        ([*GIVEN, "--drain-timeout", "-1"], "--drain-timeout"),
        ([*GIVEN, "--tag", "blue"], "'blue'"),
        ([*GIVEN, "--tag", "=blue"], "'=blue'"),
        ([*GIVEN, "--allow-env", "A B"], "'A B'"),
        ([*GIVEN, "--allow-env", "DATABASE_URL"], "DATABASE_URL is a secret"),
        ([*GIVEN, "--allow-env", "CRONIQ_RUNNER_KEY"], "CRONIQ_RUNNER_KEY is a secret"),
        ([*GIVEN, "--allow-env", "CRONIQ_SECRET_TOKEN"], "CRONIQ_SECRET_TOKEN is a secret"),
        ([*GIVEN, "--http-allow", "https://a.test"], "--http-allow: 'https://a.test' is neither"),
        ([*GIVEN, "--http-allow", "10.0.0.0/99"], "--http-allow: '10.0.0.0/99' is neither"),
    ],
)
def test_nonsense_is_refused_by_the_options_name(arguments: list[str], named: str) -> None:
    assert named in refusal(*arguments)


def test_plain_http_to_another_machine_needs_a_word(caplog: pytest.LogCaptureFixture) -> None:
    given = settings_of("--server", "http://croniq.example.org", "--key", "k", "--allow-insecure-http")
    assert runner._agent(given)
    assert "cleartext" in caplog.text


def test_options_reach_the_agent() -> None:
    given = settings_of(
        *GIVEN,
        *("--capability", "gpu", "--capability", "eu", "--tag", "zone=a", "--runner-id", "r1"),
        *("--max-inflight", "7", "--allow-env", "AWS_PROFILE", "--drain-timeout", "90"),
        *("--http-allow", "*.Example.org", "--http-allow", "10.0.0.0/8", "--http-only"),
    )
    assert given.http_allow == HostRules(("*.example.org",), (ip_network("10.0.0.0/8"),))
    assert given.http_only
    assert (given.capabilities, given.tags, given.runner_id) == (("gpu", "eu"), ("zone=a",), "r1")
    assert (given.max_inflight, given.allow_env, given.drain_seconds) == (7, ("AWS_PROFILE",), 90.0)


def test_server_and_key_come_from_the_environment_too(tmp_path: Path) -> None:
    file = tmp_path / "key"
    file.write_text("croniq_file\n")
    environ = {"CRONIQ_SERVER_URL": "https://croniq.example.org", "CRONIQ_RUNNER_KEY_FILE": str(file)}
    assert settings_of(environ=environ).api_key == "croniq_file"
    assert settings_of(environ=environ | {"CRONIQ_RUNNER_KEY": "croniq_env"}).api_key == "croniq_env"
    assert settings_of("--key", "croniq_option", environ=environ).api_key == "croniq_option"
    assert settings_of(environ=environ).server_url == "https://croniq.example.org"


def test_a_key_file_that_cannot_be_read_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CRONIQ_RUNNER_KEY_FILE", "/no/such/file")
    with pytest.raises(CommandError, match="/no/such/file"):
        call_command("runner", "--server", "http://127.0.0.1:1")


def test_the_key_is_in_no_representation() -> None:
    assert "croniq_k" not in repr(settings_of(*GIVEN))


@pytest.mark.realtime
def test_it_runs_without_a_database_and_one_signal_ends_it(tmp_path: Path) -> None:
    """The database's port refuses every connection, and so does the server's: it keeps trying, and ends cleanly."""
    log = tmp_path / "log"
    environment = os.environ | {
        "DATABASE_URL": "postgres://croniq@127.0.0.1:1/croniq",
        "CRONIQ_DATA_DIR": str(tmp_path),
        "CRONIQ_RUNNER_KEY": "croniq_k",
    }
    with log.open("w") as stderr:
        process = subprocess.Popen(
            [sys.executable, "manage.py", "runner", "--server", "http://127.0.0.1:1", "--runner-id", "r"],
            cwd=ROOT,
            env=environment,
            stderr=stderr,
        )
    try:
        poll_until(lambda: "poll failed" in log.read_text(), 30, what="it tries to reach the server")
        process.send_signal(signal.SIGTERM)
        assert process.wait(5) == 0
    finally:
        process.kill()
        process.wait()
    assert "Traceback" not in log.read_text()
    assert "croniq_k" not in log.read_text()
    assert "drained" in log.read_text()
