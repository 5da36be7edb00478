"""Do one thing to many: in bounded transactions, each row guarded by the service that does it to one."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from croniq_site.kernel.database import chunks, write_transaction
from croniq_site.kernel.errors import CroniqError
from runners.domain.scopes import Principal
from runners.services.audit import Actor
from scheduler.models import QueueEntry
from scheduler.services.cancel import MOST_RUNS, cancel_runs
from scheduler.services.jobs import lock_job_of_key, save_job
from scheduler.services.pause import pause_job, resume_job


@dataclass(frozen=True)
class Done:
    """``changed``: what this request changed, in order. ``refused``: what a rule kept from being changed, and why."""

    changed: list[Any]
    refused: list[tuple[Any, CroniqError]]


def one_by_one(ids: Iterable[Any], act: Callable[[Any], Any]) -> Done:
    """Call ``act`` with each of ``ids``, which answers whether it changed anything; each has its own transaction."""
    done = Done([], [])
    for each in ids:
        try:
            if act(each):
                done.changed.append(each)
        except CroniqError as refusal:
            done.refused.append((each, refusal))
    return done


def cancel_many(
    run_ids: Sequence[UUID], states: Collection[QueueEntry.State], now: datetime, actor: Actor, reason: str = ""
) -> Done:
    """Cancel those of the runs whose entries are still in one of ``states``: 150 a transaction, each run audited."""
    done = Done([], [])
    for chunk in chunks(run_ids, MOST_RUNS):
        done.changed.extend(result.run_id for result in cancel_runs(chunk, now, actor, reason, only=states))
    return done


def pause_if_not(job_key: str, now: datetime, *, actor: Actor, principal: Principal | None = None, **said: Any) -> bool:
    """Pause a job that is not paused; return whether that was so. A pause that is there stays with its reason and its
    end, also one that somebody says at this moment. ``said`` and what it raises are of `pause_job`."""
    with write_transaction():
        if lock_job_of_key(job_key, principal).paused_at is not None:
            return False
        pause_job(job_key, now, actor=actor, principal=principal, **said)
        return True


def resume_if_paused(job_key: str, now: datetime, *, actor: Actor, principal: Principal | None = None) -> bool:
    """End the pause of a job; return whether there was one. Raises as `resume_job` does."""
    with write_transaction():
        if lock_job_of_key(job_key, principal).paused_at is None:
            return False
        resume_job(job_key, now, actor=actor, principal=principal)
        return True


def retag_job(
    job_key: str,
    add: Collection[str],
    remove: Collection[str],
    now: datetime,
    actor: Actor,
    principal: Principal | None = None,
) -> bool:
    """Give a job tags and take others away; return whether that changed anything. The other tags stay, also those that
    somebody else gives it at this moment. Raises as `save_job` does."""
    with write_transaction():
        job = lock_job_of_key(job_key, principal)
        tags = sorted((set(job.tags) | set(add)) - set(remove))
        if tags == sorted(job.tags):
            return False
        save_job({"job_key": job_key, "tags": tags}, now, actor, principal, partial=True)
        return True
