"""What an alert says, how it is signed, when it is tried again. Pure."""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Mapping
from datetime import datetime, timedelta
from fnmatch import fnmatchcase
from typing import Any
from urllib.parse import urlsplit

ATTEMPTS_MOST = 12
"""After the last of them, about two hours after the first, an alert has failed."""
FIRST_WAIT = timedelta(seconds=10)
LONGEST_WAIT = timedelta(minutes=15)


def wait_after(attempt: int) -> timedelta | None:
    """How long after the ``attempt``-th attempt (1-based) the next one is made; None: there is none."""
    if attempt >= ATTEMPTS_MOST:
        return None
    return min(LONGEST_WAIT, FIRST_WAIT * 2 ** (attempt - 1))


def matches(job_glob: str, job_key: str) -> bool:
    """Say whether a rule is about a job: ``*`` any text, ``?`` any character, ``[ab]`` one of these."""
    return fnmatchcase(job_key, job_glob)


def shown_target(target: str) -> str:
    """A channel's target as it may be shown: of a URL its host, for paths of webhooks are keys."""
    if "://" not in target:
        return target
    parts = urlsplit(target)
    return f"{parts.scheme}://{parts.netloc}/***"


def signature(secret: str, body: bytes, now: datetime) -> str:
    """The header that lets a receiver know us: HMAC-SHA256 of ``<unix seconds>.<body>``, hexadecimal, beside the
    seconds, so that an old request cannot be shown again as a new one."""
    seconds = int(now.timestamp())
    digest = hmac.new(secret.encode(), b"%d." % seconds + body, hashlib.sha256).hexdigest()
    return f"t={seconds},v1={digest}"


def body_of(message: Mapping[str, Any]) -> bytes:
    return json.dumps(message, ensure_ascii=False, sort_keys=True, separators=(",", ":")).encode()


def subject_of(event: str, job_key: str) -> str:
    """The alert in one line."""
    return {
        "failed": f"Croniq: {job_key} failed for good",
        "silent": "Croniq: the scheduler is silent",
        "recovered": "Croniq: the scheduler plans again",
        "test": "Croniq: a test of this channel",
    }[event]


def text_of(message: Mapping[str, Any]) -> str:
    """The alert as a mail's text: a line for each thing that is known."""
    head = subject_of(message["event"], message["job_key"])
    told = {**{name: value for name, value in message.items() if name != "detail"}, **message["detail"]}
    return head + "\n\n" + "".join(f"{name}: {value}\n" for name, value in told.items() if value)
