"""What a rule would tell of now: by its subject, what is wrong and since when."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from django.db.models import Count, Min

from runners.models import Runner, RunnerInstance
from scheduler.domain.alerts import is_about
from scheduler.domain.job_fields import PIN_PREFIX
from scheduler.models import AlertRule, Job, QueueEntry, Trigger
from scheduler.queries.alert_exemptions import Exemptions
from scheduler.queries.gauges import flapping_runners
from scheduler.queries.jobs import live_jobs, planned_late
from scheduler.queries.runners import ONLINE_SECONDS
from scheduler.queries.trouble import pulse
from scheduler.queries.waiting_letters import waiting_letters
from scheduler.services.identity import FLAPPING_WINDOW
from scheduler.services.jobs import DEFAULT_TENANT

MOST_NAMED = 10


@dataclass(frozen=True)
class Condition:
    """What is wrong ``since`` an instant. One that is not ``ripe`` is not told yet, but what was told is not over."""

    since: datetime
    job_key: str = ""
    detail: dict[str, Any] = field(default_factory=dict)
    is_ripe: bool = True


Found = dict[str, Condition]


def conditions(rule: AlertRule, now: datetime, exemptions: Exemptions) -> Found:
    """By subject; none for a rule whose causes are events."""
    look = _LOOKS.get(rule.kind)
    return dict(look(rule, now, exemptions)) if look is not None else {}


def _silent(rule: AlertRule, now: datetime, exemptions: Exemptions) -> Iterator[tuple[str, Condition]]:
    """No materializer has finished a pass. Each silence is another one: its subject is when it began."""
    since = _not_before(rule, pulse(now).ticks.get("materialize") or rule.created_at, now)
    is_ripe = now - since > exemptions.grace_of(rule, "")
    yield since.isoformat(), Condition(since, detail={"since": _said(since)}, is_ripe=is_ripe)


def _overran(rule: AlertRule, now: datetime, exemptions: Exemptions) -> Iterator[tuple[str, Condition]]:
    """Claimed runs that take longer than the rule expects. One attempt is one subject."""
    late = now - timedelta(seconds=rule.expected_within_seconds or 0)
    claimed = QueueEntry.objects.filter(state__in=[3, 4], state=QueueEntry.State.CLAIMED, claimed_at__lt=late)
    rows = claimed.filter(job__tenant=rule.tenant, job__deleted_at__isnull=True).order_by("claimed_at", "run_id")
    columns = ("run_id", "attempt", "claimed_at", "job__job_key", "job__tags", "holder__runner__runner_id")
    for run_id, attempt, claimed_at, job_key, tags, runner_id in rows.values_list(*columns):
        if is_about(rule.job_glob, rule.tags, job_key, tags):
            detail = {"execution_id": str(run_id), "attempt": attempt, "runner_id": runner_id}
            yield (
                f"{run_id}/{attempt}",
                Condition(claimed_at, job_key, {**detail, "since": _said(claimed_at)}),
            )


def _missed(rule: AlertRule, now: datetime, exemptions: Exemptions) -> Iterator[tuple[str, Condition]]:
    """Jobs with a fire that did not start within the grace: a due run that nobody took, or a fire that is no run."""
    late = now - exemptions.shortest_grace(rule)
    oldest: dict[int, datetime] = {}
    behind = Trigger.objects.filter(
        enabled=True, config_error="", next_materialize_at__lt=late, cursor_at__lt=late, job__deleted_at__isnull=True
    )
    for trigger in behind.select_related("calendar").prefetch_related("calendar__rules"):
        at = planned_late(trigger, late)
        if at is not None:
            oldest[trigger.job_id] = min(at, oldest.get(trigger.job_id, at))
    # After the triggers: a fire that becomes a run in this moment is found here.
    ready = QueueEntry.objects.filter(state__in=[0, 1, 2], state=QueueEntry.State.READY, available_at__lt=late)
    for row in ready.order_by().values("job").annotate(at=Min("available_at")):
        oldest[row["job"]] = min(row["at"], oldest.get(row["job"], row["at"]))
    if not oldest:
        return
    running = live_jobs(rule.tenant).filter(pk__in=list(oldest), is_active=True, paused_at__isnull=True)
    for job in running.order_by("job_key"):
        since = oldest[job.pk]
        is_late = now - since > exemptions.grace_of(rule, job.job_key)
        if is_late and is_about(rule.job_glob, rule.tags, job.job_key, job.tags):
            yield str(job.pk), Condition(since, job.job_key, {"due_at": _said(since)})


def _dead_letters(rule: AlertRule, now: datetime, exemptions: Exemptions) -> Iterator[tuple[str, Condition]]:
    """So many letters of the rule's jobs wait together. One subject: more of them are no new cause."""
    letters = waiting_letters().filter(job__tenant=rule.tenant).order_by()
    counted = letters.values_list("job__job_key", "job__tags").annotate(number=Count("pk"))
    found = {key: number for key, tags, number in counted if is_about(rule.job_glob, rule.tags, key, tags)}
    total = sum(found.values())
    if total >= rule.threshold:
        most = sorted(found.items(), key=lambda item: (-item[1], item[0]))[:MOST_NAMED]
        yield "letters", Condition(now, detail={"letters": total, "jobs": dict(most)})


