"""Plan again what was planned by other zone rules, or other public holidays, than those of this process."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta

from django.db import DatabaseError
from django.db.models import Q

from calendars.queries.versions import rule_versions
from croniq_site.kernel import tracing
from croniq_site.kernel.database import write_transaction
from runners.services.audit import Event, record_events
from scheduler.domain.schedules import Fire
from scheduler.metrics import traces
from scheduler.models import Job, QueueEntry, Run, Trigger
from scheduler.queries.fires import trigger_fires
from scheduler.queries.followed_rules import FOLLOWED, followed_versions
from scheduler.services.planning import planned_run
from scheduler.services.replan import lock_job, planned_of, replan_job
from scheduler.services.tally import Kind, tally
from scheduler.sql.planned import close_runs, delete_waiting, insert_planned

JOBS_A_PASS = 50
SHIFT = timedelta(hours=3)
"""No change of a zone's rules moves a wall time farther than this."""
MOST_COMPARED = 200
RULES_CHANGED = "rules_changed"

_followed: dict[str, str] | None = None
_next_job = 0


def follow_rules(now: datetime) -> bool:
    """Plan the next jobs again if the rules are others than the last time, at most 50; return whether all are done.

    A materializer calls it before each pass. It costs something only in a process's first passes, for the rules of a
    process never change; one that is killed in between begins again. While processes with different rules run side by
    side each plans by its own: end the old ones first.
    """
    global _followed, _next_job
    if _followed is not None:
        return True
    versions = rule_versions()
    if _next_job == 0 and followed_versions() == versions:
        _followed = versions
        return True
    is_new_site = _next_job == 0 and not QueueEntry.objects.exists()
    job_ids = [] if is_new_site else list(_affected(_next_job)[:JOBS_A_PASS])
    for job_id in job_ids:
        with write_transaction():
            job = lock_job(job_id)
            if job is not None:
                _follow(job, now)
    if len(job_ids) == JOBS_A_PASS:
        _next_job = job_ids[-1] + 1
        return False
    record_events([Event(FOLLOWED, "site", "rules", diff={"versions": versions})], now)
    _followed, _next_job = versions, 0
    return True


def forget_rules() -> None:
    """Look again at the next pass, as a new process does."""
    global _followed, _next_job
    _followed, _next_job = None, 0


def _affected(from_job: int) -> Iterable[int]:
    """Jobs with a schedule that knows wall time, by id. Elapsed time alone is the same by all rules."""
    knows_wall_time = Q(kind=Trigger.Kind.CRON) | Q(calendar__isnull=False) | Q(window_start__isnull=False)
    live = Trigger.objects.filter(knows_wall_time, enabled=True, job__is_active=True, job__deleted_at__isnull=True)
    return live.filter(job_id__gte=from_job).order_by("job_id").values_list("job_id", flat=True).distinct()


def _follow(job: Job, now: datetime) -> None:
    """Move the unclaimed runs of a locked job to where their wall times are now.

    A run whose new instant is past already is due at once, it would be lost else. The new instant of one that was begun
    at its old one is skipped, it would be a second run else.
    """
    unclaimed = planned_of(job, now)
    until = max(unclaimed.values(), default=now) + SHIFT
    scheduled = Run.objects.filter(job=job, kind=Run.Kind.SCHEDULED, scheduled_for__gt=now - SHIFT)
    old = dict(scheduled.filter(scheduled_for__lte=until).values_list("scheduled_for", "pk"))
    new = _fires(job, now - SHIFT, until, now)
    for was, at in moved_instants(sorted(old), sorted(new)):
        is_unclaimed = old[was] in unclaimed
        if is_unclaimed and at <= now:
            made = insert_planned([planned_run(job, new[at])], now)
            if tracing.active is not None:
                traces.note_planned(made, [job], now)
        elif not is_unclaimed and at > now:
            _skip(job, new[at], now)
    replan_job(job, now)


def _fires(job: Job, after: datetime, until: datetime, now: datetime) -> dict[datetime, Fire]:
    """By instant, what the triggers give by today's rules. What is behind a cursor is left to the catch-up."""
    found: dict[datetime, Fire] = {}
    for trigger in job.triggers.filter(enabled=True).select_related("calendar"):
        trigger.job = job
        try:
            fires = trigger_fires(trigger, after=after if trigger.cursor_at >= now else now, until=until)
        except DatabaseError:
            raise
        except Exception:  # noqa: S112 - broken: the replan says how
            continue
        found.update((fire.at, fire) for fire in fires)
    return found


def moved_instants(old: Sequence[datetime], new: Sequence[datetime]) -> list[tuple[datetime, datetime]]:
    """Pairs of an instant that was planned and the one to which it moved, both ascending.

    Most move by one shift, the one that explains most of them; what it leaves open goes to the nearest new instant.
    """
    if list(old) == list(new):
        return []
    few_old, few_new = old[:MOST_COMPARED], new[:MOST_COMPARED]
    shifts = Counter(at - was for was in few_old for at in few_new if abs(at - was) <= SHIFT)
    if not shifts:
        return []
    shift = max(shifts, key=lambda by: (shifts[by], -abs(by)))
    targets = set(new)
    pairs = {was: was + shift for was in old if was + shift in targets}
    fresh = sorted(targets - set(pairs.values()))
    for was in old:
        near = min(fresh, key=lambda at: abs(at - was), default=None)
        if was not in pairs and near is not None and abs(near - was) <= SHIFT:
            fresh.remove(near)
            pairs[was] = near
    return sorted((was, at) for was, at in pairs.items() if was != at)


def _skip(job: Job, fire: Fire, now: datetime) -> None:
    insert_planned([planned_run(job, fire)], now)  # nothing, where its run is there
    run_ids = list(Run.objects.filter(job=job, kind="scheduled", scheduled_for=fire.at).values_list("pk", flat=True))
    gone = delete_waiting(run_ids)
    close_runs(gone, Run.Verdict.SKIPPED, RULES_CHANGED, now)
    tally(Kind.SKIPPED, RULES_CHANGED, len(gone))
