"""Croniq's own series (design §12), as Prometheus knows them."""

from __future__ import annotations

import platform
from collections.abc import Iterable, Iterator
from datetime import datetime
from itertools import accumulate

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.utils import floatToGoString

from scheduler.domain.budgets import OVERLAP, QUEUE_FULL
from scheduler.domain.work import LossCause
from scheduler.metrics.hot import Counts, Spread
from scheduler.models import DeadLetter, Run
from scheduler.queries.gauges import (
    JobGauge,
    Tallied,
    capability_runners,
    flapping_runners,
)
from scheduler.queries.maintenance import current_maintenance
from scheduler.queries.runners import runner_counts
from scheduler.queries.silent_channels import FAILURES_TOLD
from scheduler.queries.trouble import pulse
from scheduler.services.maintenance import MAINTENANCE
from scheduler.services.pause import PAUSED
from scheduler.services.planning import DOWNTIME
from scheduler.services.rules import RULES_CHANGED
from scheduler.services.skip import SKIP_NEXT
from scheduler.services.tally import Kind
from scheduler.sql.gauges import alerts_waiting_and_silent_channels, due_unclaimed, oldest_waiting_at

_RARE = {
    Kind.TAKEOVER: ("runner_takeovers", "Runner identities that another process took over."),
    Kind.FLAPPING: ("runner_identity_flapping", "Times that a runner's identity was found to change hands too often."),
    Kind.IDENTITY_REJECTED: (
        "runner_identity_rejected",
        "Words about a runner by a client that does not own it.",
    ),
    Kind.BURIED: ("runs_buried", "Due runs that were ended because their attempts were used up."),
}
_LABELLED = {
    Kind.LOST: (
        "runs_lost",
        "Claims that ended without a verdict, by cause; lease: reaped.",
        "cause",
        [cause.value for cause in LossCause if cause is not LossCause.DISCONNECTED],
    ),
    Kind.SKIPPED: (
        "fires_skipped",
        "Fires that were not run, by reason.",
        "reason",
        [DOWNTIME, MAINTENANCE, OVERLAP, PAUSED, QUEUE_FULL, RULES_CHANGED, SKIP_NEXT],
    ),
    Kind.LATE_WORD: (
        "run_late_words",
        "Words about a run from who does not hold it; they changed nothing.",
        "word",
        ["ack", "events", "renew"],
    ),
}
_FAILED = (Run.Verdict.FAILED.value, Run.Verdict.DEAD.value)


def rare_events(rows: Iterable[Tallied], keys: dict[int, str]) -> Iterator[Metric]:
    """Counters from rows: the same whoever is asked. What never happened is 0, so that its first time is an increase.

    ``keys`` are the jobs that are not deleted, by id; counts of others end.
    """
    counts: dict[tuple[str, str], int] = {}
    failed = {(job_id, verdict): 0 for job_id in keys for verdict in _FAILED}
    for row in rows:
        if row.kind == Kind.FAILED:
            failed[row.job_id, row.label] = row.count
        else:
            counts[row.kind, row.label] = row.count
    for kind, (name, text) in _RARE.items():
        yield CounterMetricFamily(f"croniq_{name}", text, value=counts.get((kind, ""), 0))
    for kind, (name, text, label, known) in _LABELLED.items():
        family = CounterMetricFamily(f"croniq_{name}", text, labels=[label])
        for value in sorted({*known, *(said for counted, said in counts if counted == kind)}):
            family.add_metric([value], counts.get((kind, value), 0))
        yield family
    family = CounterMetricFamily(
        "croniq_runs_failed", "Runs that ended for good without success.", labels=["job_key", "outcome"]
    )
    for (job_id, verdict), count in failed.items():
        if job_id in keys:
            family.add_metric([keys[job_id], verdict], count)
    yield family


