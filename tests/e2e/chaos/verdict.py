"""What must be true after the storm: the rows against pure schedules, against what runners wrote and each other."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from runners.models import AuditEvent, Runner, RunnerInstance
from scheduler.domain.schedules import CronSchedule, IntervalSchedule, fires
from scheduler.models import Attempt, DeadLetter, Job, QueueEntry, Run, SkippedSpan, Slot, Tally, Trigger
from tests.e2e.chaos.load import GROUP, GROUP_LIMIT, LIMITS, WANTS_EVERY_FIRE, Producers

Key = tuple[str, int]
"""A run and the number of an attempt."""


@dataclass(frozen=True)
class Journals:
    """What all processes of all runners wrote: the beginnings of handlers and their ends, by attempt, each with its
    instant; and how many lines say so."""

    began: dict[Key, float]
    ended: dict[Key, tuple[str, float]]
    beginnings: Counter[Key]
    ends: Counter[Key]


def read_journals(files: Iterable[Path]) -> Journals:
    began: dict[Key, float] = {}
    ended: dict[Key, tuple[str, float]] = {}
    beginnings: Counter[Key] = Counter()
    ends: Counter[Key] = Counter()
    for file in files:
        for line in file.read_text().splitlines():
            event, run_id, attempt, at = line.split()
            key = (run_id, int(attempt))
            if event == "began":
                began[key] = float(at)
                beginnings[key] += 1
            else:
                ended[key] = (event, float(at))
                ends[key] += 1
    return Journals(began, ended, beginnings, ends)


def every_fire_is_one_run() -> int:
    """Compare each job's runs with the pure engine; return the number of fires."""
    total = 0
    for trigger in Trigger.objects.select_related("job"):
        job = trigger.job
        if trigger.kind == Trigger.Kind.CRON:
            schedule = CronSchedule(trigger.cron_expression, "UTC", job.job_key)
        else:
            schedule = IntervalSchedule(trigger.every, trigger.anchor_at, "UTC")
        wanted = [fire.at for fire in fires(schedule, after=trigger.created_at, until=trigger.not_after)]
        assert len(wanted) > 5
        runs = Run.objects.filter(job=job, kind=Run.Kind.SCHEDULED)
        made = sorted(runs.values_list("scheduled_for", flat=True))
        skipped = set(wanted) - set(made)
        spans = list(SkippedSpan.objects.filter(job=job))
        assert len(made) == len(set(made))
        assert set(made) <= set(wanted), job.job_key
        assert sum(span.count for span in spans) == len(skipped), job.job_key
        assert all(any(span.first_at <= at <= span.last_at for span in spans) for at in skipped), job.job_key
        if job.job_key in WANTS_EVERY_FIRE:
            assert made == wanted, job.job_key
            assert not runs.filter(verdict=Run.Verdict.SKIPPED).exists(), job.job_key
        total += len(wanted)
    return total


def every_key_is_one_run(producers: Producers) -> None:
    made = {str(run_id) for run_id in Run.objects.filter(kind=Run.Kind.TRIGGERED).values_list("pk", flat=True)}
    assert len(producers.answers) == producers.most
    assert sorted(producers.answers.values()) == sorted(made)


def every_run_ended_within_its_starts(journals: Journals) -> None:
    assert not Run.objects.filter(verdict__isnull=True).exists()
    assert not QueueEntry.objects.exists()
    assert not Slot.objects.exists()
    starts: Counter[str] = Counter()
    for (run_id, _), times in journals.beginnings.items():
        assert times == 1, f"attempt of {run_id} began {times} times"
        starts[run_id] += 1
    for run in Run.objects.select_related("job"):
        most = run.job.max_retries + 1 + run.job.max_losses
        assert run.attempt <= most, run
        assert starts[str(run.pk)] <= run.attempt, run
        if run.verdict == Run.Verdict.SKIPPED:
            assert run.attempt == 0


def every_completion_is_one(journals: Journals) -> None:
    """What was done was recorded as that, or the claim is recorded as lost; nothing is recorded that was not done."""
    attempts = {(str(row.run_id), row.attempt): row.outcome for row in Attempt.objects.all()}
    last = {(str(run.pk), run.attempt): run for run in Run.objects.all()}
    for key, (event, _) in journals.ended.items():
        assert journals.ends[key] == 1
        assert key in journals.began
        outcome = attempts.get(key) or last[key].verdict
        allowed = {
            "done": {"completed", "lost", "timed_out"},
            "failed": {"failed", "dead", "lost"},
            "cancelled": {"timed_out", "lost", "dead"},
        }[event]
        assert outcome in allowed, f"{key} {event}, and its record is {outcome}"
    for key, run in last.items():
        if run.verdict == Run.Verdict.COMPLETED:
            assert journals.ended.get(key, ("nothing",))[0] == "done", key
    for key, outcome in attempts.items():
        if outcome == Attempt.Outcome.FAILED:
            assert journals.ended[key][0] in ("failed", "cancelled"), key


