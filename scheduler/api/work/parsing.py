"""Read the bodies of the work protocol. Everything wrong is an `InvalidInput` that names the field, whatever was sent.

Fields that we do not know are left alone: SDKs of other versions may send them.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from functools import lru_cache
from typing import Any
from uuid import UUID

from croniq_site.kernel.errors import InvalidInput, TooLarge
from croniq_site.kernel.json_bounds import has_more_values, is_deeper_than
from croniq_site.kernel.text import CUT_MARK, cleaned, is_printable_name
from scheduler.api.work.quick_json import quick_json
from scheduler.domain.polls import PollRequest, Renewal
from scheduler.domain.work import Ack, AckStatus, LogLine

TEXT_BYTES = 64 * 1024
"""Most bytes of an error or of a log line; more is cut, with a mark."""
JSON_DEPTH = 32
MOST_VALUES = 200_000
"""Lists, objects and what stands between their commas. Megabytes of text are cheap to read, megabytes of `[],` are
not: they are read in the event loop, in one piece, and no poll is answered meanwhile."""
MOST_INFLIGHT = 10_000
MOST_NAMES = 256
MOST_LINES = 100
MOST_ACKS = 500
_LARGEST_INTEGER = 2**31 - 1
_LONGEST_MS = 2**53
_LEVEL_LENGTH = 16
_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", re.ASCII | re.IGNORECASE)


def load_json(body: bytes) -> Any:
    """Read strict JSON: UTF-8, no NaN or infinity, no name twice in an object, at most 32 levels deep.

    The standard library's reader, not orjson: it knows all of this, and it lets an escaped lone surrogate through,
    which an error text may hold and which is cleaned later. More than `MOST_VALUES` are TooLarge, unread.
    """
    if has_more_values(body, MOST_VALUES):
        raise TooLarge(f"The body holds more than {MOST_VALUES} values.")
    if is_deeper_than(body, JSON_DEPTH):  # before it is read: the reader goes into each level
        raise InvalidInput(f"The body is nested more than {JSON_DEPTH} levels deep.")
    try:
        return json.loads(
            body.decode("utf-8"),
            object_pairs_hook=_object,
            parse_constant=_not_a_number,
            parse_float=_finite,
        )
    except InvalidInput:
        raise
    except ValueError:  # no UTF-8, no JSON, or a number of thousands of digits
        raise InvalidInput("The body is not valid JSON in UTF-8.") from None


def parse_poll(body: bytes) -> PollRequest:
    return _parse_again(body) if len(body) <= _REPEATED_BYTES else _parse_poll(body)


def _parse_poll(body: bytes) -> PollRequest:
    data = _fields(body)
    inflight = _inflight(data)
    max_inflight = _integer(data, "max_inflight", least=0, most=MOST_INFLIGHT, default=1)
    listed = {UUID(text): text for text in inflight if _UUID.fullmatch(text)}
    return PollRequest(
        runner_id=_name(data, "runner_id"),
        instance_id=_name(data, "instance_id", default=""),
        capabilities=_names(data, "capabilities"),
        tags=_names(data, "tags"),
        max_inflight=max_inflight,
        listed=listed,
        unknown=tuple(text for text in inflight if not _UUID.fullmatch(text)),
        free=max(0, max_inflight - len(inflight)),
    )


# A runner that waits for work says the same again and again.
_REPEATED_BYTES = 1024
_parse_again = lru_cache(maxsize=2048)(_parse_poll)


def parse_acks(body: bytes) -> Ack | list[Ack]:
    """Read one ack, or an array of 1 to 500 of them."""
    data = _value(body)
    if not isinstance(data, list):
        return _ack(_object_of(data))
    if not 1 <= len(data) <= MOST_ACKS:
        raise InvalidInput.of("acks", f"The body is an ack or an array of 1 to {MOST_ACKS} acks.")
    return [_ack_at(number, item) for number, item in enumerate(data)]


def _ack_at(number: int, item: Any) -> Ack:
    try:
        return _ack(_object_of(item))
    except InvalidInput as error:
        place = f"acks[{number}]"
        fields = {f"{place}.{name}": said for name, said in (error.fields or {}).items()} or {place: [error.message]}
        raise InvalidInput(error.message, fields=fields) from None


_STATUSES = {str(status): status for status in AckStatus}


def _ack(data: dict[str, Any]) -> Ack:
    said = data.get("status")
    status = _STATUSES.get(said) if isinstance(said, str) else None
    if status is None:
        raise InvalidInput.of("status", "status is 'success' or 'failure'.")
    return Ack(
        run_id=_run_id(data),
        attempt=_integer(data, "attempt", least=1, most=_LARGEST_INTEGER),
        runner_id=_name(data, "runner_id"),
        status=status,
        error=_error_text(data.get("error")),
        duration_ms=_integer(data, "duration_ms", least=0, most=_LONGEST_MS, default=None),
    )


def parse_renewal(body: bytes) -> Renewal:
    data = _fields(body)
    return Renewal(
        run_id=_run_id(data),
        runner_id=_name(data, "runner_id"),
        attempt=_integer(data, "attempt", least=1, most=_LARGEST_INTEGER, default=None),
    )


def parse_lines(body: bytes) -> tuple[list[LogLine], str | None]:
    """Return the lines of an events body, cleaned, and the runner that they say they come from (None: not said).

    Lines of one post that name different runners cannot all be the holder's: refused.
    """
    data = load_json(body)
    if not isinstance(data, list) or not 1 <= len(data) <= MOST_LINES:
        raise InvalidInput.of("events", f"The body is an array of 1 to {MOST_LINES} lines.")
    lines: list[LogLine] = []
    runners: set[str] = set()
    for number, item in enumerate(data):
        line, runner_id = _line(item, f"events[{number}]")
        lines.append(line)
        if runner_id is not None:
            runners.add(runner_id)
    if len(runners) > 1:
        raise InvalidInput.of("events", "The lines of one post come from one runner.")
    return lines, next(iter(runners), None)


def run_id_of(text: str) -> UUID:
    """Read a run's id from a path."""
    if not _UUID.fullmatch(text):
        raise InvalidInput.of("execution_id", "An execution_id is a UUID.")
    return UUID(text)


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise InvalidInput("The body has an object in which a name stands twice.")
    return found


