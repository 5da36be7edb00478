"""Bulk operations: first a dry run that counts, then the same with what it counted; never more than was shown."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from rest_framework.response import Response

from croniq_site.kernel.errors import Conflict, InvalidInput
from scheduler.domain.inputs import flag_of, whole_number_of
from scheduler.domain.job_fields import refuse_unknown
from scheduler.queries.bulk import MOST, Matches
from scheduler.services.bulk import Done

SHOWN = 100
"""Most ids of one answer."""

ASKED = {"dry_run", "expected"}


@dataclass(frozen=True)
class Asked:
    """``expected``: how many the caller means; any other number now changes nothing. None: those that it named."""

    dry_run: bool
    expected: int | None


def asked_of(body: Mapping[str, Any], known: set[str], *, is_named: bool) -> Asked:
    """Read what all bulk bodies have. Who names no ids says how many rows there are to be, as a dry run told."""
    refuse_unknown(body, {*known, *ASKED})
    dry_run = flag_of("dry_run", body.get("dry_run", False))
    expected = body.get("expected")
    if expected is not None:
        expected = whole_number_of("expected", expected, 0, MOST)
    elif not dry_run and not is_named:
        raise InvalidInput.of("expected", "Say how many are meant: `matched` of the same request with dry_run.")
    return Asked(dry_run, expected)


def bulk_answer(asked: Asked, matches: Matches, act: Callable[[list[Any]], Done]) -> Response:
    """Do it to what matches, unless it was only asked or their number is not the expected one (409)."""
    done = Done([], [])
    matched = len(matches.ids)
    if not asked.dry_run:
        if asked.expected is not None and asked.expected != matched:
            raise Conflict(
                f"{matched} match by now, not {asked.expected}; nothing was changed. Look again with dry_run.",
                code="count_changed",
                extra={"matched": matched, "has_more": matches.has_more},
            )
        done = act(matches.ids)
    return Response(
        {
            "dry_run": asked.dry_run,
            "matched": matched,
            "has_more": matches.has_more,
            "changed": len(done.changed),
            "ids": [str(each) for each in (matches.ids if asked.dry_run else done.changed)[:SHOWN]],
            "refused": [
                {"id": str(each), "error": refusal.code, "message": refusal.message}
                for each, refusal in done.refused[:SHOWN]
            ],
        }
    )
