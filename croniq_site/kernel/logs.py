"""Log lines: for people or as JSON, one line an event, without the secrets that somebody might put into one."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Mapping
from contextvars import ContextVar
from datetime import UTC, datetime

from croniq_site.kernel import tracing
from croniq_site.kernel.request import request_id

IDS = ("execution_id", "runner_id", "job_key")

_about: ContextVar[Mapping[str, str]] = ContextVar("croniq_log_about", default={})  # noqa: B039 - never changed

_SECRETS = re.compile(
    r"(?P<key>croniq_[\w-]{5})[\w-]{20,}"  # an API key: its prefix is shown everywhere
    r"|(?P<scheme>\b(?:ApiKey|Bearer|Basic)\s+)(?!croniq_)[^\s'\",;]{6,}"
    r"|(?P<user>://[^\s/:@'\"]*:)[^\s/@'\"]+(?=@)"
    r"|(?P<name>\b(?:password|passwd|client[_-]secret|secret[_-]key|api[_-]?key)['\"]?\s*[=:]\s*['\"]?)[^\s'\",;&]+",
    re.IGNORECASE,
)


def tell(**ids: str) -> None:
    """From here on every line of this task, and of threads that are given its context, tells these of `IDS`."""
    _about.set({**_about.get(), **ids})


def tell_nothing() -> None:
    """From here on no id is told: what is done for several together is done for none of them by name."""
    _about.set({})


def masked(text: str) -> str:
    """Return ``text`` with what looks like a key or a password as `***`."""
    return _SECRETS.sub(lambda found: f"{next(filter(None, found.groups()), '')}***", text)


class Lines(logging.Formatter):
    """One line for people; a traceback follows on lines of its own."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)s %(name)s %(message)s")

    def format(self, record: logging.LogRecord) -> str:
        return masked(super().format(record))


class JsonLines(logging.Formatter):
    """One JSON object a line: time, level, logger, message, and where known `request_id`, those of `IDS`, `trace_id`
    and `span_id`, and the traceback as `exception`."""

    def format(self, record: logging.LogRecord) -> str:
        told = {
            "time": datetime.fromtimestamp(record.created, UTC)
            .isoformat(timespec="milliseconds")
            .replace("+00:00", "Z"),
            "level": record.levelname,
            "logger": record.name,
            "message": masked(record.getMessage()),
        }
        if (request := request_id.get()) is not None:
            told["request_id"] = request
        known = _about.get()
        for name in IDS:
            value = getattr(record, name, None) or known.get(name)
            if value:
                told[name] = str(value)
        if (place := tracing.current()) is not None:
            told["trace_id"], told["span_id"] = f"{place.trace_id:032x}", f"{place.span_id:016x}"
        if record.exc_info and record.exc_info[0] is not None:
            told["exception"] = masked(self.formatException(record.exc_info))
        if record.stack_info:
            told["stack"] = masked(self.formatStack(record.stack_info))
        return json.dumps(told, ensure_ascii=True)  # of ASCII alone: no character ends a line or turns it around
