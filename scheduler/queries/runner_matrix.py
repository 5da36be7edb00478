"""Which kinds of jobs each live runner may take, and which capabilities nobody has that takes work."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from croniq_site.kernel.capabilities import COMMAND, COMMAND_ONLY, HTTP
from runners.models import Runner
from scheduler.domain.job_fields import PIN_PREFIX
from scheduler.models import Job, Lane
from scheduler.queries.lanes import LaneDirectory
from scheduler.queries.runners import ONLINE_SECONDS
from scheduler.sql.gauges import waiting_by_lane

MOST_NAMED = 5
TAKES, DRAINED, LACKS, TENANT, ACTION = "takes", "drained", "lacks", "tenant", "action"


@dataclass(frozen=True)
class Alike:
    """Online runners that differ in nothing but their ids: (primary key, ``runner_id``) of each, by id."""

    runners: tuple[tuple[int, str], ...]
    tenant: str | None
    capabilities: frozenset[str]
    is_drained: bool


@dataclass(frozen=True)
class Cell:
    """Whether runners take jobs of a kind: TAKES; DRAINED (they would); or why not: LACKS (``names``), TENANT (they
    serve another), ACTION (they take only jobs with an action that they execute). ``names`` of TAKES: those of them
    that a pin means, where not all are meant."""

    kind: str
    names: tuple[str, ...] = ()


@dataclass(frozen=True)
class JobKind:
    """Jobs that ask for the same of a runner; ``waiting`` counts their due runs that nobody has claimed. ``job_keys``:
    the first of ``jobs``. One cell for each `Alike`, in its order."""

    tenant: str
    require: tuple[str, ...]
    actions: frozenset[str]
    jobs: int
    job_keys: tuple[str, ...]
    waiting: int
    cells: tuple[Cell, ...]

    @property
    def is_taken(self) -> bool:
        return any(cell.kind == TAKES for cell in self.cells)


@dataclass(frozen=True)
class Lacking:
    """A capability that active jobs of a tenant require and no online runner has that serves it and takes work."""

    name: str
    tenant: str
    jobs: int
    job_keys: tuple[str, ...]
    waiting: int
    is_drained: bool


@dataclass(frozen=True)
class Matrix:
    """``columns`` by the id of their first runner; ``kinds`` that nobody takes first, then by what waits."""

    columns: tuple[Alike, ...]
    kinds: tuple[JobKind, ...]
    lacking: tuple[Lacking, ...]


@dataclass
class _Kind:
    lanes: set[int]
    job_keys: list[str]
    waiting: int = 0


def runner_matrix(now: datetime) -> Matrix:
    """Look at all active jobs and all due runs that nobody has claimed, by what the claim itself goes by. Four
    queries."""
    waiting = waiting_by_lane(now)
    jobs: dict[int, list[str]] = defaultdict(list)
    live = Job.objects.filter(deleted_at__isnull=True, is_active=True).order_by("job_key")
    for lane_id, key in live.values_list("lane_id", "job_key"):
        jobs[lane_id].append(key)
    lanes = LaneDirectory()
    lanes.refresh()
    kinds: dict[tuple[str, tuple[str, ...], frozenset[str]], _Kind] = {}
    for lane in Lane.objects.filter(pk__in=jobs.keys() | waiting.keys()).only("tenant", "require", "prefer"):
        key = lane.tenant, tuple(lane.require), frozenset(lane.prefer) & {COMMAND, HTTP}
        kind = kinds.setdefault(key, _Kind(set(), []))
        kind.lanes.add(lane.pk)
        kind.job_keys += jobs.get(lane.pk, [])
        kind.waiting += waiting.get(lane.pk, 0)
    columns = _alike(_online(now))
    served = [{pk: _lanes_of(lanes, column, runner_id) for pk, runner_id in column.runners} for column in columns]
    found = [
        JobKind(
            tenant,
            require,
            actions,
            len(kind.job_keys),
            tuple(sorted(kind.job_keys)[:MOST_NAMED]),
            kind.waiting,
            tuple(
                _cell(column, by_runner, kind.lanes, tenant, require)
                for column, by_runner in zip(columns, served, strict=True)
            ),
        )
        for (tenant, require, actions), kind in kinds.items()
    ]
    found.sort(key=lambda kind: (kind.is_taken, -kind.waiting, kind.tenant, kind.require, sorted(kind.actions)))
    return Matrix(columns, tuple(found), tuple(_lacking(kinds, columns)))


def _online(now: datetime) -> Iterable[tuple[int, str, str | None, list[str], datetime | None]]:
    seen = Runner.objects.filter(last_poll_at__gte=now - timedelta(seconds=ONLINE_SECONDS)).order_by("runner_id")
    return seen.values_list("pk", "runner_id", "client__tenant", "capabilities", "drained_at")


def _alike(online: Iterable[tuple[int, str, str | None, list[str], datetime | None]]) -> tuple[Alike, ...]:
    groups: dict[tuple[str | None, frozenset[str], bool], list[tuple[int, str]]] = defaultdict(list)
    for pk, runner_id, tenant, capabilities, drained_at in online:
        has = frozenset(name for name in capabilities if not name.startswith(PIN_PREFIX))
        groups[tenant, has, drained_at is not None].append((pk, runner_id))
    return tuple(Alike(tuple(runners), *key) for key, runners in groups.items())


def _lanes_of(lanes: LaneDirectory, column: Alike, runner_id: str) -> frozenset[int]:
    served = lanes.lanes_for(column.capabilities, runner_id, column.tenant)
    return frozenset(lane_id for of_tenant in served for lane_id in of_tenant)


def _cell(
    column: Alike, served: dict[int, frozenset[int]], lanes: Collection[int], tenant: str, require: Sequence[str]
) -> Cell:
    takers = [runner_id for pk, runner_id in column.runners if not served[pk].isdisjoint(lanes)]
    if takers:
        names = tuple(takers) if len(takers) < len(column.runners) else ()
        return Cell(DRAINED if column.is_drained else TAKES, names)
    if column.tenant not in (None, tenant):
        return Cell(TENANT)
    lacks = tuple(name for name in require if name.startswith(PIN_PREFIX) or name not in column.capabilities)
    return Cell(LACKS, lacks) if lacks or COMMAND_ONLY not in column.capabilities else Cell(ACTION)


def _lacking(
    kinds: dict[tuple[str, tuple[str, ...], frozenset[str]], _Kind], columns: Sequence[Alike]
) -> Iterable[Lacking]:
    wanted: dict[tuple[str, str], list[_Kind]] = defaultdict(list)
    for (tenant, require, _), kind in kinds.items():
        for name in require:
            wanted[name, tenant].append(kind)
    for (name, tenant), of_name in sorted(wanted.items()):
        having = [column for column in columns if column.tenant in (None, tenant) and _has(column, name)]
        if all(column.is_drained for column in having):
            keys = sorted(key for kind in of_name for key in kind.job_keys)
            waiting = sum(kind.waiting for kind in of_name)
            yield Lacking(name, tenant, len(keys), tuple(keys[:MOST_NAMED]), waiting, is_drained=bool(having))


def _has(column: Alike, name: str) -> bool:
    if name.startswith(PIN_PREFIX):
        return any(runner_id == name.removeprefix(PIN_PREFIX) for _, runner_id in column.runners)
    return name in column.capabilities
