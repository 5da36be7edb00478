"""Which lanes a runner may be served from; kept in memory, because lanes are only ever added."""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterable
from dataclasses import dataclass

from croniq_site.kernel.capabilities import executed_only
from croniq_site.kernel.database import is_postgresql
from scheduler.domain.job_fields import PIN_PREFIX
from scheduler.models import Lane

Lanes = tuple[tuple[int, ...], ...]
"""Lane ids, one tuple a tenant, in each the higher priority first."""

_MEMO_ENTRIES = 5_000
_OVERLAP = 500
"""Ids below the highest known that are read again: on PostgreSQL a lower id may be committed after a higher one."""


@dataclass(frozen=True)
class _Lane:
    pk: int
    tenant: str
    require: frozenset[str]
    prefer: frozenset[str]
    priority: int


class LaneDirectory:
    """All lanes, and for each set of capabilities those that it satisfies. Safe in many threads.

    ``version`` grows when lanes were added: whoever keeps an answer of `lanes_for` asks again.
    """

    def __init__(self) -> None:
        self.version = 0
        self._lock = threading.Lock()
        self._lanes: dict[int, _Lane] = {}
        self._memo: dict[tuple[frozenset[str], frozenset[str], str | None], Lanes] = {}

    def knows(self, lane_ids: Iterable[int]) -> bool:
        return all(lane_id in self._lanes for lane_id in lane_ids)

    def tenant_of(self, lane_id: int) -> str:
        """Return whose lane it is; of one that an answer of `lanes_for` had."""
        return self._lanes[lane_id].tenant

    def refresh(self) -> None:
        """Read the lanes that were added. A query."""
        # SQLite's one writer commits ids in their order, and there this is asked after every change of the file.
        after = max(self._lanes, default=0) - (_OVERLAP if is_postgresql() else 0)
        rows = Lane.objects.filter(pk__gt=after).values_list("pk", "tenant", "require", "prefer", "priority")
        found = {
            pk: _Lane(pk, tenant, frozenset(require), frozenset(prefer), priority)
            for pk, tenant, require, prefer, priority in rows
        }
        with self._lock:
            if found.keys() <= self._lanes.keys():
                return
            self._lanes = {**self._lanes, **found}
            self._memo = {}
            self.version += 1

    def lanes_for(self, capabilities: Collection[str], runner_id: str, tenant: str | None) -> Lanes:
        """Return the lanes whose required capabilities this runner has; ``tenant`` None: of all tenants.

        A pin is the capability ``runner:<id>``. Only the runner of that id has it, whatever others say of themselves.
        One that says ``croniq:command-only`` gets only lanes whose jobs have an action that it executes: it could not
        do the others.
        """
        lanes, memo = self._lanes, self._memo
        has = _what_has(capabilities, runner_id)
        must = executed_only(has)
        # Runners that differ only in a name that no lane asks for share their lanes, and with them one claim.
        has &= frozenset().union(*(lane.require for lane in lanes.values())) if lanes else frozenset()
        key = (has, must, tenant)
        answer = memo.get(key)
        if answer is None:
            answer = _by_tenant(
                lane
                for lane in lanes.values()
                if lane.require <= has and tenant in (None, lane.tenant) and (not must or must & lane.prefer)
            )
            if len(memo) >= _MEMO_ENTRIES:
                memo.clear()
            memo[key] = answer
        return answer

    def late_for(self, capabilities: Collection[str], runner_id: str, served: Lanes) -> frozenset[int]:
        """Return those of the lanes ``served`` that prefer what this runner has not: it sees their runs later, so that
        whoever has it comes first. ``served`` is an answer of `lanes_for`."""
        lanes, has = self._lanes, _what_has(capabilities, runner_id)
        return frozenset(lane_id for lane_ids in served for lane_id in lane_ids if not lanes[lane_id].prefer <= has)


def _what_has(capabilities: Collection[str], runner_id: str) -> frozenset[str]:
    return frozenset(c for c in capabilities if not c.startswith(PIN_PREFIX)) | {PIN_PREFIX + runner_id}


def _by_tenant(lanes: Iterable[_Lane]) -> Lanes:
    tenants: dict[str, list[_Lane]] = {}
    for lane in lanes:
        tenants.setdefault(lane.tenant, []).append(lane)
    return tuple(
        tuple(lane.pk for lane in sorted(tenants[tenant], key=lambda lane: (-lane.priority, lane.pk)))
        for tenant in sorted(tenants)
    )


class Rotation:
    """Whose turn it is among the tenants, as this server has served them: who was served last goes last, who never was
    goes first. Kept in memory: every server is fair by itself. Safe in many threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._served: dict[str, int] = {}
        self._count = 0

    def in_turn(self, lanes: Lanes, directory: LaneDirectory) -> Lanes:
        """Return the tenants' lanes in the order of their turn; equals by name."""
        return tuple(sorted(lanes, key=lambda lane_ids: self._served.get(directory.tenant_of(lane_ids[0]), 0)))

    def note(self, turns: Lanes, served: frozenset[int], directory: LaneDirectory) -> None:
        """The claim that was made in the order of ``turns`` took runs from the lanes ``served``."""
        with self._lock:
            for lane_ids in turns:
                if not served.isdisjoint(lane_ids):
                    self._count += 1
                    self._served[directory.tenant_of(lane_ids[0])] = self._count
