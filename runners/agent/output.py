"""The output of a process, line by line into its run's log, with back-pressure all the way to the process."""

from __future__ import annotations

import asyncio
import logging
import subprocess
import time
from typing import IO, Protocol

from runners.agent.lines import LineSplitter
from runners.agent.secrets import Mask

log = logging.getLogger(__name__)

_CHUNK_BYTES = 64 * 1024
_UNSENT_BYTES = 256 * 1024
"""Text in the writer's queue before the pump waits until it is sent: 256 lines of 64 KiB would be 16 MiB a run."""

_SENT_BYTES = 12 * 1024 * 1024
"""More than the server keeps of a run (10 MiB, then it says so): what follows is read and dropped."""

_LOOK_SECONDS = 0.1


class LineWriter(Protocol):
    """Where lines go: the SDK's streaming log writer. ``write`` and ``flush`` wait while the server is slow."""

    async def write(self, message: str, *, level: str, fields: dict[str, str]) -> None: ...

    async def flush(self) -> None: ...


class LogSink:
    """Lines into a run's log, with bounded memory and a bounded total. ``mask``: hides the run's secrets."""

    def __init__(self, writer: LineWriter, mask: Mask | None = None) -> None:
        self._writer = writer
        self.mask = mask or Mask(())
        self._unsent = self._total = 0

    @property
    def is_full(self) -> bool:
        return self._total > _SENT_BYTES

    async def write(self, line: str, *, stream: str, level: str) -> None:
        size = len(line) + 1
        if self.is_full:
            return
        self._total += size
        self._unsent += size
        await self._writer.write(line, level=level, fields={"stream": stream})
        if self._unsent > _UNSENT_BYTES:
            await self.flush()

    async def say(self, message: str, *, level: str = "warn") -> None:
        """Write a line of the runner's own, whatever the process has printed before."""
        await self._writer.write(self.mask.text(message), level=level, fields={"stream": "runner"})

    async def flush(self) -> None:
        """Wait until every line so far has been sent, or given up by the SDK."""
        self._unsent = 0
        await self._writer.flush()


class _Pump:
    """Reads one pipe and writes its lines, in order."""

    def __init__(self, pipe: IO[bytes] | None, sink: LogSink, stream: str, level: str) -> None:
        self._pipe, self._sink, self._stream, self._level = pipe, sink, stream, level
        self._masked = sink.mask.stream()  # before lines are made: a secret may have some, or lie across two pieces
        self._splitter = LineSplitter()
        self._transport: asyncio.ReadTransport | None = None
        self.is_waiting = False  # for the process, as opposed to waiting for the server

    async def run(self) -> None:
        loop = asyncio.get_running_loop()
        reader = asyncio.StreamReader(limit=_CHUNK_BYTES)
        self._transport, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), self._pipe)
        while True:
            self.is_waiting = True
            data = await reader.read(_CHUNK_BYTES)
            self.is_waiting = False
            if not data:
                return
            if (
                not self._sink.is_full
            ):  # else not even worth splitting: a job that prints gigabytes shall not cost a core
                await self._write(self._splitter.feed(self._masked.feed(data)))

    def close(self) -> None:
        """Close the pipe: whoever still writes to it gets SIGPIPE, as from any reader that has gone."""
        if self._transport is not None:
            self._transport.close()
        else:
            self._pipe.close()

    async def finish(self) -> None:
        """Write a last line that no line feed ended."""
        await self._write(self._splitter.feed(self._masked.finish()) + self._splitter.finish())

    async def _write(self, lines: list[str]) -> None:
        for line in lines:
            await self._sink.write(line, stream=self._stream, level=self._level)


class Output:
    """Both streams of a started process: stdout as info, stderr as warn."""

    def __init__(self, popen: subprocess.Popen[bytes], sink: LogSink) -> None:
        self._sink = sink
        self._pumps = (_Pump(popen.stdout, sink, "stdout", "info"), _Pump(popen.stderr, sink, "stderr", "warn"))
        self._tasks = [asyncio.create_task(pump.run()) for pump in self._pumps]

    async def finish(self, *, idle_seconds: float, delivery_seconds: float) -> None:
        """Deliver what is left after the process has exited, and close the pipes.

        A background process may hold them open for ever: time in which nothing comes is spent at most ``idle_seconds``
        in all, then the log says so. Neither one that prints without a pause nor a server that does not take the lines
        keeps the run longer than ``delivery_seconds``. May be called again after a cancellation.
        """
        ends_at = time.monotonic() + delivery_seconds
        is_held = await self._read_rest(idle_seconds, ends_at)
        self.close()
        for failure in await asyncio.gather(*self._tasks, return_exceptions=True):
            if isinstance(failure, Exception):
                log.warning("the output of a process could not be read: %s", failure)
        try:
            async with asyncio.timeout(max(_LOOK_SECONDS, ends_at - time.monotonic())):
                for pump in self._pumps:
                    await pump.finish()
                if is_held:
                    await self._sink.say("a background process holds the output open; what it prints is lost from here")
                await self._sink.flush()
        except TimeoutError:
            log.warning("the server did not take all lines of a run within %g s", delivery_seconds)

    def close(self) -> None:
        """Read no more, and let go of the pipes. Harmless when it has been called before."""
        for task in self._tasks:
            task.cancel()
        for pump in self._pumps:
            pump.close()

    async def _read_rest(self, idle_seconds: float, ends_at: float) -> bool:
        """Let the pumps go on to the end of their pipes. True when somebody else keeps one of them open."""
        idle_left = idle_seconds
        while unfinished := [n for n, task in enumerate(self._tasks) if not task.done()]:
            began_at = time.monotonic()
            if idle_left <= 0 or began_at >= ends_at:
                return True
            await asyncio.wait([self._tasks[n] for n in unfinished], timeout=min(_LOOK_SECONDS, idle_left))
            # Only waiting for the process counts, not waiting for the server; and it adds up, or a background process
            # that prints a line now and then would keep the run for ever.
            if all(self._pumps[n].is_waiting for n in unfinished):
                idle_left -= time.monotonic() - began_at
        return False
