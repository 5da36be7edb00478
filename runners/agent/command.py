"""One command from start to end: its output, its time limit, its cancellation and its verdict."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from runners.agent.actions import CommandAction
from runners.agent.environment import Account
from runners.agent.output import LogSink, Output
from runners.agent.process import ProcessGroup, describe_exit


class CommandFailed(Exception):
    """The command did not succeed; the text is the run's error."""


@dataclass(frozen=True, slots=True)
class Patience:
    """How long, in seconds: a group has between SIGTERM and SIGKILL; background processes that hold the output of an
    exited process are waited for; a slow server has to take the last lines."""

    grace: float = 5.0
    idle: float = 2.0
    delivery: float = 30.0


async def run_command(
    action: CommandAction,
    *,
    env: Mapping[str, str],
    account: Account | None,
    sink: LogSink,
    timeout_seconds: float,
    patience: Patience,
) -> None:
    """Run ``action`` to its end and return if its exit code is 0.

    Raises ActionRefused when it cannot be started, CommandFailed with its verdict otherwise. When the time is over or
    the task is cancelled, the whole process group is ended before this returns; what had been printed is delivered.
    A process that the command leaves in the background on purpose lives on, as under cron.
    """
    group = ProcessGroup.start(
        action.argv, cwd=_directory(action.cwd, env), env=env, account=account, stdin=action.stdin
    )
    output = Output(group.popen, sink)
    is_late = False
    try:
        try:
            async with asyncio.timeout(timeout_seconds):
                await group.exited.wait()
        except TimeoutError:
            is_late = True
            await group.terminate(patience.grace)
        await output.finish(idle_seconds=patience.idle, delivery_seconds=patience.delivery)
    except asyncio.CancelledError:
        # Also when the leader has exited already: what it left in its group while its output was drained goes too.
        await group.terminate(patience.grace)
        await output.finish(idle_seconds=patience.idle, delivery_seconds=patience.delivery)
        raise
    finally:
        output.close()
    code = group.reap() if group.exited.is_set() else None
    error = f"timed out after {seconds_text(timeout_seconds)}" if is_late else describe_exit(code or 0)
    if error is not None:
        raise CommandFailed(error)


def _directory(cwd: str | None, env: Mapping[str, str]) -> str | None:
    """``~`` is the home directory, and for an account that has none the root, as under cron."""
    if cwd != "~":
        return cwd
    home = env.get("HOME", "")
    return home if home and Path(home).is_dir() else "/"


def seconds_text(seconds: float) -> str:
    return f"{int(seconds)}s" if seconds == int(seconds) else f"{seconds}s"
