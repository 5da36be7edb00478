"""How an alert goes out: a signed webhook, a mail, a service of apprise. Nothing here touches the database."""

from __future__ import annotations

import asyncio
import json
import os
import smtplib
import ssl
import subprocess
import sys
from collections.abc import Mapping
from datetime import datetime
from functools import cache
from typing import Any

import httpcore
from django.conf import settings
from django.core.mail import EmailMessage, get_connection

from runners.agent.addresses import GuardedNetwork, HostRules
from runners.agent.secrets import ActionRefused
from scheduler.domain.alerts import body_of, shown_target, signature, subject_of, text_of
from scheduler.models import AlertChannel

SECONDS_MOST = 10.0
"""For a request from its first byte to the status of its answer, and for each step of a mail."""
APPRISE_SECONDS_MOST = 30.0
"""For the whole of a message over apprise; then its process is ended."""
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
        asyncio.run(_post(channel, message, now))
    elif channel.kind == AlertChannel.Kind.APPRISE:
        _apprise(channel, message)
    else:
        _mail(channel, message)


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
    except (httpcore.NetworkError, httpcore.ProtocolError, httpcore.TimeoutException) as error:
        raise NotDelivered(f"{where}: no answer ({type(error).__name__})") from None


def _apprise(channel: AlertChannel, message: Mapping[str, Any]) -> None:
    where = shown_target(channel.target)
    title, _, body = text_of(message).partition("\n\n")
    said = {"url": channel.target, "title": title, "body": body, "allow": settings.CRONIQ_ALERT_HTTP_ALLOW}
    # Nothing of this process's environment: it has the database's password in it.
    environment = {name: os.environ[name] for name in _PASSED_ON if name in os.environ}
    try:
        # Ours alone: the path is this interpreter's, and what is said goes through a pipe.
        done = subprocess.run(
            [sys.executable, "-P", "-m", "scheduler.services.alerts.apprise_process"],
            input=json.dumps(said),
            cwd=settings.BASE_DIR,
            env={**environment, "PYTHONPATH": str(settings.BASE_DIR)},
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            timeout=APPRISE_SECONDS_MOST,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise NotDelivered(f"{where} did not answer within {APPRISE_SECONDS_MOST:g} s") from None
    if done.returncode:
        lines = done.stdout.splitlines()
        why = lines[-1] if lines else f"its process ended with {done.returncode}"
        raise NotDelivered(f"{where}: {why.replace('--http-allow', ALLOW)}")


def _mail(channel: AlertChannel, message: Mapping[str, Any]) -> None:
    server = settings.CRONIQ_SMTP
    if server is None:
        raise NotDelivered("no mail goes out: CRONIQ_SMTP_URL is not set")
    connection = get_connection("django.core.mail.backends.smtp.EmailBackend", timeout=SECONDS_MOST, **server)
    mail = EmailMessage(
        subject_of(message),
        text_of(message),
        settings.CRONIQ_MAIL_FROM,
        [channel.target],
        headers={"Message-ID": f"<{message['id']}@croniq>"},
        connection=connection,
    )
    try:
        mail.send()
    except (OSError, smtplib.SMTPException) as error:
        # What the server said may quote what it was told, and so a password.
        code = f" {error.smtp_code}" if isinstance(error, smtplib.SMTPResponseException) else ""
        raise NotDelivered(f"{server['host']}: the mail was not taken ({type(error).__name__}{code})") from None