def rows_tell_the_same() -> dict[str, int]:
    """Attempts, audit, letters and counters; return how many of each trouble there was."""
    rows: dict[object, list[Attempt]] = defaultdict(list)
    for row in Attempt.objects.all():
        rows[row.run_id].append(row)
    for run in Run.objects.all():
        numbers = sorted(row.attempt for row in rows[run.pk])
        last_is_a_row = run.reason == "losses_exhausted"
        assert numbers == list(range(1, run.attempt + last_is_a_row)), run
    lost = {(str(row.run_id), row.attempt, row.cause) for row in Attempt.objects.filter(outcome="lost")}
    told = list(AuditEvent.objects.filter(action="run.lost"))
    one_by_one = [event for event in told if event.target_id]
    assert sum(event.diff.get("count", 1) for event in told) == len(lost)
    # More than twenty that go back at once are one event, which names the runs.
    together = {(name, event.diff["cause"]) for event in told if not event.target_id for name in event.diff["ids"]}
    alone = {(event.target_id, event.diff["attempt"], event.diff["cause"]) for event in one_by_one}
    assert alone <= lost
    assert {(name, cause) for name, _, cause in lost - alone} <= together
    buried = set(map(str, Run.objects.filter(reason="losses_exhausted").values_list("pk", flat=True)))
    told_buried = [
        name
        for event in AuditEvent.objects.filter(action="run.buried")
        for name in event.diff.get("ids", [event.target_id])
    ]
    assert sorted(told_buried) == sorted(buried)
    dead = set(Run.objects.filter(verdict=Run.Verdict.DEAD).values_list("pk", flat=True))
    assert sorted(DeadLetter.objects.values_list("run_id", flat=True)) == sorted(dead)
    takeovers = dict(Runner.objects.values_list("runner_id", "takeovers"))
    told_takeovers = Counter(AuditEvent.objects.filter(action="runner.takeover").values_list("target_id", flat=True))
    assert told_takeovers == Counter({name: times for name, times in takeovers.items() if times})
    flapping = Counter(AuditEvent.objects.filter(action="runner.identity_flapping").values_list("target_id", flat=True))
    assert set(flapping) == _flapped()
    by_cause = Counter(cause for _, _, cause in lost)
    _counters_tell_the_same(by_cause, len(buried), sum(takeovers.values()), sum(flapping.values()))
    return {
        **{f"lost by {cause}": times for cause, times in by_cause.items()},
        "buried": len(buried),
        "dead": len(dead),
        "takeovers": sum(takeovers.values()),
    }


def _flapped() -> set[str]:
    """Whoever was taken over three times within ten minutes."""
    times: dict[str, list] = defaultdict(list)
    deposed = RunnerInstance.objects.filter(deposed_at__isnull=False).order_by("deposed_at")
    for name, at in deposed.values_list("runner__runner_id", "deposed_at"):
        times[name].append(at)
    window = timedelta(minutes=10)
    return {name for name, ats in times.items() if any(ats[n + 2] - ats[n] < window for n in range(len(ats) - 2))}


def _counters_tell_the_same(lost: Counter[str], buried: int, takeovers: int, flapping: int) -> None:
    """The counters of /metrics, which reapers fold and are killed in folding."""
    counted: Counter[tuple[str, str]] = Counter()
    for kind, label, number in Tally.objects.values_list("kind", "label", "count"):
        counted[(kind, label)] += number
    ends = Counter(Run.objects.filter(verdict__in=["dead", "failed"]).values_list("verdict", flat=True))
    skipped = Counter(Run.objects.filter(verdict="skipped").values_list("reason", flat=True))
    for reason, number in SkippedSpan.objects.values_list("reason", "count"):
        skipped[reason] += number
    told = {("lost", cause): times for cause, times in lost.items()}
    told |= {("failed", verdict): times for verdict, times in ends.items()}
    told |= {("skipped", reason): times for reason, times in skipped.items()}
    told |= {("buried", ""): buried, ("takeover", ""): takeovers, ("flapping", ""): flapping}
    assert {key: times for key, times in counted.items() if key[0] != "late_word"} == +Counter(told)


def no_limit_was_broken(journals: Journals) -> None:
    """Among attempts that ended by their holder's word, no more were at work at once than the limit allows."""
    lost = {
        (str(run_id), attempt)
        for run_id, attempt in Attempt.objects.exclude(outcome="failed").values_list("run_id", "attempt")
    }
    for job_key, limit in LIMITS.items():
        _is_bounded(journals, Job.objects.filter(job_key=job_key), lost, limit)
    _is_bounded(journals, Job.objects.filter(concurrency_group__name=GROUP), lost, GROUP_LIMIT)


def _is_bounded(journals: Journals, jobs: Iterable[Job], lost: Collection[Key], limit: int) -> None:
    runs = {str(run_id) for run_id in Run.objects.filter(job__in=jobs).values_list("pk", flat=True)}
    steps = []
    for key, at in journals.began.items():
        if key[0] in runs and key not in lost and key in journals.ended:
            steps += [(at, 1), (journals.ended[key][1], -1)]
    at_work = most = 0
    for _, step in sorted(steps):
        at_work += step
        most = max(most, at_work)
    assert 1 <= most <= limit, f"{most} of {[job.job_key for job in jobs]} at once; the limit is {limit}"


def delay_of_ends() -> timedelta:
    """The longest time from a run's due time to its end: a figure, not a test."""
    ends = Run.objects.exclude(verdict=Run.Verdict.SKIPPED).values_list("scheduled_for", "finished_at")
    return max((finished_at - scheduled_for for scheduled_for, finished_at in ends), default=timedelta(0))
