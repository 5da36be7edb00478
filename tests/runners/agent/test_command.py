"""How a command starts, and what its end says."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from runners.agent.actions import ActionRefused
from runners.agent.command import CommandFailed, run_command, seconds_text
from runners.agent.environment import account_named
from runners.agent.output import LogSink
from tests.runners.agent.helpers import IMPATIENT, PATH, RecordingWriter, command, execute


def failure(**action: object) -> str:
    with pytest.raises(CommandFailed) as caught:
        execute(command(**action))
    return str(caught.value)


def refusal(**action: object) -> str:
    with pytest.raises(ActionRefused) as caught:
        execute(command(**action))
    return str(caught.value)


def test_exit_code_zero_is_success() -> None:
    assert execute(command(argv=["echo", "a b"])) == [("stdout", "info", "a b")]


def test_another_exit_code_is_the_error() -> None:
    assert failure(shell="exit 3") == "exit code 3"


def test_a_signal_is_the_error_by_number_and_name() -> None:
    assert failure(shell="kill -9 $$") == "killed by signal 9 (SIGKILL)"
    assert failure(shell="kill -40 $$") == "killed by signal 40"


def test_a_program_that_does_not_exist_is_named() -> None:
    assert refusal(argv=["no-such-program"]).startswith(
        "command not found: 'no-such-program' is in no directory of PATH"
    )
    assert refusal(argv=["/no/such/program"]) == "command not found: '/no/such/program' does not exist"


def test_a_file_that_cannot_be_executed_is_named_with_the_reason(tmp_path: Path) -> None:
    plain, script = tmp_path / "plain", tmp_path / "script"
    plain.write_text("text")
    plain.chmod(0o644)
    assert refusal(argv=[str(plain)]) == f"cannot start {str(plain)!r}: Permission denied"
    script.write_text("#!/no/such/interpreter\n")
    script.chmod(0o755)
    assert "interpreter" in refusal(argv=["./script"], cwd=str(tmp_path))


def test_a_working_directory_is_used_or_refused_by_name(tmp_path: Path) -> None:
    assert execute(command(argv=["pwd"], cwd=str(tmp_path))) == [("stdout", "info", str(tmp_path))]
    assert "'/no/such/folder'" in refusal(argv=["pwd"], cwd="/no/such/folder")


def test_the_home_directory_of_the_process_is_a_working_directory(tmp_path: Path) -> None:
    env = PATH | {"HOME": str(tmp_path)}
    assert execute(command(argv=["pwd"], cwd="~"), env=env) == [("stdout", "info", str(tmp_path))]
    for home in ({}, {"HOME": "/nonexistent"}):
        assert execute(command(argv=["pwd"], cwd="~"), env=PATH | home) == [("stdout", "info", "/")]


def test_nothing_is_on_stdin() -> None:
    assert execute(command(argv=["cat"])) == []


def test_what_the_action_has_for_stdin_is_read_to_its_end() -> None:
    assert execute(command(argv=["cat"], stdin="one\n\u00fc two\n")) == [
        ("stdout", "info", "one"),
        ("stdout", "info", "\u00fc two"),
    ]


def test_stdin_that_nobody_reads_holds_nothing_up() -> None:
    assert execute(command(argv=["true"], stdin="x" * 500_000)) == []


def test_the_command_leads_a_session_of_its_own() -> None:
    own, session = execute(command(shell="echo $$; ps -o sid= -p $$"))
    assert own[2] == session[2].strip()


def test_arguments_that_the_system_does_not_take_are_a_reason_too() -> None:
    assert "Argument list too long" in refusal(argv=["echo", "x" * 3_000_000])


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can change users")
def test_a_command_runs_as_the_user_it_asks_for() -> None:
    writer = RecordingWriter()
    asyncio.run(
        run_command(
            command(shell="id -un; id -Gn", user="nobody"),
            env=PATH,
            account=account_named("nobody"),
            sink=LogSink(writer),
            timeout_seconds=30,
            patience=IMPATIENT,
        )
    )
    assert writer.of("stdout")[0] == "nobody"
    assert "root" not in writer.of("stdout")[1].split()


def test_the_time_limit_is_told_as_it_was_given() -> None:
    assert [seconds_text(s) for s in (300.0, 0.5, 1e8)] == ["300s", "0.5s", "100000000s"]
