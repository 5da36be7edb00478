"""Query parameters: each is read by name and refused by name, and so are those that nobody reads."""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Callable, Collection, Iterable
from datetime import UTC, datetime
from difflib import get_close_matches
from typing import Any, TypeVar
from uuid import UUID

from django.http import HttpRequest
from rest_framework.request import Request

from croniq_site.kernel.errors import InvalidInput, NotFound
from croniq_site.kernel.text import is_printable_name

DEFAULT_LIMIT = 100
MOST_LIMIT = 500
MOST_NAMED = 20
"""Most parameters that a refusal names."""

_UNPRINTABLE = re.compile(r"[\x00-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")

T = TypeVar("T")


def refuse_unknown_query(request: Request | HttpRequest, known: Collection[str]) -> None:
    """Refuse parameters that are not ``known``, and any that stands there twice: which of the two would count?"""
    problems = {}
    for name, values in request.GET.lists():
        shown = _UNPRINTABLE.sub("\ufffd", name)[:100]
        if name not in known:
            near = get_close_matches(name[:100], known, n=1)
            there = f"Did you mean {near[0]}?" if near else f"There are {', '.join(sorted(known))}." if known else ""
            problems[shown] = f"There is no parameter {shown!r} here. {there}".rstrip()
        elif len(values) > 1:
            problems[shown] = f"{name} stands there {len(values)} times; say it once."
    if problems:
        named = dict(list(problems.items())[:MOST_NAMED])
        raise InvalidInput(" ".join(named.values()), fields={name: [text] for name, text in named.items()})


def text_of(request: Request | HttpRequest, name: str, most: int = 255) -> str | None:
    """Return a name that is asked for; None where the parameter is absent or empty."""
    value = request.GET.get(name, "")
    if value and not is_printable_name(value, most):
        raise InvalidInput.of(name, f"{name} has 1 to {most} printable characters.")
    return value or None


def choice_of(request: Request | HttpRequest, name: str, allowed: Iterable[str]) -> str | None:
    value = request.GET.get(name, "")
    allowed = list(allowed)
    if value and value not in allowed:
        raise InvalidInput.of(name, f"{name} is one of {', '.join(allowed)}.")
    return value or None


def flag_of(request: Request | HttpRequest, name: str) -> bool:
    value = choice_of(request, name, ["1", "true", "0", "false"])
    return value in ("1", "true")


def number_of(
    request: Request | HttpRequest, name: str, *, default: int | None, least: int = 1, most: int = MOST_LIMIT
) -> int | None:
    value = request.GET.get(name, "")
    if not value:
        return default
    # The length first: Python refuses to read thousands of digits.
    if not (value.isascii() and value.isdigit() and len(value) <= 18 and least <= int(value) <= most):
        raise InvalidInput.of(name, f"{name} is a whole number from {least} to {most}.")
    return int(value)


def instant_of(request: Request | HttpRequest, name: str) -> datetime | None:
    """Return an RFC 3339 instant with its offset, in UTC."""
    value = request.GET.get(name, "")
    if not value:
        return None
    try:
        # A plus sign that was not percent-encoded arrives as a space.
        instant = datetime.fromisoformat(value.strip().replace(" ", "+") if "T" in value else value)
        if instant.tzinfo is None:
            raise ValueError
        return instant.astimezone(UTC)
    except (ValueError, OverflowError):
        raise InvalidInput.of(name, f"{name} is an instant such as 2026-03-01T12:00:00Z.") from None


def uuid_in_path(value: str) -> UUID:
    """Return the uuid in a path: 400 where it is none, so that a typing error is not taken for a run that is gone."""
    try:
        if len(value) in (32, 36):
            return UUID(value)
    except ValueError:
        pass
    raise InvalidInput.of("id", "An id is a uuid such as 018f4e9c-8a1b-7c3d-9e2f-0123456789ab.")


def name_in_path(value: str, what: str) -> str:
    """Return the name in a path. What cannot be a name is the name of nothing: 404."""
    if not is_printable_name(value):
        raise NotFound(f"There is no such {what}.")
    return value


def cursor_of(request: Request | HttpRequest, *parts: Callable[[str], T]) -> tuple[T, ...] | None:
    """Return the position that a ``next`` link carried, read by ``parts`` one by one; None without a cursor."""
    value = request.GET.get("cursor", "")
    if not value:
        return None
    try:
        texts = json.loads(
            base64.urlsafe_b64decode(
                value.encode("ascii"),
            )
        )
        if not isinstance(texts, list) or any(not isinstance(text, str) or _UNSTORABLE.search(text) for text in texts):
            raise ValueError
        return tuple(part(text) for part, text in zip(parts, texts, strict=True))
    except (ValueError, OverflowError, RecursionError, UnicodeError, binascii.Error):
        raise InvalidInput.of("cursor", "This cursor is not one that a next link gave.") from None


def cursor_text(*parts: Any) -> str:
    """Write a position for a ``next`` link."""
    texts = [part.isoformat() if isinstance(part, datetime) else str(part) for part in parts]
    return base64.urlsafe_b64encode(json.dumps(texts).encode()).decode()


def instant_part(text: str) -> datetime:
    """Read an instant of a cursor."""
    instant = datetime.fromisoformat(text)
    if instant.tzinfo is None:
        raise ValueError("an instant without its zone")
    return instant.astimezone(UTC)
