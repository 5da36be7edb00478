"""What an alert says, how it is signed, when it is tried again. Pure."""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Collection, Mapping
from datetime import datetime, timedelta
from fnmatch import fnmatchcase
from typing import Any
from urllib.parse import urlsplit
from uuid import UUID

ATTEMPTS_MOST = 12
"""After the last of them, about two hours after the first, an alert has failed."""
FIRST_WAIT = timedelta(seconds=10)
LONGEST_WAIT = timedelta(minutes=15)


def wait_after(attempt: int) -> timedelta | None:
    """How long after the ``attempt``-th attempt (1-based) the next one is made; None: there is none."""
    if attempt >= ATTEMPTS_MOST:
        return None
    return min(LONGEST_WAIT, FIRST_WAIT * 2 ** (attempt - 1))


def pause_after(failures: int) -> timedelta:
    """How long a channel is not tried that has not answered so many attempts (at least one), one after the other."""
    return wait_after(failures) or LONGEST_WAIT


def matches(job_glob: str, job_key: str) -> bool:
    """Say whether a rule is about a job: ``*`` any text, ``?`` any character, ``[ab]`` one of these."""
    return fnmatchcase(job_key, job_glob)


def is_about(job_glob: str, tags: Collection[str], job_key: str, job_tags: Collection[str]) -> bool:
    """Say whether a rule is about a job by its key and, if the rule names tags, by any of them."""
    return matches(job_glob, job_key) and (not tags or not set(tags).isdisjoint(job_tags))


def cause_of(event: str, subject: str, since: datetime) -> str:
    """The name of a cause: what lasts, up to the last colon, and since when. Of one length whatever the subject."""
    return f"{lasting(event, subject)}:{int(since.timestamp() * 1_000_000)}"


def lasting(event: str, subject: str) -> str:
    return f"{event}:{hashlib.sha256(subject.encode()).hexdigest()[:32]}"


def lasting_of(cause: str) -> str:
    return cause.rpartition(":")[0]


def recovery_of(alert_id: UUID) -> str:
    """The cause of the end of what that alert told."""
    return f"recovered:{alert_id}"


def beginning_of(cause: str) -> UUID:
    """The alert whose end has this cause (`recovery_of`)."""
    return UUID(cause.rpartition(":")[2])


def shown_target(target: str) -> str:
    """A channel's target as it may be shown: of a web address its host, for paths of webhooks are keys; of any other
    URL its scheme, for in those of apprise the host may be a key too."""
    if "://" not in target:
        return target
    parts = urlsplit(target)
    return f"{parts.scheme}://{parts.netloc}/***" if parts.scheme in ("http", "https") else f"{parts.scheme}://***"


def signature(secret: str, body: bytes, now: datetime) -> str:
    """The header that lets a receiver know us: HMAC-SHA256 of ``<unix seconds>.<body>``, hexadecimal, beside the
    seconds, so that an old request cannot be shown again as a new one."""
    seconds = int(now.timestamp())
    digest = hmac.new(secret.encode(), b"%d." % seconds + body, hashlib.sha256).hexdigest()
    return f"t={seconds},v1={digest}"


def body_of(message: Mapping[str, Any]) -> bytes:
    return json.dumps(message, ensure_ascii=False, sort_keys=True, separators=(",", ":")).encode()


_SUBJECTS = {
    "failed": "{job_key} failed for good",
    "overran": "{job_key} runs longer than expected",
    "missed": "{job_key} did not start in time",
    "dead_letters": "{letters} dead letters wait",
    "flapping": "the runner {runner_id} flaps",
    "no_runner": "no runner has {capability}",
    "silent": "the scheduler is silent",
    "digest": "the week {week}",
    "test": "a test of this channel",
}
_RECOVERIES = {
    "failed": "{job_key} succeeds again",
    "overran": "no run of {job_key} takes longer than expected any more",
    "missed": "no fire of {job_key} is late any more",
    "dead_letters": "fewer dead letters wait",
    "flapping": "the runner {runner_id} is stable again",
    "no_runner": "no job lacks {capability} any more",
    "silent": "the scheduler plans again",
}


def subject_of(message: Mapping[str, Any]) -> str:
    """The alert in one line without a line break; of a recovery ``detail.of`` says what is over."""
    event, detail = message["event"], message["detail"]
    text = _RECOVERIES[detail["of"]] if event == "recovered" else _SUBJECTS[event]
    words = text.format_map(_Known({**detail, "job_key": message["job_key"]}))
    return "Croniq: " + " ".join(words.split())[:200]


class _Known(dict[str, Any]):
    def __missing__(self, key: str) -> str:
        return "?"


def text_of(message: Mapping[str, Any]) -> str:
    """The alert as a mail's text: a line for each thing that is known."""
    told = {**{name: value for name, value in message.items() if name != "detail"}, **message["detail"]}
    lines = (f"{name}: {_words(value)}\n" for name, value in told.items() if value or value == 0)
    return subject_of(message) + "\n\n" + "".join(lines)


def _words(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {_words(item)}" for name, item in value.items())
    return ", ".join(map(_words, value)) if isinstance(value, list) else str(value)
