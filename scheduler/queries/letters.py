"""Dead letters: runs that used up their attempts."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db.models import OuterRef, Q, QuerySet, Subquery

from scheduler.models import DeadLetter, Run


@dataclass(frozen=True)
class LetterRow:
    """``replayed_as``: the run that it was replayed as, None while it was not."""

    id: UUID
    run_id: UUID
    job_key: str
    tenant: str
    error: str
    attempt: int
    dead_reason: str
    scheduled_for: datetime
    fire_at: datetime
    metadata: dict[str, Any]
    created_at: datetime
    expires_at: datetime | None
    replayed_as: UUID | None


def letter_list(
    *,
    tenant: str | None = None,
    job_key: str | None = None,
    limit: int,
    before: tuple[datetime, UUID] | None = None,
) -> list[LetterRow]:
    """Return at most ``limit`` letters, newest first; ``before`` is the last (created_at, id) seen."""
    letters = _letters(tenant)
    if job_key is not None:
        letters = letters.filter(job__job_key=job_key)
    if before is not None:
        at, letter_id = before
        letters = letters.filter(created_at__lte=at).filter(Q(created_at__lt=at) | Q(id__lt=letter_id))
    return [_row(letter) for letter in letters.order_by("-created_at", "-id")[:limit]]


def letter_detail(letter_id: UUID, tenant: str | None = None) -> LetterRow | None:
    letter = _letters(tenant).filter(id=letter_id).first()
    return None if letter is None else _row(letter)


def _letters(tenant: str | None) -> QuerySet[DeadLetter]:
    replay = Run.objects.filter(replay_of_id=OuterRef("run_id")).values("pk")[:1]
    letters = DeadLetter.objects.select_related("job").annotate(replayed_as=Subquery(replay))
    return letters if tenant is None else letters.filter(job__tenant=tenant)


def _row(letter: DeadLetter) -> LetterRow:
    return LetterRow(
        id=letter.id,
        run_id=letter.run_id,
        job_key=letter.job.job_key,
        tenant=letter.job.tenant,
        error=letter.error,
        attempt=letter.attempt,
        dead_reason=letter.dead_reason,
        scheduled_for=letter.scheduled_for,
        fire_at=letter.fire_at,
        metadata=letter.metadata,
        created_at=letter.created_at,
        expires_at=letter.expires_at,
        replayed_as=letter.replayed_as,
    )
