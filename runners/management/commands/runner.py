"""`manage.py runner`: the reference runner. It needs a server's URL and a key, no database."""

from __future__ import annotations

import asyncio
import logging
import os
import re
import signal
from argparse import ArgumentParser
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
from croniq_runner import AuthFailedError, PollInstanceConflictError, RunnerOwnershipDeniedError
from django.core.management.base import BaseCommand, CommandError

from croniq_site.kernel import tracing
from croniq_site.kernel.text import is_printable_name
from runners.agent.addresses import HostRules
from runners.agent.agent import Agent, AgentSettings
from runners.agent.environment import is_secret

_MOST_INFLIGHT = 1000
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
_KEY = re.compile(r"[!-~]+", re.ASCII)


class Command(BaseCommand):
    help = (
        "Run jobs of a Croniq server: polls it for work and executes commands and HTTP requests. Needs no database. "
        "A key on the command line can be seen by every user of the machine (ps): prefer CRONIQ_RUNNER_KEY_FILE. "
        "One SIGTERM or Ctrl-C drains, a second ends the runs at once."
    )
    requires_system_checks = []
    requires_migrations_checks = False

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--server", metavar="URL", help="the server, else CRONIQ_SERVER_URL")
        parser.add_argument(
            "--key", help="the API key, else CRONIQ_RUNNER_KEY or the file CRONIQ_RUNNER_KEY_FILE names"
        )
        parser.add_argument("--capability", metavar="C", action="append", default=[], help="what it can do; repeatable")
        parser.add_argument(
            "--runner-id", help="its identity; else kept in CRONIQ_RUNNER_DATA_DIR or the state directory"
        )
        parser.add_argument("--max-inflight", metavar="N", type=int, default=5, help="runs at the same time (5)")
        parser.add_argument(
            "--tag", metavar="K=V", action="append", default=[], help="shown with the runner; repeatable"
        )
        parser.add_argument(
            "--allow-env", metavar="NAME", action="append", default=[], help="a variable that jobs may see; repeatable"
        )
        parser.add_argument(
            "--http-allow",
            metavar="HOST",
            action="append",
            default=[],
            help="a host (*.example.org: all below it) or a network that HTTP jobs may reach; repeatable; else all but "
            "what gives out a machine's credentials (169.254.0.0/16 and the like)",
        )
        parser.add_argument("--http-only", action="store_true", help="start no commands, only send HTTP requests")
        parser.add_argument(
            "--drain-timeout", metavar="SECONDS", type=float, default=30.0, help="for running jobs after a signal (30)"
        )
        parser.add_argument("--allow-insecure-http", action="store_true", help="send the key over plain http")

    def handle(self, *args: Any, **options: Any) -> None:
        agent = _agent(_settings(options, os.environ))
        _be_readable()
        # With SIGCHLD ignored, as some parents leave it, the kernel forgets exit codes and every job would succeed.
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        tracing.start("runner")
        try:
            asyncio.run(agent.run())
        except (AuthFailedError, PollInstanceConflictError, RunnerOwnershipDeniedError) as error:
            raise CommandError(str(error)) from None
        finally:
            tracing.end()


def _agent(settings: AgentSettings) -> Agent:
    try:
        return Agent(settings)
    except (ValueError, httpx.InvalidURL) as error:
        # The SDK speaks of its own options; what can be typed here is what helps.
        text = str(error).replace("allow_insecure_http=True", "--allow-insecure-http")
        raise CommandError(f"--server: {text.removeprefix('RunnerOptions.server_url ')}", returncode=2) from None


