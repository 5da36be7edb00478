"""Bring a tenant to what its jobs file declares, and say what the file has the say in."""

from __future__ import annotations

import hashlib
from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime

from calendars.models import Calendar
from croniq_site.kernel.database import one_at_a_time, write_transaction
from croniq_site.kernel.errors import Conflict, InvalidInput, NotFound, TooManyRequests
from croniq_site.kernel.suggestions import did_you_mean
from runners.services.audit import Actor, Event, record_events
from runners.services.file_managed import APPLIED, FILE
from scheduler.domain.jobs_file_plan import ADOPT, REMOVE, Plan
from scheduler.models import ConcurrencyGroup, Job, QueueEntry, Trigger
from scheduler.services.calendars import edit_calendar, remove_calendar
from scheduler.services.groups import delete_group, save_group
from scheduler.services.jobs import delete_job, save_job
from scheduler.services.jobs_file_check import CheckedFile
from scheduler.services.jobs_file_plan import JobStep, Planned, plan_jobs_file
from scheduler.services.replan import lock_jobs
from scheduler.services.trigger_runs import trigger_run
from scheduler.services.triggers import delete_trigger, save_trigger

ONE_APPLY = 0x43524F4E46


@dataclass(frozen=True, slots=True)
class Applied:
    """What was done. ``started``: the jobs that run once for it; ``not_started``: those whose queue is full."""

    plan: Plan
    started: tuple[str, ...] = ()
    not_started: tuple[str, ...] = ()


def apply_jobs_file(
    checked: CheckedFile,
    now: datetime,
    actor: Actor,
    *,
    source: str,
    data: bytes,
    prune: bool = False,
    adopt: bool = False,
    expect: str | None = None,
) -> Applied:
    """Carry out the plan of the file, whole or not at all, in one transaction; what is as declared is not touched.

    ``source`` names the file to people, ``data`` is what was read. Of two at once, on any hosts, the second begins when
    the first has ended, and finds nothing to do. ``expect``: the hash of the plan that was looked at; Conflict
    ``plan_moved`` if it is another by now, unless nothing is left to do. Raises InvalidInput for a file that has errors
    (``extra["plan"]`` says which), and what services refuse.
    """
    with write_transaction(), one_at_a_time(ONE_APPLY):
        planned = plan_jobs_file(checked, now, prune=prune, adopt=adopt)
        if planned.plan.changes and not planned.plan.errors:
            # Once more under the locks: until then others changed what the file does not have the say in yet.
            _lock(planned)
            planned = plan_jobs_file(checked, now, prune=prune, adopt=adopt)
        plan = planned.plan
        if plan.errors:
            raise InvalidInput(f"{source} has {len(plan.errors)} errors; nothing was changed.", extra={"plan": plan})
        if not plan.changes:
            return Applied(plan)
        if expect is not None and expect != plan.hash:
            message = f"What is there, or the file, has changed since: the plan is {plan.hash} now; look at it again."
            raise Conflict(message, code="plan_moved")
        _carry_out(planned, checked, now, actor)
        diff = {"sha256": hashlib.sha256(data).hexdigest(), "plan": plan.hash, "changes": len(plan.changes)}
        record_events([Event(APPLIED, "jobs_file", source[-255:], actor, plan.tenant, diff)], now)
        started, not_started = _run_changed(planned, now, actor)
        return Applied(plan, started, not_started)


def adopt(
    tenant: str,
    now: datetime,
    actor: Actor,
    *,
    jobs: Collection[str] = (),
    calendars: Collection[str] = (),
    groups: Collection[str] = (),
) -> list[str]:
    """Let the jobs file have the say in these; return those in which it had not. All or none: NotFound names the first
    that there is not, and one that is like it."""
    return _hand_over(tenant, now, actor, FILE, jobs, calendars, groups)


def unadopt(
    tenant: str,
    now: datetime,
    actor: Actor,
    *,
    jobs: Collection[str] = (),
    calendars: Collection[str] = (),
    groups: Collection[str] = (),
) -> list[str]:
    """Take these from the jobs file, for the API to change; return those in which it had the say. As `adopt`."""
    return _hand_over(tenant, now, actor, "api", jobs, calendars, groups)


def _hand_over(
    tenant: str,
    now: datetime,
    actor: Actor,
    to: str,
    jobs: Collection[str],
    calendars: Collection[str],
    groups: Collection[str],
) -> list[str]:
    handed: list[str] = []
    with write_transaction(), one_at_a_time(ONE_APPLY):
        live = Job.objects.filter(tenant=tenant, deleted_at__isnull=True)
        for kind, names, rows, column in (
            ("job", jobs, live, "job_key"),
            ("calendar", calendars, Calendar.objects.filter(tenant=tenant), "name"),
            ("group", groups, ConcurrencyGroup.objects.filter(tenant=tenant), "name"),
        ):
            wanted = {column + "__in": list(names)}
            # In the order of ids, in which everybody locks several of them.
            found = {
                getattr(row, column): row for row in rows.select_for_update(no_key=True).filter(**wanted).order_by("pk")
            }
            for name in names:
                if name not in found:
                    hint = did_you_mean(name, rows.values_list(column, flat=True))
                    raise NotFound(f"There is no {kind} {name!r} in the tenant {tenant!r}.{hint}")
            # What the file has is handed over from whoever has it; back goes only what the file has.
            strange = [row for row in found.values() if (row.managed_by == FILE) != (to == FILE)]
            rows.filter(pk__in=[row.pk for row in strange]).update(managed_by=to)
            if kind == "job":
                Trigger.objects.filter(job__in=strange).update(managed_by=to)
            action = f"{kind}.adopted" if to == FILE else f"{kind}.unadopted"
            names_now = [getattr(row, column) for row in strange]
            diffs = [{"managed_by": [row.managed_by, to]} for row in strange]
            record_events(
                [Event(action, kind, name, actor, tenant, diff) for name, diff in zip(names_now, diffs, strict=True)],
                now,
            )
            handed += [f"{kind} {name}" for name in names_now]
    return handed


