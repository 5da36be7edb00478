"""Lists: an array of at most ``limit`` rows; with ``page_size`` or ``cursor`` pages that follow the order's key."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from rest_framework.request import Request
from rest_framework.response import Response

from croniq_site.kernel.errors import InvalidInput
from runners.api.parameters import DEFAULT_LIMIT, cursor_of, cursor_text, number_of

Row = TypeVar("Row")


def list_answer(
    request: Request,
    fetch: Callable[[int, tuple | None], Sequence[Row]],
    *,
    body: Callable[[Row], dict[str, Any]],
    key: Callable[[Row], tuple],
    key_parts: tuple[Callable[[str], Any], ...],
) -> Response:
    """Answer a list. ``fetch(limit, after)`` reads the rows after a position, in an order that ``key`` determines.

    A page is found by its position and not by counting rows, so that rows which come or go meanwhile make no row
    appear twice or be left out.
    """
    position = cursor_of(request, *key_parts)
    limit = number_of(request, "limit", default=None)
    if position is None and "page_size" not in request.GET:
        limit = limit or DEFAULT_LIMIT
        return Response([body(row) for row in fetch(limit, None)])
    if limit is not None:
        raise InvalidInput.of("limit", "limit is for arrays; of pages page_size is the size.")
    size = number_of(request, "page_size", default=DEFAULT_LIMIT)
    rows = fetch(size + 1, position)
    following = None
    if len(rows) > size:
        rows = rows[:size]
        query = request.GET.copy()
        query["cursor"] = cursor_text(*key(rows[-1]))
        following = request.build_absolute_uri(f"{request.path}?{query.urlencode()}")
    return Response({"results": [body(row) for row in rows], "next": following})
