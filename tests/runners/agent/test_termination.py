"""Cancelled or late: no process of the group survives, and those that can clean up may."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time

import pytest

from runners.agent.command import CommandFailed, Patience
from tests.runners.agent.helpers import IMPATIENT, RecordingWriter, command, execute, is_running, run, state, until
from tests.support.polling import poll_until

STUBBORN = "sh -c 'trap \"\" TERM; echo $$; exec sleep 1000' & "
"""A child that ignores SIGTERM before it tells its number; what is ignored stays ignored over exec."""

PATIENT = Patience(grace=20.0, idle=0.3, delivery=5.0)
"""Grace so long that a test which waits for it fails by its deadline."""


def cancel_when(action, is_time, patience: Patience = IMPATIENT) -> tuple[RecordingWriter, float]:
    """Run a command, cancel it when `is_time(lines of stdout)`, and return its log and how long its end took."""
    writer = RecordingWriter()

    async def story() -> float:
        task = asyncio.create_task(run(action, writer, patience=patience))
        await until(lambda: is_time(writer.of("stdout")) or task.done(), "the command is where it shall be cancelled")
        assert not task.done()
        cancelled_at = time.monotonic()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return time.monotonic() - cancelled_at

    return writer, asyncio.run(story())


def pids(writer: RecordingWriter) -> list[int]:
    return [int(line) for line in writer.of("stdout") if line.isdigit()]


def test_a_cancelled_command_ends_with_all_its_children() -> None:
    writer, _ = cancel_when(command(shell="echo $$; sleep 1000 & echo $!; wait"), lambda lines: len(lines) == 2)
    assert [is_running(pid) for pid in pids(writer)] == [False, False]


def test_children_that_ignore_sigterm_are_killed() -> None:
    writer, _ = cancel_when(command(shell=STUBBORN + "echo $$; wait"), lambda lines: len(lines) == 2)
    assert [is_running(pid) for pid in pids(writer)] == [False, False]


def test_a_silent_grandchild_is_killed_though_the_leader_and_the_pipes_are_gone() -> None:
    """The leader dies of SIGTERM at once and nobody holds a pipe; only the group still knows the grandchild."""
    writer, _ = cancel_when(
        command(shell=STUBBORN.replace("1000", "1000 >/dev/null 2>&1") + "sleep 1000"), lambda lines: lines
    )
    assert [is_running(pid) for pid in pids(writer)] == [False]


def test_children_of_a_leader_that_has_exited_already_are_ended_too() -> None:
    """The leader is gone and its child holds the pipe: the cancel comes while the output is drained."""
    writer, _ = cancel_when(
        command(shell=STUBBORN + "echo leader; echo $$"),
        lambda lines: len(lines) == 3 and not is_running(int(lines[lines.index("leader") + 1])),
        Patience(grace=0.2, idle=8.0, delivery=8.0),
    )
    assert [is_running(pid) for pid in pids(writer)] == [False, False]


def test_a_command_may_clean_up_and_its_last_words_are_delivered() -> None:
    writer, took = cancel_when(
        command(shell="trap 'echo cleaned; exit 0' TERM; echo ready; while :; do sleep 0.01; done"),
        lambda lines: lines,
        PATIENT,
    )
    assert writer.of("stdout") == ["ready", "cleaned"]
    assert took < 5


def test_children_have_their_grace_also_when_the_leader_is_gone() -> None:
    """The shell dies of SIGTERM at once; its child, whose output goes elsewhere, still cleans up."""
    child = "trap 'echo cleaned >&3; exit 0' TERM; echo ready >&3; while :; do sleep 0.01; done"
    writer, took = cancel_when(
        command(argv=["sh", "-c", 'exec 3>&1; sh -c "$0" >/dev/null 2>&1 & wait', child]), lambda lines: lines, PATIENT
    )
    assert writer.of("stdout") == ["ready", "cleaned"]
    assert took < 5


def test_a_stopped_process_gets_its_sigterm() -> None:
    shell = "trap 'echo cleaned; exit 0' TERM; echo $$; kill -STOP $$; sleep 1000"
    writer, took = cancel_when(command(shell=shell), lambda lines: lines and state(int(lines[0])) == "T", PATIENT)
    assert writer.of("stdout")[1:] == ["cleaned"]
    assert took < 5


def test_a_second_cancellation_costs_the_grace_but_not_the_end() -> None:
    writer = RecordingWriter()

    async def story() -> float:
        task = asyncio.create_task(run(command(shell=STUBBORN + "echo $$; wait"), writer, patience=PATIENT))
        await until(lambda: len(pids(writer)) == 2, "both have started")
        task.cancel()
        await until(lambda: not all(map(is_running, pids(writer))), "the leader has died of SIGTERM")
        cancelled_at = time.monotonic()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return time.monotonic() - cancelled_at

    assert asyncio.run(story()) < 5
    poll_until(lambda: not any(is_running(pid) for pid in pids(writer)), what="both are dead")


def test_a_late_command_is_ended_and_says_so() -> None:
    writer = RecordingWriter()
    began_at = time.monotonic()
    with pytest.raises(CommandFailed, match=r"^timed out after 1s$"):
        execute(command(shell=STUBBORN + "echo $$; wait"), writer, timeout_seconds=1.0)
    assert time.monotonic() - began_at < 5
    assert len(pids(writer)) == 2
    assert [is_running(pid) for pid in pids(writer)] == [False, False]


def test_a_late_command_that_ends_well_when_asked_is_late_nevertheless() -> None:
    with pytest.raises(CommandFailed, match="timed out"):
        execute(
            command(shell="trap 'exit 0' TERM; while :; do sleep 0.01; done"), timeout_seconds=0.2, patience=PATIENT
        )


def test_a_background_process_of_a_command_that_ended_lives_on() -> None:
    """As under cron: who starts a daemon wants it."""
    writer = RecordingWriter()
    execute(command(shell="sleep 1000 >/dev/null 2>&1 & echo $!"), writer)
    assert is_running(pids(writer)[0])
    os.kill(pids(writer)[0], signal.SIGKILL)


def test_the_leaders_number_is_kept_until_its_run_is_over() -> None:
    """While it is a zombie of ours the kernel gives its number to nobody, so that the group's signals cannot stray."""
    writer = RecordingWriter()

    async def story() -> str:
        task = asyncio.create_task(
            run(command(shell="sleep 1000 & echo $$"), writer, patience=Patience(grace=0.2, idle=60.0, delivery=60.0))
        )
        leader = (await until(lambda: pids(writer), "the leader has begun"))[0]
        await until(lambda: not is_running(leader), "the leader has exited")
        found = state(leader)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert state(leader) == ""
        return found

    assert asyncio.run(story()) == "Z"


def test_a_zombie_that_nobody_collects_is_not_waited_for() -> None:
    """A member of the group dies, and its parent, which has left the group, never collects it."""
    code = (
        "import os, time\n"
        "if os.fork() == 0:\n"
        "    child = os.fork()\n"
        "    if child == 0: time.sleep(1000)\n"  # stays in the group of the leader
        "    os.setsid(); print(os.getpid(), flush=True); os.close(1); os.close(2)\n"
        "time.sleep(1000)\n"
    )
    writer, took = cancel_when(command(argv=[sys.executable, "-c", code]), lambda lines: lines, PATIENT)
    assert took < 5
    os.kill(pids(writer)[0], signal.SIGKILL)
