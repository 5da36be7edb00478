"""Signs of life of our own processes."""

from __future__ import annotations

import os
import socket
from datetime import datetime
from uuid import UUID, uuid4

from runners.models import Heartbeat


def start_heartbeat(kind: str, now: datetime) -> UUID:
    """Enter this process as a running ``kind`` and return its process id."""
    beat = Heartbeat.objects.create(
        process_id=uuid4(), kind=kind, host=socket.gethostname()[:255], pid=os.getpid(), started_at=now, beat_at=now
    )
    return beat.process_id


def beat(process_id: UUID, now: datetime, *, worked: bool = False, detail: dict | None = None) -> None:
    """Say that the process lives; ``worked``: it has just finished a pass."""
    changes: dict = {"beat_at": now}
    if worked:
        changes["tick_at"] = now
    if detail is not None:
        changes["detail"] = detail
    Heartbeat.objects.filter(process_id=process_id).update(**changes)


def end_heartbeat(process_id: UUID, now: datetime) -> None:
    """Say that the process stops in good order."""
    Heartbeat.objects.filter(process_id=process_id, ended_at__isnull=True).update(beat_at=now, ended_at=now)
