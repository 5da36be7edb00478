"""Groups: a limit that several jobs of a tenant share."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from typing import Any

from django.conf import settings
from django.db import IntegrityError, transaction

from croniq_site.kernel.database import chunks, write_transaction
from croniq_site.kernel.errors import Conflict, InvalidInput, NotFound
from runners.domain.differences import history_of
from runners.services.audit import Actor, Event, Reverting, edit_event, record_events
from runners.services.file_managed import refuse_file_managed
from scheduler.domain.budgets import Limits
from scheduler.domain.inputs import name_of, whole_number_of
from scheduler.models import ConcurrencyGroup, Job, QueueEntry, Slot
from scheduler.queries.definitions import group_definition
from scheduler.services.admit import settle_later
from scheduler.sql.locks import share_group

MOST_CONCURRENT = 10_000
NO_GROUP = "There is no concurrency group of that name; make it first."


def group_named(name: str, tenant: str) -> ConcurrencyGroup:
    """Return the tenant's group, which stays until the transaction ends; InvalidInput (``concurrency_group``) if there
    is none. The lock on it comes before that of its domain, as for an edit of the group itself."""
    group = ConcurrencyGroup.objects.filter(tenant=tenant, name=name).first()
    if group is None or not share_group(group.pk):
        raise InvalidInput.of("concurrency_group", NO_GROUP)
    return group


def checked_group(name: Any, max_concurrent: Any) -> None:
    """Refuse (`InvalidInput` by field) what is no group."""
    name_of("name", name)
    whole_number_of("max_concurrent", max_concurrent, 1, MOST_CONCURRENT)


def save_group(
    name: Any,
    max_concurrent: Any,
    now: datetime,
    actor: Actor,
    tenant: str,
    managed_by: str = "api",
    reverting: Reverting | None = None,
) -> bool:
    """Make the tenant's group, or give it another limit; return whether it is new. Audited. ``managed_by``: who writes.
    Raises InvalidInput by field, Conflict ``file_managed``.

    What runs goes on, also beyond a lower limit; what waits is admitted by the new one, also what had its slots
    already and was not claimed yet.
    """
    checked_group(name, max_concurrent)
    with write_transaction():
        group = _locked(name, tenant)
        if group is None:
            group, is_new = _made(name, max_concurrent, tenant, managed_by)
        else:
            is_new = False
        refuse_file_managed("group", name, group.managed_by, tenant, by=managed_by)
        if reverting is not None:
            reverting.check(group_definition(group))
        if not is_new and group.max_concurrent == max_concurrent:
            return False
        before = None if is_new else group.max_concurrent
        if not is_new:
            ConcurrencyGroup.objects.filter(pk=group.pk).update(max_concurrent=max_concurrent)
            _gate_again(group, now)
        diff, history = {"max_concurrent": [before, max_concurrent]}, history_of("group", group.pk)
        event = edit_event("group", name, actor, tenant, diff, history, reverting)
        record_events([replace(event, action="group.created") if is_new else event], now)
        return is_new


def delete_group(name: Any, now: datetime, actor: Actor, tenant: str, managed_by: str = "api") -> None:
    """Delete a group that no job and no unfinished run needs; Conflict otherwise, NotFound where there is none."""
    with write_transaction():
        group = _locked(name_of("name", name), tenant)
        if group is None:
            raise NotFound(f"There is no concurrency group {name!r}.")
        refuse_file_managed("group", name, group.managed_by, tenant, by=managed_by)
        jobs = Job.objects.filter(concurrency_group=group)
        if jobs.filter(deleted_at__isnull=True).exists() or QueueEntry.objects.filter(job__in=jobs).exists():
            raise Conflict(f"Jobs are limited by the group {name!r} still.", code="group_in_use")
        jobs.update(concurrency_group=None)
        diff, history = {"max_concurrent": [group.max_concurrent, None]}, history_of("group", group.pk)
        group.delete()
        record_events([Event("group.deleted", "group", name, actor, tenant, diff, history)], now)


def _locked(name: str, tenant: str) -> ConcurrencyGroup | None:
    """Lock the group, once nobody is putting a job into it any more (`share_group`)."""
    return ConcurrencyGroup.objects.select_for_update().filter(tenant=tenant, name=name).first()


def _made(name: str, max_concurrent: int, tenant: str, managed_by: str) -> tuple[ConcurrencyGroup, bool]:
    columns = {"tenant": tenant, "name": name, "max_concurrent": max_concurrent, "managed_by": managed_by}
    try:
        with transaction.atomic():
            return ConcurrencyGroup.objects.create(**columns), True
    except IntegrityError:
        # Somebody made it in this moment.
        group = _locked(name, tenant)
        if group is None:
            raise
        return group, False


def _gate_again(group: ConcurrencyGroup, now: datetime) -> None:
    """Take the slots of what nobody has claimed yet; at the end of the transaction they are given by the new limit."""
    # Those that are gated too: one of them may be being admitted by the old limit in this moment.
    waiting = QueueEntry.objects.filter(
        job__concurrency_group=group, state__in=[QueueEntry.State.READY, QueueEntry.State.GATED]
    )
    locked = list(waiting.select_for_update(of=("self",)).order_by("run_id").values_list("run_id", flat=True))
    for chunk in chunks(locked):
        ready = QueueEntry.objects.filter(run_id__in=chunk, state=QueueEntry.State.READY)
        run_ids = list(ready.values_list("run_id", flat=True))
        ready.update(state=QueueEntry.State.GATED)
        Slot.objects.filter(run_id__in=run_ids).delete()
    limit = settings.CRONIQ_TENANT_MAX_CONCURRENT
    settle_later([Limits(0, group.tenant, group_id=group.pk, tenant_limit=limit).domain], now)
