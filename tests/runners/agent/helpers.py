"""Real processes for the agent's tests, and a log that remembers what it was given."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

from runners.agent.actions import ACTION_KEY, CommandAction, action_of
from runners.agent.command import Patience, run_command
from runners.agent.output import LogSink

PATH = {"PATH": os.environ["PATH"]}
IMPATIENT = Patience(grace=0.2, idle=0.3, delivery=5.0)


class RecordingWriter:
    """Takes the place of the SDK's log writer: keeps every line, and the most text it held between two flushes."""

    def __init__(self) -> None:
        self.lines: list[tuple[str, str, str]] = []
        self.held = self.most_held = 0
        self.gate: asyncio.Event | None = None
        self.pause_seconds = 0.0

    async def write(self, message: str, *, level: str, fields: dict[str, str]) -> None:
        if self.gate is not None:
            await self.gate.wait()
        if self.pause_seconds:
            await asyncio.sleep(self.pause_seconds)
        self.lines.append((fields["stream"], level, message))
        self.held += len(message)
        self.most_held = max(self.most_held, self.held)

    async def flush(self) -> None:
        if self.gate is not None:
            await self.gate.wait()
        self.held = 0

    def of(self, stream: str) -> list[str]:
        return [message for name, _, message in self.lines if name == stream]


def command(**action: object) -> CommandAction:
    """Read a command as it comes with an assignment."""
    return action_of({ACTION_KEY: {"type": "command", **action}})


def execute(
    action: CommandAction,
    writer: RecordingWriter | None = None,
    *,
    env: dict[str, str] | None = None,
    timeout_seconds: float = 30.0,
    patience: Patience = IMPATIENT,
) -> list[tuple[str, str, str]]:
    """Run a command to its end and return its lines. Raises what `run_command` raises."""
    writer = writer or RecordingWriter()

    async def story() -> None:
        async with asyncio.timeout(15):  # a hang fails this test and not the whole run
            await run(action, writer, env=env, timeout_seconds=timeout_seconds, patience=patience)

    asyncio.run(story())
    return writer.lines


async def run(
    action: CommandAction,
    writer: RecordingWriter,
    *,
    env: dict[str, str] | None = None,
    timeout_seconds: float = 30.0,
    patience: Patience = IMPATIENT,
) -> None:
    await run_command(
        action,
        env=PATH if env is None else env,
        account=None,
        sink=LogSink(writer),
        timeout_seconds=timeout_seconds,
        patience=patience,
    )


async def until(condition, what: str, deadline_s: float = 10.0):
    """Wait inside a loop until `condition()` is true and return its answer; fail after `deadline_s` seconds."""
    try:
        async with asyncio.timeout(deadline_s):
            while not (answer := condition()):
                await asyncio.sleep(0.01)
            return answer
    except TimeoutError:
        raise AssertionError(f"not within {deadline_s} s: {what}") from None


def is_running(pid: int) -> bool:
    """True while the process exists and is no zombie."""
    return state(pid) not in ("Z", "X", "")


def state(pid: int) -> str:
    """Return the kernel's letter for what the process does (S sleeps, T is stopped, Z is a zombie), "" for none."""
    try:
        return Path(f"/proc/{pid}/stat").read_bytes().rpartition(b") ")[2].split()[0].decode()
    except (FileNotFoundError, ProcessLookupError):
        return ""
