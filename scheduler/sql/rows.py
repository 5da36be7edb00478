"""What the statements of both databases take and give."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from django.conf import settings

from scheduler.domain.work import Claimed


@dataclass(frozen=True)
class Seats:
    """Who may get a run: ``holders[i]`` (instance ids) wants at most ``wants[i]``."""

    holders: Sequence[int]
    wants: Sequence[int]


@dataclass(frozen=True)
class Pick:
    """A run that a claim took for the holder at index ``ask``; or, with ``claimed`` None, one that is used up."""

    run_id: UUID
    ask: int | None = None
    claimed: Claimed | None = None


@dataclass(frozen=True)
class Closed:
    """A run that an ack completed; ``is_limited``: its slots were given back with it; ``duration_ms`` as recorded.

    ``is_closed`` False: not yet, it has slots to be handed on in the transaction that closes it.
    """

    run_id: UUID
    job_id: int
    is_limited: bool
    duration_ms: int
    is_closed: bool = True


LIMITED = "(j.max_concurrent IS NOT NULL OR j.concurrency_group_id IS NOT NULL OR j.overlap <> 'parallel')"
"""Of a job ``j``: its runs hold slots. (So do all, where tenants are limited.)"""


def limited_sql() -> str:
    return LIMITED if settings.CRONIQ_TENANT_MAX_CONCURRENT is None else "true"


def json_of(value: object) -> dict | None:
    """Return a JSON column that a raw statement gave (both drivers answer text) as a value."""
    return json.loads(value) if isinstance(value, str) else value  # type: ignore[return-value]
