"""Checks of single values from outside, the same for every door. Each refuses with 400 and the field named."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any
from uuid import UUID

from croniq_site.kernel.errors import InvalidInput
from croniq_site.kernel.text import is_printable_name
from scheduler.domain.durations import LONGEST, parse_duration

METADATA_MOST_BYTES = 64 * 1024
METADATA_MOST_DEPTH = 32
RESERVED_PREFIX = "__"
"""Metadata keys that begin so are Croniq's own: a caller's are dropped, or a trigger could say what is executed."""

TEXT_MOST_CHARACTERS = 10_000
NAMES_MOST = 64

_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")
_SLUG = re.compile(r"[a-z0-9](?:[a-z0-9_-]{0,62})", re.ASCII)


def text_of(field: str, value: Any, *, most: int = TEXT_MOST_CHARACTERS) -> str:
    """Free text: at most ``most`` characters, without NUL and lone surrogates, which no database stores."""
    if not isinstance(value, str):
        raise InvalidInput.of(field, f"{field} is a text.")
    if len(value) > most:
        raise InvalidInput.of(field, f"{field} has {len(value)} characters; {most} are allowed.")
    if _UNSTORABLE.search(value):
        raise InvalidInput.of(field, f"{field} has a NUL character or half of a surrogate pair.")
    return value


def name_of(field: str, value: Any, *, most: int = 255) -> str:
    """A name: 1 to ``most`` printable characters, no space at either end."""
    if not isinstance(value, str) or not is_printable_name(value, most):
        raise InvalidInput.of(field, f"{field} is 1 to {most} printable characters without a space at either end.")
    return value


def names_of(field: str, value: Any) -> list[str]:
    """A list of at most 64 names, returned sorted and each once: two lists that differ only there are one route."""
    if not isinstance(value, list):
        raise InvalidInput.of(field, f"{field} is a list of texts.")
    if len(value) > NAMES_MOST:
        raise InvalidInput.of(field, f"{field} has {len(value)} entries; {NAMES_MOST} are allowed.")
    return sorted({name_of(field, item) for item in value})


def uuids_of(field: str, value: Any, *, most: int) -> list[UUID]:
    """A list of at most ``most`` uuids, each once, in the order in which they came."""
    if not isinstance(value, list) or len(value) > most:
        raise InvalidInput.of(field, f"{field} is a list of at most {most} ids.")
    return list(dict.fromkeys(_uuid_of(field, item) for item in value))


def _uuid_of(field: str, value: Any) -> UUID:
    if isinstance(value, UUID):
        return value
    try:
        if isinstance(value, str) and len(value) in (32, 36):
            return UUID(value)
    except ValueError:
        pass
    raise InvalidInput.of(field, "An id is a uuid such as 018f4e9c-8a1b-7c3d-9e2f-0123456789ab.")


def slug_of(field: str, value: Any) -> str:
    if not isinstance(value, str) or not _SLUG.fullmatch(value):
        raise InvalidInput.of(
            field, f"{field} is 1 to 63 lower-case letters, digits, - and _, not beginning with - or _."
        )
    return value


def flag_of(field: str, value: Any) -> bool:
    if not isinstance(value, bool):
        raise InvalidInput.of(field, f"{field} is true or false.")
    return value


def choice_of(field: str, value: Any, allowed: Iterable[str]) -> str:
    allowed = list(allowed)
    if not isinstance(value, str) or value not in allowed:
        raise InvalidInput.of(field, f"{field} is one of {', '.join(allowed)}.")
    return value


def whole_number_of(field: str, value: Any, least: int, most: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise InvalidInput.of(field, f"{field} is a whole number from {least} to {most}.")
    return value


def share_of(field: str, value: Any) -> float:
    """A number from 0 to 1."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
        raise InvalidInput.of(field, f"{field} is a number from 0 to 1.")
    return float(value)


def seconds_of(field: str, value: Any, *, least: float = 0.0) -> float:
    """A duration in seconds, from ``"90s"``, ``"1.5h"`` or a number of seconds: above zero, at least ``least``, at most
    ten years."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        # An int of any size is compared, never converted first: float(10**400) would raise. NaN is in no range.
        if 0 < value <= LONGEST.total_seconds():
            return _at_least(field, float(value), least)
        raise InvalidInput.of(field, f"{field} is a duration above zero and of ten years at most, such as '90s'.")
    return _at_least(field, parse_duration(value, field=field).total_seconds(), least)


def _at_least(field: str, seconds: float, least: float) -> float:
    if seconds < least:
        raise InvalidInput.of(field, f"The shortest possible {field} is {least:g} seconds.")
    return seconds


def metadata_of(field: str, value: Any) -> dict[str, Any]:
    """A JSON object of at most 64 KiB and 32 levels that both databases store alike; reserved keys are dropped."""
    if not isinstance(value, dict):
        raise InvalidInput.of(field, f"{field} is an object.")
    check_json(field, value)
    kept = public_metadata(value)
    size = len(json.dumps(kept, ensure_ascii=False, separators=(",", ":")).encode())
    if size > METADATA_MOST_BYTES:
        raise InvalidInput.of(field, f"{field} takes {size} bytes; {METADATA_MOST_BYTES} are allowed.")
    return kept


def public_metadata(metadata: dict[str, Any] | None) -> dict[str, Any]:
    """Return what of a run's own metadata is told: all but the reserved keys."""
    return {key: item for key, item in (metadata or {}).items() if not key.startswith(RESERVED_PREFIX)}


def check_json(field: str, value: Any) -> None:
    """Refuse what some database or some reader of JSON would not give back: too deep, NUL, surrogates, NaN, numbers
    beyond 64 bits. A stack and no recursion: the depth is the sender's."""
    stack = [(value, 1)]
    while stack:
        item, depth = stack.pop()
        if isinstance(item, str):
            if _UNSTORABLE.search(item):
                raise InvalidInput.of(field, f"{field} has a NUL character or half of a surrogate pair in a text.")
        elif isinstance(item, bool) or item is None:
            continue
        elif isinstance(item, int | float):
            if not -(2**63) <= item < 2**63:  # NaN and the infinities too
                raise InvalidInput.of(field, f"{field} has a number beyond 64 bits; write it as a text.")
        elif isinstance(item, Mapping | list | tuple):
            if depth > METADATA_MOST_DEPTH:
                raise InvalidInput.of(field, f"{field} is nested deeper than {METADATA_MOST_DEPTH} levels.")
            if isinstance(item, Mapping):
                if not all(isinstance(key, str) for key in item):
                    raise InvalidInput.of(field, f"{field} has a key that is not a text.")
                stack.extend((key, depth) for key in item)
                stack.extend((child, depth + 1) for child in item.values())
            else:
                stack.extend((child, depth + 1) for child in item)
        else:
            raise InvalidInput.of(field, f"{field} has a value that JSON does not know.")
