"""Query parameters: each is read by name and refused by name; unknown ones are ignored."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from typing import Any, TypeVar
from uuid import UUID

from django.http import HttpRequest
from rest_framework.request import Request

from croniq_site.kernel.errors import InvalidInput, NotFound
from croniq_site.kernel.text import is_printable_name

DEFAULT_LIMIT = 100
MOST_LIMIT = 500

T = TypeVar("T")


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
        if not isinstance(texts, list) or not all(isinstance(text, str) and "\x00" not in text for text in texts):
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
