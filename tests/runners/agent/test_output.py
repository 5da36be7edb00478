"""The output of a command: complete, in order, bounded, and never a reason to hang."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time

import pytest

from runners.agent.command import CommandFailed, Patience
from runners.agent.lines import CONTINUED, LINE_BYTES
from tests.runners.agent.helpers import RecordingWriter, command, execute, run, until


def python(code: str):
    return command(argv=[sys.executable, "-c", code])


def test_five_thousand_lines_on_both_streams_arrive_complete_and_in_order() -> None:
    writer = RecordingWriter()
    execute(
        python("import sys\nfor i in range(5000): print('o', i, flush=True); print('e', i, file=sys.stderr)"), writer
    )
    assert writer.of("stdout") == [f"o {i}" for i in range(5000)]
    assert writer.of("stderr") == [f"e {i}" for i in range(5000)]


def test_stdout_is_info_and_stderr_is_warn() -> None:
    assert sorted(execute(command(shell="echo a; echo b >&2"))) == [("stderr", "warn", "b"), ("stdout", "info", "a")]


def test_lines_come_while_the_command_runs() -> None:
    writer = RecordingWriter()

    async def story() -> None:
        task = asyncio.create_task(run(command(shell="echo first; sleep 1000"), writer))
        await until(lambda: writer.of("stdout"), "the first line")
        assert not task.done()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(story())
    assert writer.of("stdout") == ["first"]


def test_a_last_line_without_an_end_is_sent() -> None:
    assert execute(command(shell="printf 'a\\nb'")) == [("stdout", "info", "a"), ("stdout", "info", "b")]


def test_a_huge_line_arrives_in_pieces() -> None:
    writer = RecordingWriter()
    execute(python("print('x' * 3_000_000)"), writer)
    pieces = writer.of("stdout")
    assert "".join(piece.removesuffix(CONTINUED) for piece in pieces) == "x" * 3_000_000
    assert max(len(piece.encode()) for piece in pieces) <= LINE_BYTES


def test_binary_garbage_survives() -> None:
    writer = RecordingWriter()
    execute(python("import sys; sys.stdout.buffer.write(bytes(range(256)) * 1000)"), writer)
    text = "\n".join(writer.of("stdout"))
    assert len(writer.of("stdout")) >= 1000
    assert "\0" not in text
    assert "\ufffd" in text


def test_a_background_process_that_holds_the_output_is_not_waited_for() -> None:
    writer = RecordingWriter()
    began_at = time.monotonic()
    shell = "sleep 1000 & echo $!; exit 0"
    execute(command(shell=shell), writer, patience=Patience(grace=0.2, idle=0.3, delivery=60.0))
    assert time.monotonic() - began_at < 10
    os.kill(int(writer.of("stdout")[0]), signal.SIGKILL)
    assert "background process" in writer.of("runner")[0]


def test_nor_is_one_that_prints_now_and_then() -> None:
    """It dies of SIGPIPE when the pipe is closed."""
    writer = RecordingWriter()
    shell = "(while echo noise; do sleep 0.02; done) 2>/dev/null & echo done; exit 0"
    execute(command(shell=shell), writer, patience=Patience(grace=0.2, idle=0.3, delivery=60.0))
    assert "done" in writer.of("stdout")
    assert "background process" in writer.of("runner")[0]


def test_nor_is_one_that_prints_without_a_pause_to_a_slow_server() -> None:
    writer = RecordingWriter()
    writer.pause_seconds = 0.001
    shell = "yes $(printf %01000d 0) 2>/dev/null & echo done; exit 0"
    execute(command(shell=shell), writer, patience=Patience(grace=0.2, idle=60.0, delivery=0.5))
    assert len(writer.of("stdout")) > 50
    assert "background process" in writer.of("runner")[0]


def test_what_the_command_left_in_the_pipe_is_delivered_however_slow_the_server_is() -> None:
    """The wait for background processes must not cut the command's own last lines while the server is slow."""
    writer = RecordingWriter()

    async def story() -> None:
        writer.gate = asyncio.Event()
        task = asyncio.create_task(
            run(command(shell="seq 4000"), writer, patience=Patience(grace=0.2, idle=0.1, delivery=30.0))
        )
        asyncio.get_running_loop().call_later(0.5, writer.gate.set)
        await task

    asyncio.run(story())
    assert writer.of("stdout") == [str(n) for n in range(1, 4001)]


def test_a_server_that_takes_nothing_slows_the_command_and_ends_with_it() -> None:
    """Eight MiB fit nowhere between a process and a log that takes nothing: the command waits until it is late."""
    writer = RecordingWriter()

    async def story() -> None:
        writer.gate = asyncio.Event()
        await run(
            python("print(('x' * 60_000 + '\\n') * 140, flush=True)"),
            writer,
            timeout_seconds=1.0,
            patience=Patience(grace=0.2, idle=0.1, delivery=0.3),
        )

    with pytest.raises(CommandFailed, match="timed out"):
        asyncio.run(story())
    assert writer.lines == []


def test_little_text_waits_to_be_sent() -> None:
    writer = RecordingWriter()
    execute(python("print(('x' * 60_000 + '\\n') * 60)"), writer)
    assert len(writer.of("stdout")) >= 60
    assert writer.most_held < 400_000


def test_more_than_the_server_keeps_is_read_and_dropped() -> None:
    writer = RecordingWriter()
    execute(python("print(('x' * 60_000 + '\\n') * 400)"), writer)
    sent = sum(len(line) for line in writer.of("stdout"))
    assert 12 * 1024 * 1024 < sent < 12 * 1024 * 1024 + 2 * LINE_BYTES
