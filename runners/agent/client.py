"""The SDK's client, with three things added from outside: leases, a poll that can be seen, and patience with log lines.

`croniq_runner.Runner` takes a client as a public argument, and its client takes an httpx client; nothing of the SDK is
replaced. Only the class's home, ``croniq_runner._client``, is a private module: the SDK exports it nowhere else.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import logging
import math
from typing import Any

import httpx
from croniq_runner import RunnerOptions
from croniq_runner._client import CroniqClient

from croniq_site.kernel.tracing import place_of

log = logging.getLogger(__name__)

POLL_PATH = "/v1/work/poll"
_LEAST_INTERVAL_SECONDS = 1.0
_LEAVE_SECONDS = 2.0
_EVENT_RETRY_SECONDS = (0.5, 1.0, 2.0, 4.0)
_ACK_PATIENCE_SECONDS = 60.0
_LAST_ACK_PATIENCE_SECONDS = 5.0  # of a runner that was told to stop: it does not outlive its server by minutes
_ACK_RETRY_SECONDS = (0.5, 1.0, 2.0, 4.0)


class AgentClient(CroniqClient):
    """Renews every third of the shortest lease that the runner holds, as the assignments say it (protocol: ``lease``).

    The SDK's model drops that field, and ``traceparent``, so they are read from the answer itself, and the interval is
    set before the SDK starts the renewal of the runs in that answer. Without any lease the interval stays what the
    options said.
    """

    def __init__(self, options: RunnerOptions, *, transport: httpx.AsyncBaseTransport | None = None) -> None:
        """``transport`` None means the network, with the proxies that the environment names."""
        self.own_http = httpx.AsyncClient(
            base_url=options.server_url.rstrip("/"),
            transport=transport,
            # A poll, and for each run its renewal, its ack and its lines: none of them waits for another's connection.
            limits=httpx.Limits(max_connections=3 * options.max_inflight + 10),
            event_hooks={"response": [self._note_leases]},
        )
        super().__init__(options, http=self.own_http)
        self._options_to_adapt = options
        self._usual_interval_ms = options.renew_interval_ms
        self._leases: dict[str, float] = {}
        self.traceparents: dict[str, str] = {}
        self._last_poll: Any = None
        self.is_polling = False
        self.is_leaving = False

    async def aclose(self) -> None:
        """Do nothing: `Runner.run` closes its client before a run that is stopped last could send its ack."""

    async def poll(self, request: Any, *, timeout_ms: int) -> Any:
        self._leases = {run: lease for run, lease in self._leases.items() if run in request.inflight}
        self.traceparents = {run: self.traceparents[run] for run in request.inflight if run in self.traceparents}
        self._last_poll = request
        self.is_polling = True
        try:
            response = await super().poll(request, timeout_ms=timeout_ms)
        finally:
            self.is_polling = False
        self._adapt_interval()
        return response

    async def leave(self, inflight: list[str]) -> None:
        """Say in a last poll, after the one that was cut off, what this runner still has, and that it takes no more.

        The cut may have hit an answer on its way: what it brought is not in ``inflight``, so the server gives it to
        others now and not when its lease ends. Only when no poll follows, or its work would be taken for lost too.
        """
        if self._last_poll is None:
            return
        request = self._last_poll.model_copy(update={"inflight": inflight, "max_inflight": 0})
        with contextlib.suppress(httpx.HTTPError, TimeoutError, ValueError):
            async with asyncio.timeout(_LEAVE_SECONDS):
                await super().poll(request, timeout_ms=int(_LEAVE_SECONDS * 1000))

    async def push_events(self, execution_id: str, events: list[Any]) -> None:
        """Send lines; while the server is restarting, try again for some seconds, because the SDK drops them.

        Only what certainly was not accepted is sent again: no connection, or 503. Nothing is logged twice.
        """
        for delay in _EVENT_RETRY_SECONDS:
            try:
                return await super().push_events(execution_id, events)
            except httpx.ConnectError:
                pass
            except httpx.HTTPStatusError as error:
                if error.response.status_code != httpx.codes.SERVICE_UNAVAILABLE:
                    raise
            await asyncio.sleep(delay)
        return await super().push_events(execution_id, events)

    async def ack(self, request: Any) -> None:
        """Say how a run ended; while there is no server, again for a minute, because the SDK gives up after some 3 s
        and a server that restarts then loses the result of a finished run.

        Saying it twice is safe: an ack names its attempt. The last refusal is raised.
        """
        began_at = asyncio.get_running_loop().time()
        for delay in itertools.chain(_ACK_RETRY_SECONDS, itertools.repeat(_ACK_RETRY_SECONDS[-1])):
            try:
                return await super().ack(request)
            except (httpx.TransportError, TimeoutError) as error:
                refusal: Exception = error
            except httpx.HTTPStatusError as error:
                if error.response.status_code != httpx.codes.SERVICE_UNAVAILABLE:
                    raise
                refusal = error
            patience = _LAST_ACK_PATIENCE_SECONDS if self.is_leaving else _ACK_PATIENCE_SECONDS
            if asyncio.get_running_loop().time() + delay > began_at + patience:
                raise refusal
            log.warning(
                "the server did not take the result of %s (%s); again in %g s",
                request.execution_id,
                type(refusal).__name__,
                delay,
            )
            await asyncio.sleep(delay)
        raise AssertionError("unreachable")

    async def _note_leases(self, response: httpx.Response) -> None:
        if response.request.url.path != POLL_PATH or response.status_code != httpx.codes.OK:
            return
        await response.aread()
        # An answer that is not what it should be is refused by the SDK, which says so.
        with contextlib.suppress(ValueError, TypeError, AttributeError, KeyError):
            for assignment in response.json()["work"]:
                lease = assignment.get("lease")
                if isinstance(lease, int | float) and math.isfinite(lease) and lease > 0:
                    self._leases[assignment["execution_id"]] = float(lease)
                if place_of(assignment.get("traceparent")) is not None:
                    self.traceparents[assignment["execution_id"]] = assignment["traceparent"]

    def _adapt_interval(self) -> None:
        if self._leases:
            seconds = max(_LEAST_INTERVAL_SECONDS, min(self._leases.values()) / 3)
            self._options_to_adapt.renew_interval_ms = int(seconds * 1000)
        else:
            self._options_to_adapt.renew_interval_ms = self._usual_interval_ms
