"""Limits on what runs at once, and what becomes of a fire that finds them reached. Pure."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

OVERLAP = "overlap"
QUEUE_FULL = "queue_full"

PARALLEL, QUEUE_ONE, SKIP = "parallel", "queue_one", "skip"


@dataclass(frozen=True)
class Budget:
    """A limit by its name: ``job:ID``, ``group:ID`` or ``tenant:SLUG``."""

    name: str
    limit: int


@dataclass(frozen=True)
class Limits:
    """All that limits a job. ``overlap`` other than parallel is a limit too: of one, unless ``max_concurrent`` says
    another number."""

    job_id: int
    tenant: str
    max_concurrent: int | None = None
    overlap: str = PARALLEL
    group_id: int | None = None
    group_limit: int | None = None
    tenant_limit: int | None = None

    @property
    def own(self) -> int | None:
        """How many runs of the job itself may run at once."""
        if self.max_concurrent is not None:
            return self.max_concurrent
        return None if self.overlap == PARALLEL else 1

    @property
    def is_limited(self) -> bool:
        return self.own is not None or self.group_id is not None or self.tenant_limit is not None

    @property
    def budgets(self) -> tuple[Budget, ...]:
        """Those of which a run needs a slot each, from the innermost to the outermost.

        They are nested: whoever has a slot of the job's has one of the group's, and with that one of the tenant's.
        """
        found = []
        if self.own is not None:
            found.append(Budget(f"job:{self.job_id}", self.own))
        if self.group_id is not None and self.group_limit is not None:
            found.append(Budget(f"group:{self.group_id}", self.group_limit))
        if self.tenant_limit is not None:
            found.append(Budget(f"tenant:{self.tenant}", self.tenant_limit))
        return tuple(found)

    @property
    def domain(self) -> str:
        """The name of the outermost budget, under whose lock all of the job's slots are given and taken."""
        if self.tenant_limit is not None:
            return f"tenant:{self.tenant}"
        return f"group:{self.group_id}" if self.group_id is not None else f"job:{self.job_id}"


def has_room(budgets: Collection[Budget], used: dict[str, set[int]]) -> bool:
    """True where each budget has a slot left. Slots beyond a limit that was lowered count: all in use are counted."""
    return all(len(used.get(budget.name, ())) < budget.limit for budget in budgets)


def lowest_free(numbers: Collection[int]) -> int:
    """Return the smallest number from 0 that is not among ``numbers``."""
    n = 0
    while n in numbers:
        n += 1
    return n


def fate_of_fire(limits: Limits, *, active: int, waiting: int, unclaimed: int, most_unclaimed: int) -> str:
    """Return why a scheduled fire that falls due now is skipped, or nothing: it runs, or waits for its turn.

    ``active`` runs of the job have their slot, ``waiting`` due ones have none yet; ``unclaimed`` counts the due ones
    that nobody has claimed, with or without a slot, of which there may be ``most_unclaimed``.
    """
    if limits.own is not None and limits.overlap != PARALLEL:
        may_wait = 1 if limits.overlap == QUEUE_ONE else 0
        if active + waiting >= limits.own + may_wait:
            return OVERLAP
    return QUEUE_FULL if unclaimed >= most_unclaimed else ""
