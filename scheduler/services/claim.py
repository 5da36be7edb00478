"""Hand out what is due."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from uuid import UUID

from django.db import DatabaseError, connection

from croniq_site.kernel.database import IDS_PER_QUERY, WRITE_BATCH_ROWS, chunks, is_postgresql
from scheduler.domain.work import Ask, Buried, Claimed, ClaimOutcome
from scheduler.metrics.hot import note_claimed
from scheduler.models import QueueEntry
from scheduler.services.release import bury
from scheduler.sql import backend, hot_statement
from scheduler.sql.rows import Seats

_log = logging.getLogger(__name__)

MOST_ROUNDS = 20
"""Of one claim: each round buries what stood in the way of the next, so many used-up runs cannot hold up a poll."""


def claim_due(
    now: datetime,
    limit: int,
    holder_id: int,
    lane_ids: Sequence[int],
    listed: frozenset[UUID] = frozenset(),
) -> ClaimOutcome:
    """Claim for one instance from the lanes of one tenant; see `claim_batch`."""
    return claim_batch(now, [Ask(holder_id, limit, listed)], [tuple(dict.fromkeys(lane_ids))])[0]


def claim_batch(
    now: datetime, asks: Sequence[Ask], tenants: Sequence[Sequence[int]], late: Collection[int] = ()
) -> list[ClaimOutcome]:
    """Claim due runs for several polls that share their lanes; one outcome an ask, in order.

    ``tenants`` are the lanes of each tenant in order of preference, the tenants in the order of their turn. Of k wanted
    runs each tenant with something due gets its share at most, k by their number rounded up; what is left over is
    filled up in the same order. A lane belongs to one tenant and is named once.

    A run is due when it is ready and ``available_at <= now``; in the lanes of ``late``, which prefer others, when it
    has been so for HEAD_START; within a lane the oldest goes first, then the smaller id.
    What there is is dealt out to the asks in turn. Each claim counts the attempt and stamps holder (who must be the
    current instance of its runner), lease and deadline. A run that an ask lists is never in its outcome. A due run
    whose attempts are used up is buried instead and is in ``buried`` of the first ask of its round. At most 500 runs a
    transaction; a larger ask gets 500.
    """
    outcomes: list[ClaimOutcome] = []
    tenants = [tuple(lane_ids) for lane_ids in tenants if lane_ids]
    for batch in _batches(asks):
        taken = _Taken.by(batch)
        try:
            with hot_statement():
                _claim(now, batch, tenants, late, taken)
        except DatabaseError:
            # What is committed must be heard of: what earlier batches claimed and, where each statement stands for
            # itself, what this one had before it failed. The others' polls ask again.
            stands_for_itself = is_postgresql() and not connection.in_atomic_block
            kept = taken.outcomes() if stands_for_itself and any(taken.claimed) else []
            if not outcomes and not kept:
                raise
            outcomes += _counted(kept, now)
            _log.warning("a claim stopped before the last of %d asks", len(asks), exc_info=True)
            return outcomes + [ClaimOutcome()] * (len(asks) - len(outcomes))
        outcomes += _counted(taken.outcomes(), now)
    return outcomes


def _counted(outcomes: list[ClaimOutcome], now: datetime) -> list[ClaimOutcome]:
    note_claimed([claim for outcome in outcomes for claim in outcome.claimed], now)
    return outcomes


@dataclass
class _Taken:
    """What a claim has got so far, an ask."""

    claimed: list[list[Claimed]]
    buried: list[list[Buried]]

    @classmethod
    def by(cls, asks: Sequence[Ask]) -> _Taken:
        return cls([[] for _ in asks], [[] for _ in asks])

    def outcomes(self) -> list[ClaimOutcome]:
        return [ClaimOutcome(tuple(c), tuple(b)) for c, b in zip(self.claimed, self.buried, strict=True)]


def _batches(asks: Sequence[Ask]) -> Iterator[list[Ask]]:
    """Asks that together want at most 500 runs."""
    batch: list[Ask] = []
    for ask in asks:
        ask = replace(ask, limit=max(0, min(ask.limit, WRITE_BATCH_ROWS)))
        if batch and sum(one.limit for one in batch) + ask.limit > WRITE_BATCH_ROWS:
            yield batch
            batch = []
        batch.append(ask)
    if batch:
        yield batch


def _claim(
    now: datetime, asks: list[Ask], tenants: Sequence[Sequence[int]], late: Collection[int], taken: _Taken
) -> None:
    if not tenants:
        return
    claimed, buried = taken.claimed, taken.buried

    def fill(places: list[int], listed: frozenset[UUID]) -> None:
        """One statement for the asks at ``places``, which leaves all of ``listed`` alone; again while it buries."""
        for _ in range(MOST_ROUNDS):
            open_places = [place for place in places if len(claimed[place]) < asks[place].limit]
            if not open_places:
                return
            seats = Seats(
                [asks[place].holder_id for place in open_places],
                [asks[place].limit - len(claimed[place]) for place in open_places],
            )
            picks = backend().claim_rows(now, seats, tenants, sorted(listed), late)
            for pick in picks:
                if pick.claimed is not None:
                    claimed[open_places[pick.ask]].append(pick.claimed)
            used_up = [pick.run_id for pick in picks if pick.claimed is None]
            if not used_up:
                return
            buried[open_places[0]] += bury(used_up, now)

    listed = frozenset().union(*(ask.listed for ask in asks))
    fill(list(range(len(asks))), listed)
    # Nearly always that was all: a listed run is one that its runner has. Where one of them waits again (its claim was
    # lost), those asks that do not list it may have it, each by a statement that leaves alone only its own list.
    hungry = [place for place, ask in enumerate(asks) if len(claimed[place]) < ask.limit and ask.listed != listed]
    if hungry:
        again = _due_among(listed, tenants, now)
        for place in hungry:
            if again - asks[place].listed:
                fill([place], asks[place].listed)


def _due_among(run_ids: frozenset[UUID], tenants: Sequence[Sequence[int]], now: datetime) -> set[UUID]:
    lanes = {lane_id for lane_ids in tenants for lane_id in lane_ids}
    ready = QueueEntry.objects.filter(state=QueueEntry.State.READY, available_at__lte=now)
    return {
        run_id
        for some in chunks(sorted(run_ids), IDS_PER_QUERY)
        for run_id, lane_id in ready.filter(run_id__in=some).values_list("run_id", "lane_id")
        if lane_id in lanes
    }
