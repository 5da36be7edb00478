"""Whether any runner may take what a job makes, and what is lacking where each of its capabilities is had by some."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db.models import QuerySet

from croniq_site.kernel.capabilities import COMMAND, HTTP, may_take
from runners.models import Runner
from scheduler.domain.job_fields import PIN_PREFIX
from scheduler.models import Job
from scheduler.queries.gauges import runners_having
from scheduler.queries.runners import ONLINE_SECONDS

MOST_NAMED = 8
NO_HANDLER = "no_handler"
NO_TAKER = "no_taker"
"""Codes of what `lack` says: nobody who is there has handlers, or executes this; nobody has all that is required."""


@dataclass(frozen=True)
class Untaken:
    """Jobs (their keys) of a tenant, of which no runner that is online takes a run, and why."""

    why: str
    job_keys: tuple[str, ...]

    @property
    def first(self) -> tuple[str, ...]:
        return self.job_keys[:MOST_NAMED]

    @property
    def more(self) -> int:
        return len(self.job_keys) - len(self.first)

    @property
    def sentence(self) -> str:
        first, more = self.job_keys[0], len(self.job_keys) - 1
        return f"{self.why} Runs wait of {first}{f' and of {more} more jobs' if more else ''}."


def having(runner_id: str, capabilities: Collection[str]) -> frozenset[str]:
    """What a runner has: a pin is had by the runner that it names, whatever others say of themselves."""
    return frozenset(name for name in capabilities if not name.startswith(PIN_PREFIX)) | {PIN_PREFIX + runner_id}


def lack(
    require: Collection[str], prefer: Collection[str], runners: Sequence[frozenset[str]]
) -> tuple[str, str] | None:
    """Why none of ``runners`` takes it, as a code and a sentence, though each capability is had by one of them; None
    where one does, or where it is another thing that is lacking: a capability, or any runner at all."""
    required, preferred = frozenset(require), frozenset(prefer)
    if not runners or not required <= frozenset().union(*runners):
        return None
    if any(may_take(has, required, preferred) for has in runners):
        return None
    if not any(required <= has for has in runners):
        return NO_TAKER, f"No one runner that is online has all of {', '.join(sorted(required))}."
    executed = preferred & {COMMAND, HTTP}
    if not executed:
        return NO_HANDLER, (
            "Every runner that is online executes commands or HTTP requests only, and this takes a handler: "
            "a runner of your own code, with an SDK."
        )
    what = "HTTP requests" if HTTP in executed else "commands"
    return NO_TAKER, f"No runner that is online executes {what}."


def untaken(
    jobs: Iterable[tuple[str, str, Collection[str], Collection[str]]],
    online: Iterable[tuple[str, str | None, Collection[str]]],
) -> Iterator[Untaken]:
    """`lack` of all ``jobs`` (key, tenant, what their lanes require and prefer): for each reason and tenant whose runs
    wait. ``online`` are the runners that take work: id, tenant and capabilities."""
    runners = [(tenant, having(runner_id, capabilities)) for runner_id, tenant, capabilities in online]
    serving: dict[str, list[frozenset[str]]] = {}
    reasons: dict[tuple, str] = {}
    found: dict[str, list[str]] = defaultdict(list)
    for job_key, tenant, require, prefer in jobs:
        if tenant not in serving:
            serving[tenant] = [has for of, has in runners if of in (None, tenant)]
        needs = (tenant, *map(frozenset, (require, prefer)))
        if needs not in reasons:
            reasons[needs] = (lack(require, prefer, serving[tenant]) or ("", ""))[1]
        if reasons[needs]:
            found[reasons[needs]].append(job_key)
    return (Untaken(why, tuple(keys)) for why, keys in sorted(found.items()))


def sentences(now: datetime) -> list[str]:
    """A sentence for each capability that active jobs require and no runner has that is online and takes work, and for
    each other reason why none takes a run of theirs. Two queries."""
    rows = Job.objects.filter(deleted_at__isnull=True, is_active=True).order_by("job_key")
    jobs = list(rows.values_list("job_key", "tenant", "lane__require", "lane__prefer"))
    online = list(_online(now))
    having_it = runners_having({(tenant, name) for _, tenant, require, _ in jobs for name in require}, online)
    nobody = [f"No runner that is online has {name}, which jobs require." for name, n in having_it.items() if not n]
    return nobody + [found.sentence for found in untaken(jobs, online)]


def _online(now: datetime) -> QuerySet:
    online = Runner.objects.filter(last_poll_at__gte=now - timedelta(seconds=ONLINE_SECONDS), drained_at__isnull=True)
    return online.values_list("runner_id", "client__tenant", "capabilities")
