"""A runner that may be killed at any moment: `python runner.py URL KEY RUNNER_ID JOURNAL [CAPABILITY…]`.

The unmodified public SDK. What its handler does is in the job's metadata: ``plan`` and ``most_ms``. Each begin and each
end of it is a line in JOURNAL before anybody else can know of it: `EVENT RUN ATTEMPT MONOTONIC`. The kernel has the
line once it is written, whatever becomes of this process.
"""

from __future__ import annotations

import asyncio
import os
import sys
import time

from croniq_runner import HandlerError, Runner, RunnerOptions

URL, KEY, RUNNER_ID, JOURNAL, *CAPABILITIES = sys.argv[1:]
journal = os.open(JOURNAL, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)


def note(event: str, ctx) -> None:
    os.write(journal, f"{event} {ctx.execution_id} {ctx.attempt} {time.monotonic()}\n".encode())


async def work(ctx) -> None:
    plan, most_ms = ctx.metadata["plan"], int(ctx.metadata["most_ms"])
    note("began", ctx)
    try:
        if plan == "hangs once" and ctx.attempt == 1:
            await asyncio.Event().wait()
        await asyncio.sleep(int(ctx.execution_id.replace("-", "")[-6:], 16) % (most_ms + 1) / 1000)
    except asyncio.CancelledError:
        note("cancelled", ctx)
        raise
    if plan == "fails" or (plan == "fails once" and ctx.attempt == 1):
        note("failed", ctx)
        raise HandlerError("as planned")
    note("done", ctx)


runner = Runner(
    RunnerOptions(
        server_url=URL,
        api_key=KEY,
        runner_id=RUNNER_ID,
        capabilities=CAPABILITIES,
        max_inflight=10,
        renew_interval_ms=1000,
        poll_retry_delay_ms=300,
    )
)
runner.set_default_handler(work)
asyncio.run(runner.run())
