"""The runner as a process: SDK, handler, signals."""

from __future__ import annotations

import asyncio
import logging
import signal
import time
from dataclasses import dataclass, field

import httpx
from croniq_runner import Runner, RunnerOptions

from croniq_site.kernel import tracing
from croniq_site.kernel.capabilities import COMMAND, COMMAND_ONLY, HTTP
from runners.agent.addresses import HostRules
from runners.agent.client import AgentClient
from runners.agent.command import Patience
from runners.agent.handler import ActionHandler

log = logging.getLogger(__name__)

_LAST_ACKS_SECONDS = 30.0
_LOOK_SECONDS = 0.05
_POLL_RETRY_MS = 2_000


@dataclass(frozen=True, slots=True)
class AgentSettings:
    """What a runner needs to know. ``runner_id`` None: the SDK's, kept in its state directory over restarts."""

    server_url: str
    api_key: str = field(repr=False)
    runner_id: str | None = None
    capabilities: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    max_inflight: int = 5
    allow_env: tuple[str, ...] = ()
    http_allow: HostRules = field(default_factory=HostRules)
    http_only: bool = False
    allow_insecure_http: bool = False
    drain_seconds: float = 30.0
    patience: Patience = field(default_factory=Patience)


class Agent:
    """A runner that ends in good order: one signal drains it, a second ends its runs at once."""

    def __init__(self, settings: AgentSettings, *, transport: httpx.AsyncBaseTransport | None = None) -> None:
        """Raises ValueError or httpx.InvalidURL when an option is refused. ``transport`` None means the network."""
        executes = [HTTP] if settings.http_only else [COMMAND, HTTP]
        self._options = RunnerOptions(
            server_url=settings.server_url,
            api_key=settings.api_key,
            runner_id=settings.runner_id,
            capabilities=[*settings.capabilities, *executes, COMMAND_ONLY],
            tags=list(settings.tags),
            max_inflight=settings.max_inflight,
            allow_insecure_http=settings.allow_insecure_http,
            drain_timeout_ms=int(settings.drain_seconds * 1000),
            poll_retry_delay_ms=_POLL_RETRY_MS,
        )
        self._client = AgentClient(self._options, transport=transport)
        self._handler = ActionHandler(
            allow_env=settings.allow_env,
            http_allow=settings.http_allow,
            http_only=settings.http_only,
            patience=settings.patience,
            traceparent_of=lambda run_id: self._client.traceparents.get(run_id),
        )
        self._runner = Runner(self._options, client=self._client)
        self._runner.set_default_handler(self._handler.handle)
        self._is_draining = False
        self._polling: asyncio.Task[None] | None = None
        self._leaving: asyncio.Task[None] | None = None

    async def run(self) -> None:
        """Work until told to stop and drained. Raises the SDK's errors for what retrying cannot mend."""
        if tracing.active is not None:
            from runners.agent.sdk_spans import give_to_sdk

            give_to_sdk(tracing.active, lambda run_id: self._client.traceparents.get(run_id))
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self.stop)
        self._polling = polling = asyncio.create_task(self._runner.run())
        try:
            # Not `await polling`: a cancellation of ours and the end of a poll that we cancelled must stay two things.
            await asyncio.wait({polling})
        finally:
            polling.cancel()
            await self._end_what_is_left()
            await self._client.own_http.aclose()
        if not polling.cancelled():
            polling.result()
        log.info("drained, nothing left to do")

    def stop(self) -> None:
        """First call: take no new work and let the runs end. Second call: end them now."""
        if self._is_draining:
            log.info("stopping %d run(s) at once", len(self._runner.inflight))
            self._handler.stop_all()
            return
        self._is_draining = self._client.is_leaving = True
        log.info(
            "draining: no new work, %d run(s) have up to %g s; a second signal ends them at once",
            len(self._runner.inflight),
            self._options.drain_timeout_ms / 1000,
        )
        self._runner.request_drain()
        # The server holds a poll up to 30 s. Cancelling run() is how the SDK wants to be told, but only inside a poll:
        # a cancellation while it already drains would tear the drain.
        if self._polling is not None and self._client.is_polling:
            self._polling.cancel()
            self._leaving = asyncio.create_task(self._leave())

    async def _leave(self) -> None:
        while self._client.is_polling:  # until the cancellation has arrived there
            await asyncio.sleep(0)
        await self._client.leave(self._runner.inflight)

    async def _end_what_is_left(self) -> None:
        """After run() ended for whatever reason, nothing of ours may go on: end the runs and wait for their acks."""
        self._handler.stop_all()
        ends_at = time.monotonic() + _LAST_ACKS_SECONDS
        while self._runner.inflight and time.monotonic() < ends_at:
            await asyncio.sleep(_LOOK_SECONDS)
        if self._leaving is not None:
            await self._leaving
