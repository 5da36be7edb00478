"""Throw away what has outlived its time: idempotency keys, dead letters."""

from __future__ import annotations

from datetime import datetime

from croniq_site.kernel.database import WRITE_BATCH_ROWS, write_transaction
from scheduler.models import DeadLetter, IdempotencyKey


def drop_expired_keys(now: datetime, limit: int = WRITE_BATCH_ROWS) -> int:
    """Delete expired keys, oldest first; one whose run is live still stands for it and stays."""
    expired = IdempotencyKey.objects.filter(expires_at__lte=now, run__verdict__isnull=False).order_by("expires_at")
    with write_transaction():
        ids = list(expired.values_list("pk", flat=True)[:limit])
        # A key that was taken for a new run since is no longer expired.
        return IdempotencyKey.objects.filter(pk__in=ids, expires_at__lte=now).delete()[0]


def drop_expired_letters(now: datetime, limit: int = WRITE_BATCH_ROWS) -> int:
    """Delete letters past their retention, oldest first. Their runs stay."""
    expired = DeadLetter.objects.filter(expires_at__lte=now).order_by("expires_at")
    with write_transaction():
        ids = list(expired.values_list("pk", flat=True)[:limit])
        return DeadLetter.objects.filter(pk__in=ids, expires_at__lte=now).delete()[0]
