"""What runner instances hold, and whether they still may."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db import connection

from croniq_site.kernel.database import IDS_PER_QUERY, chunks
from runners.models import RunnerInstance
from scheduler.models import QueueEntry


@dataclass
class Holding:
    """What an instance has: ``claims`` maps runs to the attempt it holds, ``stopping`` are runs that are final already
    while its handler winds down."""

    claims: dict[UUID, int] = field(default_factory=dict)
    stopping: set[UUID] = field(default_factory=set)


def holdings_of(holder_ids: Collection[int]) -> dict[int, Holding]:
    """Return what each of these instances holds."""
    holdings = {holder_id: Holding() for holder_id in holder_ids}
    rows = QueueEntry.objects.filter(
        holder_id__in=list(holdings), state__in=[QueueEntry.State.CLAIMED, QueueEntry.State.STOPPING]
    ).values_list("holder_id", "run_id", "attempt", "state")
    for holder_id, run_id, attempt, state in rows:
        if state == QueueEntry.State.CLAIMED:
            holdings[holder_id].claims[run_id] = attempt
        else:
            holdings[holder_id].stopping.add(run_id)
    return holdings


def current_among(holder_ids: Iterable[int]) -> dict[int, bool]:
    """Return which are current, and whether they are drained. The others were deposed or are gone with their runner."""
    current = RunnerInstance.objects.filter(pk__in=set(holder_ids), deposed_at__isnull=True)
    return dict(current.values_list("pk", "is_drained"))


def due_among(run_ids: Collection[UUID], now: datetime) -> set[UUID]:
    """Return those of these runs that anybody could claim at ``now``."""
    ready = QueueEntry.objects.filter(state=QueueEntry.State.READY, available_at__lte=now)
    return {
        run_id
        for some in chunks(list(run_ids), IDS_PER_QUERY)
        for run_id in ready.filter(run_id__in=some).values_list("run_id", flat=True)
    }


def runner_holding(run_id: UUID) -> tuple[str, str] | None:
    """Return the ``runner_id`` that has this run, and the run's tenant; None if nobody has it."""
    entry = QueueEntry.objects.filter(run_id=run_id, holder__isnull=False)
    return entry.values_list("holder__runner__runner_id", "job__tenant").first()


def owners_of(runner_ids: Collection[str]) -> dict[str, int]:
    """Return whose each of these runners is, as the id of an API client. Asked with every batch of acks."""
    sql, params = in_list("runner_id", "text", runner_ids)
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT runner_id, client_id FROM runners_runner WHERE {sql}", params)  # noqa: S608 - our text
        return dict(cursor.fetchall())


def in_list(column: str, kind: str, values: Collection[Any]) -> tuple[str, list[Any]]:
    """Return a condition and its parameters: on PostgreSQL one array, so that the text does not depend on how many."""
    if connection.vendor == "postgresql":
        return f"{column} = ANY (%s::{kind}[])", [list(values)]
    return f"{column} IN ({', '.join(['%s'] * len(values)) or 'NULL'})", list(values)
