"""How an alert goes out: a signed webhook, a mail, a service of apprise. Nothing here touches the database."""

from __future__ import annotations

import asyncio
import json
import os
import ssl
import subprocess
import sys
from collections.abc import Coroutine, Mapping
from datetime import datetime
from email.utils import format_datetime
from functools import cache
from typing import Any

import httpcore
from django.conf import settings

from runners.agent.addresses import GuardedNetwork, HostRules
from runners.agent.secrets import ActionRefused
from scheduler.domain.alerts import body_of, shown_target, signature, subject_of, text_of
from scheduler.models import AlertChannel

SECONDS_MOST = 10.0
"""For a request from the look-up of its host to the status of its answer, and for each answer to a step of a mail."""
PROCESS_SECONDS_MOST = 30.0
"""For the whole of a mail or of a message over apprise; then its process is ended."""
_OF_THE_MESSAGE = (400, 413, 422)
_PASSED_ON = ("PATH", "LANG", "LC_ALL", "TMPDIR", "SYSTEMROOT", "SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE")
ALLOW = "CRONIQ_ALERT_HTTP_ALLOW"


class NotDelivered(Exception):
    """It did not arrive, or nobody said that it did; the text, without secrets, goes into the log of deliveries."""


class Unwelcome(NotDelivered):
    """The receiver does not take this message; others may be welcome."""


def send(channel: AlertChannel, message: Mapping[str, Any], now: datetime) -> None:
    """Send ``message`` over the channel. Raises NotDelivered."""
    if channel.kind == AlertChannel.Kind.WEBHOOK:
        _run(_post(channel, message, now))
    elif channel.kind == AlertChannel.Kind.APPRISE:
        _apprise(channel, message)
    else:
        _mail(channel, message, now)


def _run(work: Coroutine[Any, Any, None]) -> None:
    """As `asyncio.run`, which at its end waits for a look-up of a name that nobody answers."""
    loop = asyncio.new_event_loop()
    try:
        loop.run_until_complete(work)
        loop.run_until_complete(loop.shutdown_asyncgens())
    finally:
        loop.close()


@cache
def _tls() -> ssl.SSLContext:
    return ssl.create_default_context()


async def _post(channel: AlertChannel, message: Mapping[str, Any], now: datetime) -> None:
    body, where, tls = body_of(message), shown_target(channel.target), _tls()
    headers = {
        "Content-Type": "application/json",
        "User-Agent": "croniq",
        "X-Croniq-Delivery": message["id"],
        "X-Croniq-Signature": signature(channel.secret, body, now),
    }
    try:
        async with (
            GuardedNetwork(HostRules.of(settings.CRONIQ_ALERT_HTTP_ALLOW)) as network,
            asyncio.timeout(SECONDS_MOST),
            httpcore.AsyncConnectionPool(ssl_context=tls, network_backend=network, max_keepalive_connections=0) as pool,
            # A redirect is no success: it would take what is said to where nobody has looked.
            pool.stream("POST", channel.target, headers=headers, content=body) as answer,
        ):
            if not 200 <= answer.status < 300:
                kind = Unwelcome if answer.status in _OF_THE_MESSAGE else NotDelivered
                raise kind(f"{where} answered {answer.status}")
    except TimeoutError:
        raise NotDelivered(f"{where} did not answer within {SECONDS_MOST:g} s") from None
    except ActionRefused as refused:
        raise NotDelivered(str(refused).replace("this runner", "Croniq").replace("--http-allow", ALLOW)) from None
    except httpcore.ConnectError as error:
        text = str(error) or "it was closed"
        raise NotDelivered(f"{where}: {'' if text.startswith('cannot ') else 'no TLS connection: '}{text}") from None
    except (httpcore.NetworkError, httpcore.ProtocolError, httpcore.TimeoutException) as error:
        raise NotDelivered(f"{where}: no answer ({type(error).__name__})") from None


def _apprise(channel: AlertChannel, message: Mapping[str, Any]) -> None:
    title, _, body = text_of(message).partition("\n\n")
    said = {"url": channel.target, "title": title, "body": body, "allow": settings.CRONIQ_ALERT_HTTP_ALLOW}
    _in_a_process("apprise_process", said, shown_target(channel.target))


def _mail(channel: AlertChannel, message: Mapping[str, Any], now: datetime) -> None:
    server = settings.CRONIQ_SMTP
    if server is None:
        raise NotDelivered("no mail goes out: CRONIQ_SMTP_URL is not set")
    said = {
        "server": server,
        "patience": SECONDS_MOST,
        "from": settings.CRONIQ_MAIL_FROM,
        "to": channel.target,
        "id": f"<{message['id']}@croniq>",
        "date": format_datetime(now),
        "subject": subject_of(message),
        "text": text_of(message),
    }
    _in_a_process("mail_process", said, server["host"])


def _in_a_process(module: str, said: Mapping[str, Any], where: str) -> None:
    # Nothing of this process's environment: it has the database's password in it.
    environment = {name: os.environ[name] for name in _PASSED_ON if name in os.environ}
    try:
        # Ours alone: the path is this interpreter's, and what is said goes through a pipe.
        done = subprocess.run(
            [sys.executable, "-P", "-m", f"scheduler.services.alerts.{module}"],
            input=json.dumps(said),
            cwd=settings.BASE_DIR,
            env={**environment, "PYTHONPATH": str(settings.BASE_DIR)},
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            timeout=PROCESS_SECONDS_MOST,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise NotDelivered(f"{where} did not answer within {PROCESS_SECONDS_MOST:g} s") from None
    if done.returncode:
        lines = done.stdout.splitlines()
        why = lines[-1] if lines else f"its process ended with {done.returncode}"
        raise NotDelivered(f"{where}: {why.replace('--http-allow', ALLOW)}")