def _settings(options: dict[str, Any], environ: Mapping[str, str]) -> AgentSettings:
    """Read the options; refuse nonsense by the option's name before anything is sent."""
    if not 1 <= options["max_inflight"] <= _MOST_INFLIGHT:
        raise CommandError(f"--max-inflight: from 1 to {_MOST_INFLIGHT}.", returncode=2)
    if not 0 <= options["drain_timeout"] <= 86_400:
        raise CommandError("--drain-timeout: from 0 to 86400 seconds.", returncode=2)
    # The server would refuse them too, but with every poll, and the SDK would go on polling.
    named = [("--runner-id", options["runner_id"] or "r"), *(("--capability", name) for name in options["capability"])]
    for option, name in [*named, *(("--tag", tag) for tag in options["tag"])]:
        if not is_printable_name(name):
            raise CommandError(f"{option}: {name!r} is not 1 to 255 printable characters.", returncode=2)
    for tag in options["tag"]:
        if not tag.partition("=")[0] or "=" not in tag:
            raise CommandError(f"--tag: {tag!r} is not of the form name=value.", returncode=2)
    for name in options["allow_env"]:
        if is_secret(name):
            raise CommandError(f"--allow-env: {name} is a secret of Croniq's and never passed on.", returncode=2)
        if not _VARIABLE.fullmatch(name):
            raise CommandError(f"--allow-env: {name!r} is no name of a variable.", returncode=2)
    try:
        http_allow = HostRules.of(options["http_allow"])
    except ValueError as error:
        raise CommandError(f"--http-allow: {str(error)!r} is neither a host nor a network.", returncode=2) from None
    return AgentSettings(
        server_url=_server(options, environ),
        api_key=_key(options, environ),
        runner_id=options["runner_id"] or None,
        capabilities=tuple(options["capability"]),
        tags=tuple(options["tag"]),
        max_inflight=options["max_inflight"],
        allow_env=tuple(options["allow_env"]),
        http_allow=http_allow,
        http_only=options["http_only"],
        allow_insecure_http=options["allow_insecure_http"],
        drain_seconds=options["drain_timeout"],
    )


def _server(options: dict[str, Any], environ: Mapping[str, str]) -> str:
    url = (options["server"] or environ.get("CRONIQ_SERVER_URL", "")).strip()
    if not url:
        raise CommandError("--server: the server's URL is needed, here or in CRONIQ_SERVER_URL.", returncode=2)
    try:
        parts = urlsplit(url)
        is_usable = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port or 1) > 0
    except ValueError:
        is_usable = False
    if not is_usable:
        raise CommandError(f"--server: {url!r} is not a URL such as https://croniq.example.org.", returncode=2)
    return url


def _key(options: dict[str, Any], environ: Mapping[str, str]) -> str:
    """Return the key of the option, the variable or the file, in this order."""
    key, source = options["key"], "--key"
    if not key:
        key, source = environ.get("CRONIQ_RUNNER_KEY"), "CRONIQ_RUNNER_KEY"
    path = environ.get("CRONIQ_RUNNER_KEY_FILE")
    if not key and path:
        source = "CRONIQ_RUNNER_KEY_FILE"
        try:
            key = Path(path).read_text()
        except (OSError, UnicodeDecodeError) as error:
            raise CommandError(f"{source}: {path} cannot be read ({error}).", returncode=2) from None
    key = (key or "").strip()
    if not key:
        raise CommandError(
            "--key: an API key is needed, here, in CRONIQ_RUNNER_KEY or in the file CRONIQ_RUNNER_KEY_FILE names.",
            returncode=2,
        )
    if not _KEY.fullmatch(key):
        raise CommandError(f"{source}: the key has characters that no key has.", returncode=2)
    return key


def _be_readable() -> None:
    """One line per run: the handler logs its end, so the SDK's own line about a failure would be a second one."""
    logging.getLogger("httpx").setLevel(logging.WARNING)
    logging.getLogger("httpcore").setLevel(logging.WARNING)  # at its lowest level it writes down headers
    logging.getLogger("croniq_runner.runner").addFilter(lambda record: record.msg != "job handler raised: %s")
    logging.getLogger("croniq_runner.runner").addFilter(_without_traceback_of_the_network)


def _without_traceback_of_the_network(record: logging.LogRecord) -> bool:
    """A server that is not there is one line: seventy lines of the HTTP library's inside say nothing more."""
    error = record.exc_info[1] if isinstance(record.exc_info, tuple) else None
    if isinstance(error, httpx.TransportError | httpx.HTTPStatusError | TimeoutError):
        why = f"{type(error).__name__}: {error}".rstrip(": ")
        record.msg, record.args = "%s (%s)", (record.getMessage(), why)
        record.exc_info = record.exc_text = None
    return True
