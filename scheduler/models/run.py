"""The permanent record: runs, their earlier attempts, and the fires that made no run."""

from django.db import models
from django.db.models import Q

from scheduler.models.job import Job


class Run(models.Model):
    """One fire of a job made a row. Permanent; while it is unfinished its state is that of its `QueueEntry`.

    No index (nor its predicate) names a column that success changes: closing a run is a heap-only update on PostgreSQL
    and writes the same whatever the history. ``problem`` repeats ``verdict`` unless it is ``completed``, so that the
    lists of trouble have an index that success never touches.
    """

    class Kind(models.TextChoices):
        SCHEDULED = "scheduled"
        TRIGGERED = "triggered"
        REPLAY = "replay"

    class Verdict(models.TextChoices):
        COMPLETED = "completed"
        FAILED = "failed"
        DEAD = "dead"
        CANCELLED = "cancelled"
        SKIPPED = "skipped"

    id = models.UUIDField(primary_key=True, editable=False)
    job = models.ForeignKey(Job, on_delete=models.PROTECT, related_name="runs", db_index=False)
    kind = models.CharField(max_length=9, choices=Kind.choices)
    scheduled_for = models.DateTimeField()
    occurrence_at = models.DateTimeField()
    created_at = models.DateTimeField()
    metadata = models.JSONField(null=True, blank=True, help_text="the caller's, merged over the job's at the claim")
    require = models.JSONField(null=True, blank=True, help_text="null: the job's")
    prefer = models.JSONField(null=True, blank=True)
    timeout_seconds = models.FloatField(null=True, blank=True)
    replay_of = models.ForeignKey(
        "self", on_delete=models.PROTECT, null=True, blank=True, related_name="replays", db_index=False
    )

    attempt = models.PositiveIntegerField(default=0)
    verdict = models.CharField(max_length=9, choices=Verdict.choices, null=True, blank=True)
    problem = models.CharField(max_length=9, null=True, blank=True)
    reason = models.CharField(max_length=255, blank=True, help_text="why it is dead, cancelled or skipped")
    error = models.TextField(blank=True)
    runner_id = models.CharField(max_length=255, blank=True, help_text="last holder")
    claimed_at = models.DateTimeField(null=True, blank=True)
    finished_at = models.DateTimeField(null=True, blank=True)
    duration_ms = models.BigIntegerField(null=True, blank=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                # One run per occurrence however many schedulers tick. Serves materialize and backfill.
                fields=["job", "scheduled_for"],
                condition=Q(kind="scheduled"),
                name="run_one_per_occurrence",
            ),
            models.UniqueConstraint(
                # One replay per letter, however many ask for it.
                fields=["replay_of"],
                condition=Q(replay_of__isnull=False),
                name="run_one_replay_per_letter",
            ),
            models.CheckConstraint(
                condition=Q(verdict__isnull=True, problem__isnull=True, finished_at__isnull=True)
                # IS NOT NULL beside each comparison: a check that comes out as unknown lets the row pass.
                | Q(verdict__isnull=False, verdict="completed", problem__isnull=True, finished_at__isnull=False)
                | Q(
                    verdict__isnull=False,
                    verdict__in=["failed", "dead", "cancelled", "skipped"],
                    problem__isnull=False,
                    problem=models.F("verdict"),
                    finished_at__isnull=False,
                ),
                name="run_problem_repeats_verdict",
            ),
        ]
        indexes = [
            # Serves the newest-first list of all runs.
            models.Index(fields=["-scheduled_for", "-id"], name="run_by_time"),
            # Serves the newest-first list of a job's runs, and its last runs.
            models.Index(fields=["job", "-scheduled_for", "-id"], name="run_by_job"),
            # Serves the lists of trouble.
            models.Index(
                fields=["problem", "-scheduled_for", "-id"], condition=Q(problem__isnull=False), name="run_by_problem"
            ),
            # Serves a job's troubles: their list, and how many there were of each kind on each day of a year.
            models.Index(
                fields=["job", "problem", "-scheduled_for", "-id"],
                condition=Q(problem__isnull=False),
                name="run_by_job_and_problem",
            ),
        ]

    def __str__(self) -> str:
        return str(self.id)


class Attempt(models.Model):
    """An attempt that ended without ending the run. The last attempt is in the run's own columns."""

    class Outcome(models.TextChoices):
        FAILED = "failed"
        TIMED_OUT = "timed_out"
        LOST = "lost"

    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="attempts", db_index=False)
    attempt = models.PositiveIntegerField()
    outcome = models.CharField(max_length=9, choices=Outcome.choices)
    cause = models.CharField(max_length=32, blank=True, help_text="of a loss: lease, takeover, lost_answer, …")
    runner_id = models.CharField(max_length=255, blank=True)
    claimed_at = models.DateTimeField()
    ended_at = models.DateTimeField()
    duration_ms = models.BigIntegerField(null=True, blank=True)
    error = models.TextField(blank=True)

    class Meta:
        constraints = [
            # Serves the attempts of a run; an ack that is repeated after a requeue is known by its row.
            models.UniqueConstraint(fields=["run", "attempt"], name="attempt_one_per_number"),
        ]
        indexes = [
            # Serves the count of losses by cause.
            models.Index(fields=["cause"], condition=Q(outcome="lost"), name="attempt_lost_by_cause"),
        ]

    def __str__(self) -> str:
        return f"{self.run_id} #{self.attempt}"


class SkippedSpan(models.Model):
    """Fires of a job that made no run, many in one row: ``count`` of them from ``first_at`` to ``last_at``.

    Of a trigger whose calendar moves fires no more than 5,000 are counted (`planning.MOST_COUNTED`): exactly that
    number means at least so many.
    """

    job = models.ForeignKey(Job, on_delete=models.CASCADE, related_name="skipped_spans", db_index=False)
    first_at = models.DateTimeField()
    last_at = models.DateTimeField()
    count = models.PositiveBigIntegerField()
    reason = models.CharField(max_length=32)
    recorded_at = models.DateTimeField()

    class Meta:
        constraints = [
            models.CheckConstraint(condition=Q(last_at__gte=models.F("first_at")), name="skipped_span_is_forward"),
            models.CheckConstraint(condition=Q(count__gte=1), name="skipped_span_is_not_empty"),
        ]
        indexes = [
            # Serves a job's gaps, newest first.
            models.Index(fields=["job", "-first_at"], name="skipped_span_by_job"),
        ]

    def __str__(self) -> str:
        return f"{self.count} skipped ({self.reason})"