def of_site(now: datetime, version: str) -> Iterator[Metric]:
    yield _labelled("runners", "Runners by the time of their last poll.", "status", runner_counts(now))
    flapping = dict.fromkeys(flapping_runners(now), 1)
    yield _labelled("runner_flapping", "1 while the runner's identity changes hands too often.", "runner_id", flapping)
    yield _labelled(
        "capability_runners",
        "Online runners that have a capability which an active job requires.",
        "capability",
        capability_runners(now),
    )
    yield _gauge("queue_depth", "Due runs that nobody has claimed.", due_unclaimed(now))
    oldest = oldest_waiting_at()
    age = max(0.0, (now - oldest).total_seconds()) if oldest is not None else 0.0
    yield _gauge("queue_oldest_age_seconds", "How long the oldest due, unclaimed run has been due.", age)
    yield _gauge("dead_letters", "Dead letters that are kept.", DeadLetter.objects.count())
    waiting, silent = alerts_waiting_and_silent_channels(FAILURES_TOLD)
    yield _gauge("alerts_waiting", "Alerts that are due and were not told yet.", waiting)
    yield _gauge("alert_channels_failing", "Alert channels that have not answered for over a minute.", silent)
    yield _gauge("maintenance", "1 while all dispatch is held.", int(current_maintenance() is not None))
    ticks = pulse(now).ticks
    for kind, name in (("materialize", "materializer"), ("reap", "reaper")):
        text = f"When a {name} last finished a pass; absent if none ever did."
        family = GaugeMetricFamily(f"croniq_{name}_last_tick_timestamp_seconds", text)
        if kind in ticks:
            family.add_metric([], ticks[kind].timestamp())
        yield family
    info = GaugeMetricFamily("croniq_build_info", "1, with the version.", labels=["version", "python"])
    info.add_metric([version, platform.python_version()], 1)
    yield info


def of_jobs(jobs: Iterable[JobGauge], successes: dict[int, datetime]) -> Iterator[Metric]:
    """``successes`` are the last ones, by job id."""
    overdue, next_fire, last_success = (
        GaugeMetricFamily(f"croniq_job_{name}", text, labels=["job_key"])
        for name, text in (
            ("overdue", "1 while a due run of the job, or a fire that is no run, is over a minute late."),
            ("next_fire_timestamp_seconds", "The job's next fire; absent if none comes, or while it is paused."),
            ("last_success_timestamp_seconds", "When the newest run that completed did so; absent if none did."),
        )
    )
    for job in jobs:
        overdue.add_metric([job.job_key], int(job.is_overdue))
        if job.next_fire_at is not None:
            next_fire.add_metric([job.job_key], job.next_fire_at.timestamp())
        if job.job_id in successes:
            last_success.add_metric([job.job_key], successes[job.job_id].timestamp())
    yield from (overdue, next_fire, last_success)


def of_process(counts: Counts, keys: dict[int, str]) -> Iterator[Metric]:
    """What this server has handed out and closed since it began. Jobs that ``keys`` does not name are left out."""
    yield CounterMetricFamily("croniq_runs_claimed", "Runs handed out by this server.", value=counts.claimed)
    completed = {(job_id, Run.Verdict.COMPLETED.value): 0 for job_id in keys}
    family = CounterMetricFamily(
        "croniq_runs_completed", "Runs that ended by an ack to this server.", labels=["job_key", "outcome"]
    )
    for (job_id, outcome), count in sorted((completed | counts.ended).items()):
        if job_id in keys:
            family.add_metric([keys[job_id], outcome], count)
    yield family
    delays = HistogramMetricFamily("croniq_fire_delay_seconds", "From when an attempt fell due to its claim.")
    delays.add_metric([], _buckets(counts.delays), counts.delays.sum)
    yield delays
    durations = HistogramMetricFamily(
        "croniq_run_duration_seconds", "How long the last attempts of completed runs took.", labels=["job_key"]
    )
    for job_id, spread in sorted(counts.durations.items()):
        if job_id in keys:
            durations.add_metric([keys[job_id]], _buckets(spread), spread.sum)
    yield durations


def _buckets(spread: Spread) -> list[tuple[str, float]]:
    bounds = [*(floatToGoString(bound) for bound in spread.bounds), "+Inf"]
    return list(zip(bounds, accumulate(spread.counts), strict=True))


def _gauge(name: str, text: str, value: float) -> Metric:
    return GaugeMetricFamily(f"croniq_{name}", text, value=value)


def _labelled(name: str, text: str, label: str, values: dict[str, int]) -> Metric:
    family = GaugeMetricFamily(f"croniq_{name}", text, labels=[label])
    for value, number in values.items():
        family.add_metric([value], number)
    return family