def _lock(planned: Planned) -> None:
    """Lock all that the changes may touch, in the order in which everybody does: jobs, groups, calendars, entries.

    One after the other, as the services would, this transaction would hold entries of one job while it waits for those
    of another, and meet acks and cancels of both in a circle.
    """
    plan, found = planned.plan, planned.found
    names = {
        kind: {change.name for change in plan.changes if change.kind == kind} for kind in ("job", "calendar", "group")
    }
    ids = {found.jobs[key].pk for key in names["job"] & found.jobs.keys()}
    ids |= {job.pk for name in names["calendar"] for job in found.users_of(name)}
    ids |= {
        job.pk
        for job in found.jobs.values()
        if job.concurrency_group is not None and job.concurrency_group.name in names["group"]
    }
    lock_jobs(ids)
    groups = ConcurrencyGroup.objects.filter(tenant=plan.tenant).select_for_update()
    list(groups.order_by("pk").values_list("pk", flat=True))
    calendars = Calendar.objects.filter(tenant=plan.tenant).select_for_update(no_key=True)
    list(calendars.order_by("pk").values_list("pk", flat=True))
    entries = QueueEntry.objects.filter(job_id__in=ids).select_for_update()
    list(entries.order_by("pk").values_list("pk", flat=True))


def _carry_out(planned: Planned, checked: CheckedFile, now: datetime, actor: Actor) -> None:
    plan, found = planned.plan, planned.found
    declared = {kind: [c for c in plan.changes if c.kind == kind and c.action != REMOVE] for kind in _KINDS}
    removed = {kind: [c.name for c in plan.changes if c.kind == kind and c.action == REMOVE] for kind in _KINDS}
    strange = {
        kind: [change.name for change in declared[kind] if _is_strange(rows.get(change.name))]
        for kind, rows in (("job", found.jobs), ("calendar", found.calendars), ("group", found.groups))
    }
    adopt(plan.tenant, now, actor, jobs=strange["job"], calendars=strange["calendar"], groups=strange["group"])
    for change in declared["calendar"]:
        if change.action != ADOPT:
            values = {"name": change.name, **checked.calendars[change.name]}
            row = found.calendars.get(change.name)
            edit_calendar(values, now, actor=actor, tenant=plan.tenant, calendar=row, managed_by=FILE)
    for change in declared["group"]:
        limit = checked.file.groups[change.name].fields["max_concurrent"]
        save_group(change.name, limit, now, actor, plan.tenant, FILE)
    for change in declared["job"]:
        if change.action != ADOPT:
            _save(planned.steps[change.name], plan.tenant, now, actor)
    for key in removed["job"]:
        delete_job(key, now, actor, managed_by=FILE)
    for name in removed["calendar"]:
        remove_calendar(found.calendars[name], now, actor=actor, managed_by=FILE)
    for name in removed["group"]:
        delete_group(name, now, actor, plan.tenant, FILE)


_KINDS = ("calendar", "group", "job")


def _is_strange(row: Job | Calendar | ConcurrencyGroup | None) -> bool:
    return row is not None and row.managed_by != FILE


def _save(step: JobStep, tenant: str, now: datetime, actor: Actor) -> None:
    is_active = step.declared.columns["is_active"]
    fields = {**step.declared.fields, "job_key": step.declared.key, "tenant": tenant, "is_active": is_active}
    job, _ = save_job(fields, now, actor, managed_by=FILE)
    for one in step.triggers:
        if one.declared is None:
            delete_trigger(one.row.pk, now, actor=actor, managed_by=FILE)
        elif one.action:
            save_trigger(job, one.declared.fields, now, actor=actor, trigger=one.row, partial=False, managed_by=FILE)


def _run_changed(planned: Planned, now: datetime, actor: Actor) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Make a run of each job that was made or changed and asks for one; a job that is switched off does not."""
    changed = (c.name for c in planned.plan.changes if c.kind == "job" and c.action not in (REMOVE, ADOPT))
    started, not_started = [], []
    for key in changed:
        declared = planned.steps[key].declared
        if declared.runs_on_change and declared.columns["is_active"]:
            try:
                trigger_run(key, now, actor=actor)
                started.append(key)
            except TooManyRequests:
                not_started.append(key)
    return tuple(started), tuple(not_started)
