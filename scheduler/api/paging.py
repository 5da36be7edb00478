"""Lists: an array of at most ``limit`` rows; with ``page_size`` or ``cursor`` pages that follow the order's key."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from rest_framework.request import Request
from rest_framework.response import Response

from croniq_site.kernel.errors import InvalidInput
from runners.api.parameters import DEFAULT_LIMIT, cursor_of, cursor_text, number_of

Row = TypeVar("Row")


@dataclass(frozen=True)
class Look(Generic[Row]):
    """The rows of a look that ended at the position ``end`` of the order, with fewer than were asked for."""

    rows: Sequence[Row]
    end: tuple


def list_answer(
    request: Request,
    fetch: Callable[[int, tuple | None], Sequence[Row] | Look[Row]],
    *,
    body: Callable[[Row], dict[str, Any]],
    key: Callable[[Row], tuple],
    key_parts: tuple[Callable[[str], Any], ...],
) -> Response:
    """Answer a list. ``fetch(limit, after)`` reads the rows after a position, in an order that ``key`` determines.

    A page is found by its position and not by counting rows, so that rows which come or go meanwhile make no row
    appear twice or be left out. Where a look ended before it had all the page has fewer rows and goes on from there; an
    array names the page that does in the header Link.
    """
    position = cursor_of(request, *key_parts)
    limit = number_of(request, "limit", default=None)
    if position is None and "page_size" not in request.GET:
        limit = limit or DEFAULT_LIMIT
        rows, end = _parts(fetch(limit, None))
        links = {"Link": f'<{_from(request, end, page_size=limit)}>; rel="next"'} if end is not None else None
        return Response([body(row) for row in rows], headers=links)
    if limit is not None:
        raise InvalidInput.of("limit", "limit is for arrays; of pages page_size is the size.")
    size = number_of(request, "page_size", default=DEFAULT_LIMIT)
    rows, end = _parts(fetch(size + 1, position))
    if len(rows) > size:
        rows = rows[:size]
        end = key(rows[-1])
    following = None if end is None else _from(request, end)
    return Response({"results": [body(row) for row in rows], "next": following})


def _parts(found: Sequence[Row] | Look[Row]) -> tuple[Sequence[Row], tuple | None]:
    return (found.rows, found.end) if isinstance(found, Look) else (found, None)


def _from(request: Request, position: tuple, page_size: int | None = None) -> str:
    """The address of the page that begins after ``position``."""
    query = request.GET.copy()
    query["cursor"] = cursor_text(*position)
    if page_size is not None:
        query.pop("limit", None)
        query["page_size"] = str(page_size)
    return request.build_absolute_uri(f"{request.path}?{query.urlencode()}")
