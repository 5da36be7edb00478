"""Count rare events for good: in the transaction of the event, whatever becomes of its rows later."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from django.db.models import Count, Exists, OuterRef

from croniq_site.kernel.database import WRITE_BATCH_ROWS, write_transaction
from scheduler.models import Job, Tally

Kind = Tally.Kind

FOLDED_FROM = 20
"""Rows of one sum that are worth folding."""


def tally(kind: Kind, label: str = "", events: int = 1) -> None:
    """Add ``events`` to what was counted of ``kind`` and ``label``. In the caller's transaction; 0 writes nothing."""
    if events:
        Tally.objects.create(kind=kind, label=label, count=events)


def tally_failed(runs: Mapping[tuple[int, str], int]) -> None:
    """Add runs that ended without success, by (job id, verdict: failed or dead). In the caller's transaction."""
    Tally.objects.bulk_create(
        Tally(kind=Kind.FAILED, label=verdict, job_id=job_id, count=number)
        for (job_id, verdict), number in runs.items()
    )


def fold_tallies(now: datetime, limit: int = WRITE_BATCH_ROWS) -> int:
    """Replace many rows of one kind, label and job by one of their sum, and drop those of deleted jobs; at most
    ``limit`` rows of each. Returns how many rows went, or ``limit`` where there may be more.

    Several may fold at once: each takes what nobody else has locked.
    """
    gone = Tally.objects.filter(Exists(Job.objects.filter(pk=OuterRef("job_id"), deleted_at__isnull=False)))
    ids = list(gone.values_list("pk", flat=True)[:limit])
    dropped = Tally.objects.filter(pk__in=ids).delete()[0] if ids else 0
    sums = Tally.objects.values_list("kind", "label", "job_id").annotate(rows=Count("pk")).order_by()
    for kind, label, job_id, _ in sums.filter(rows__gte=FOLDED_FROM):
        with write_transaction():
            same = Tally.objects.select_for_update(skip_locked=True).filter(kind=kind, label=label, job_id=job_id)
            rows = list(same.order_by("pk").values_list("pk", "count")[:limit])
            if len(rows) > 1:
                removed, _ = Tally.objects.filter(pk__in=[pk for pk, _ in rows]).delete()
                if removed != len(rows):
                    raise RuntimeError(f"{len(rows) - removed} tallies were folded by somebody who held no lock")
                Tally.objects.create(kind=kind, label=label, job_id=job_id, count=sum(number for _, number in rows))
        dropped += len(rows)
    return min(dropped, limit)
