"""Dead letters that are still to be dealt with: not replayed, and of jobs that are there."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from django.db.models import Count, Exists, OuterRef, QuerySet, Window
from django.db.models.functions import Left

from scheduler.models import DeadLetter, Run

ERROR_CHARACTERS = 200


@dataclass(frozen=True)
class WaitingLetter:
    """``error`` is the beginning of the letter's."""

    id: UUID
    created_at: datetime
    dead_reason: str
    error: str


def waiting_letters() -> QuerySet[DeadLetter]:
    again = Run.objects.filter(replay_of_id=OuterRef("run_id"))
    return DeadLetter.objects.filter(~Exists(again), job__deleted_at__isnull=True)


def letters_of_job(job_id: int, limit: int) -> tuple[list[WaitingLetter], int]:
    """Return the newest letters of a job that wait, at most ``limit``, and how many there are. One query."""
    letters = (
        waiting_letters()
        .filter(job_id=job_id)
        .annotate(total=Window(Count("pk")), head=Left("error", ERROR_CHARACTERS))
    )
    rows = letters.order_by("-created_at", "-pk").values_list("pk", "created_at", "dead_reason", "head", "total")[
        :limit
    ]
    found = list(rows)
    return [WaitingLetter(*row[:4]) for row in found], found[0][4] if found else 0


def letters_by_job() -> list[tuple[str, int]]:
    """Return how many letters of each job wait, those with the most first. One query."""
    counted = waiting_letters().values("job__job_key").annotate(number=Count("pk"))
    return list(counted.order_by("-number", "job__job_key").values_list("job__job_key", "number"))