def _flapping(rule: AlertRule, now: datetime, exemptions: Exemptions) -> Iterator[tuple[str, Condition]]:
    names = flapping_runners(now)
    if not names:
        return
    deposed = RunnerInstance.objects.filter(deposed_at__gt=now - FLAPPING_WINDOW, runner__runner_id__in=names)
    rows = deposed.order_by().values_list("runner__runner_id", "runner__client__tenant")
    for runner_id, tenant, takeovers, since in rows.annotate(number=Count("pk"), since=Min("deposed_at")):
        if (tenant or DEFAULT_TENANT) == rule.tenant:
            yield runner_id, Condition(since, detail={"runner_id": runner_id, "takeovers": takeovers})


def _no_runner(rule: AlertRule, now: datetime, exemptions: Exemptions) -> Iterator[tuple[str, Condition]]:
    """Capabilities (a pin is one too) that the rule's active jobs require and no runner that is online has."""
    wanted: dict[str, list[str]] = defaultdict(list)
    made: dict[str, datetime] = {}
    jobs = Job.objects.filter(tenant=rule.tenant, deleted_at__isnull=True, is_active=True, paused_at__isnull=True)
    rows = jobs.exclude(lane__require=[]).order_by("job_key")
    for job_key, tags, created_at, require in rows.values_list("job_key", "tags", "created_at", "lane__require"):
        if is_about(rule.job_glob, rule.tags, job_key, tags):
            for name in require:
                wanted[name].append(job_key)
                made[name] = min(created_at, made.get(name, created_at))
    if not wanted:
        return
    seen: dict[str, datetime] = {}
    runners = Runner.objects.values_list("runner_id", "client__tenant", "capabilities", "last_poll_at")
    for runner_id, tenant, capabilities, last_poll_at in runners:
        if tenant in (None, rule.tenant):
            said = {name for name in capabilities if not name.startswith(PIN_PREFIX)}
            for name in wanted.keys() & {*said, PIN_PREFIX + runner_id}:
                seen[name] = max(last_poll_at, seen.get(name, last_poll_at))
    grace = max(exemptions.grace_of(rule, ""), timedelta(seconds=ONLINE_SECONDS))
    for name in sorted(wanted):
        since = seen.get(name, made[name])
        if now - since > timedelta(seconds=ONLINE_SECONDS):
            detail = {"capability": name, "since": _said(since), "jobs": wanted[name][:MOST_NAMED]}
            yield name, Condition(since, detail=detail, is_ripe=now - _not_before(rule, since, now) > grace)


def _not_before(rule: AlertRule, since: datetime, now: datetime) -> datetime:
    """What a rule tells of has lasted since it was made at most; one that was made by a clock which was set back since
    does not say when that was."""
    return max(since, rule.created_at) if rule.created_at <= now else since


def _said(at: datetime) -> str:
    return at.isoformat(timespec="seconds")


Kind = AlertRule.Kind
_LOOKS: dict[str, Callable[[AlertRule, datetime, Exemptions], Iterator[tuple[str, Condition]]]] = {
    Kind.SCHEDULER_SILENT: _silent,
    Kind.OVERRAN: _overran,
    Kind.MISSED: _missed,
    Kind.DEAD_LETTERS: _dead_letters,
    Kind.FLAPPING: _flapping,
    Kind.NO_RUNNER: _no_runner,
}