def _not_a_number(text: str) -> Any:
    raise InvalidInput(f"The body holds {text}, which is not a JSON number.")


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise InvalidInput("The body holds a number that is too large.")
    return value


def _value(body: bytes) -> Any:
    value = quick_json(body)
    return load_json(body) if value is None else value


def _fields(body: bytes) -> dict[str, Any]:
    return _object_of(_value(body))


def _object_of(data: Any) -> dict[str, Any]:
    if not isinstance(data, dict):
        raise InvalidInput("The body is not a JSON object.")
    return data


_REQUIRED: Any = object()


def _name(data: dict[str, Any], field: str, default: Any = _REQUIRED) -> str:
    value = data.get(field)
    if default is not _REQUIRED and value in (None, ""):
        return default
    return _named(value, field)


def _named(value: Any, field: str) -> str:
    if not isinstance(value, str) or not is_printable_name(value):
        raise InvalidInput.of(field, f"{field} has 1 to 255 printable characters.")
    return value


def _names(data: dict[str, Any], field: str) -> tuple[str, ...]:
    """Return the distinct names of a list in order."""
    values = data.get(field)
    if values is None:
        return ()
    if not isinstance(values, list) or len(values) > MOST_NAMES:
        raise InvalidInput.of(field, f"{field} is an array of at most {MOST_NAMES} names.")
    if not all(isinstance(value, str) and is_printable_name(value) for value in values):
        raise InvalidInput.of(field, f"Each of {field} has 1 to 255 printable characters.")
    return tuple(dict.fromkeys(values))


def _inflight(data: dict[str, Any]) -> list[str]:
    """Return what the runner lists. A text that is no run's id is no error: it is cancelled like an unknown run."""
    values = data.get("inflight")
    if values is None:
        return []
    if not isinstance(values, list) or len(values) > MOST_INFLIGHT:
        raise InvalidInput.of("inflight", f"inflight is an array of at most {MOST_INFLIGHT} ids.")
    if not all(isinstance(value, str) and len(value) <= 255 for value in values):
        raise InvalidInput.of("inflight", "Each of inflight is an execution_id.")
    return values


def _integer(data: dict[str, Any], field: str, *, least: int, most: int, default: Any = _REQUIRED) -> Any:
    value = data.get(field)
    if value is None and default is not _REQUIRED:
        return default
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
        raise InvalidInput.of(field, f"{field} is a whole number from {least} to {most}.")
    return value


def _run_id(data: dict[str, Any]) -> UUID:
    value = data.get("execution_id")
    return run_id_of(value if isinstance(value, str) else "")


def _error_text(value: Any) -> str:
    """Return the error as it is kept. Of any shape: a run whose end could not be said would run for ever."""
    if value is None:
        return ""
    return cleaned(value if isinstance(value, str) else json.dumps(value), TEXT_BYTES)


def _line(item: Any, place: str) -> tuple[LogLine, str | None]:
    if not isinstance(item, dict):
        raise InvalidInput.of(place, "A line is an object.")
    message, level, fields = item.get("message"), item.get("level"), item.get("fields")
    if not isinstance(message, str):
        raise InvalidInput.of(f"{place}.message", "message is a text.")
    if not isinstance(level, str | None):
        raise InvalidInput.of(f"{place}.level", "level is a text.")
    if not isinstance(fields, dict | None):
        raise InvalidInput.of(f"{place}.fields", "fields is an object.")
    runner_id = (fields or {}).get("runner_id")
    if runner_id is not None:
        runner_id = _named(runner_id, f"{place}.fields.runner_id")
    line = LogLine(
        message=cleaned(message, TEXT_BYTES),
        level=cleaned(level or "info", TEXT_BYTES)[:_LEVEL_LENGTH],
        fields=_bounded(fields or {}),
    )
    return line, runner_id


def _bounded(fields: dict[str, Any]) -> dict[str, Any]:
    """Return ``fields`` with every text cleaned; over 64 KiB of JSON, as one text that is cut, with a mark."""
    kept = _mapped(fields, lambda text: cleaned(text, TEXT_BYTES))
    written = json.dumps(kept, ensure_ascii=False)
    if len(written) <= TEXT_BYTES // 4 or len(written.encode()) <= TEXT_BYTES:
        return kept
    return {CUT_MARK: cleaned(written, TEXT_BYTES)}


def _mapped(value: Any, change: Callable[[str], str]) -> Any:
    if isinstance(value, str):
        return change(value)
    if isinstance(value, list):
        return [_mapped(item, change) for item in value]
    if isinstance(value, dict):
        return {change(name): _mapped(item, change) for name, item in value.items()}
    return value
