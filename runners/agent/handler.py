"""The SDK's default handler: executes the action of whatever job arrives."""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import Callable, Iterable, Mapping
from functools import cached_property
from ssl import SSLContext

import httpx
from croniq_runner import ExecutionContext, HandlerError

from croniq_site.kernel import tracing
from croniq_site.kernel.logs import tell
from runners.agent.actions import ActionRefused, CommandAction, HttpAction, action_of, without_nul
from runners.agent.addresses import HostRules
from runners.agent.command import CommandFailed, Patience, run_command
from runners.agent.environment import account_named, child_environment, inherited, run_headers, run_variables
from runners.agent.http_job import RequestFailed, run_request
from runners.agent.output import LogSink
from runners.agent.secrets import Secrets

log = logging.getLogger(__name__)

_VERDICTS = (ActionRefused, CommandFailed, RequestFailed)


class ActionHandler:
    """Runs actions; knows the runs it has, so that they can all be stopped at once."""

    def __init__(
        self,
        *,
        environ: Mapping[str, str] = os.environ,
        allow_env: Iterable[str] = (),
        http_allow: HostRules | None = None,
        http_only: bool = False,
        patience: Patience | None = None,
        traceparent_of: Callable[[str], str | None] = lambda run_id: None,
    ) -> None:
        """``traceparent_of`` says what the assignment of a run said of its trace, if it did."""
        self._traceparent_of = traceparent_of
        self._environ = environ
        self._hosts = http_allow or HostRules()
        self._http_only = http_only
        self._base_env = inherited(environ, allow_env)
        self._patience = patience or Patience()
        self._active: dict[str, ExecutionContext] = {}
        self._is_stopping = False

    async def handle(self, ctx: ExecutionContext) -> None:
        """Execute one run. Raises HandlerError with its failure; a cancellation ends its processes first."""
        began_at = time.monotonic()
        tell(execution_id=ctx.execution_id, job_key=ctx.job_key)
        name = f"{ctx.job_key} attempt {ctx.attempt} ({ctx.execution_id})"
        log.info("started   %s", name)
        ending = "failed"
        self._active[ctx.execution_id] = ctx
        try:
            if self._is_stopping:
                raise HandlerError("the runner is stopping")
            await self._execute(ctx)
            ending = "completed"
        except asyncio.CancelledError:
            ending = "stopped"
            if self._is_stopping:
                # The SDK would say "cancelled by server", which is not what happened.
                raise HandlerError("stopped with the runner before it had ended") from None
            raise
        except _VERDICTS as error:
            ending = f"failed ({error})"
            raise HandlerError(self._explained(ctx, error)) from None
        finally:
            del self._active[ctx.execution_id]
            log.info("%s %s after %.2f s", ending.ljust(9), name, time.monotonic() - began_at)

    def stop_all(self) -> None:
        """End every run now, as a cancellation does (SIGTERM, then SIGKILL), and start none any more."""
        self._is_stopping = True
        for ctx in self._active.values():
            ctx.cancellation.set()

    @cached_property
    def _tls(self) -> SSLContext:
        """Trusts the usual authorities, or those of ``SSL_CERT_FILE``. Read once: it takes a while."""
        return httpx.create_ssl_context()

    async def _execute(self, ctx: ExecutionContext) -> None:
        secrets = Secrets(self._environ)
        try:
            action = action_of(ctx.metadata)
            if isinstance(action, HttpAction):
                await self._send(ctx, action, secrets)
            elif self._http_only:
                raise ActionRefused("this runner only executes HTTP requests (--http-only)")
            else:
                await self._run(ctx, action, secrets)
        except Exception as error:
            text = secrets.mask().text(str(error))
            if isinstance(error, _VERDICTS):
                raise type(error)(text) from None
            raise HandlerError(f"{type(error).__name__}: {text}") from None  # whatever it is, it may name a secret

    async def _send(self, ctx: ExecutionContext, action: HttpAction, secrets: Secrets) -> None:
        await run_request(
            action,
            identity={
                **run_headers(ctx.execution_id, ctx.attempt, ctx.scheduled_for),
                **self._trace(ctx, "traceparent"),
            },
            secrets=secrets,
            writer=ctx.log_writer,
            hosts=self._hosts,
            tls=self._tls,
            timeout_seconds=ctx.timeout.total_seconds(),
            patience=self._patience,
        )

    async def _run(self, ctx: ExecutionContext, action: CommandAction, secrets: Secrets) -> None:
        account = account_named(action.user) if action.user else None
        env = child_environment(
            self._base_env,
            account=account,
            action_env={name: without_nul("env", secrets.reveal(value)) for name, value in action.env.items()},
            run=run_variables(
                job_key=ctx.job_key,
                execution_id=ctx.execution_id,
                attempt=ctx.attempt,
                scheduled_for=ctx.scheduled_for,
                metadata=ctx.metadata,
            )
            | self._trace(ctx, "TRACEPARENT"),
        )
        await run_command(
            action,
            env=env,
            account=account,
            sink=LogSink(ctx.log_writer, secrets.mask()),
            timeout_seconds=ctx.timeout.total_seconds(),
            patience=self._patience,
        )

    def _trace(self, ctx: ExecutionContext, name: str) -> dict[str, str]:
        """Where the spans of what is executed belong: below this runner's, else below the server's."""
        place = tracing.current()
        said = self._traceparent_of(ctx.execution_id) if place is None else place.as_traceparent()
        return {} if said is None else {name: said}

    @staticmethod
    def _explained(ctx: ExecutionContext, error: Exception) -> str:
        return f"job {ctx.job_key}: {error}" if isinstance(error, ActionRefused) else str(error)
