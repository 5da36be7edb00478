"""What hangs on a run: its log, its letter, the key that made it the only one."""

from django.db import models

from scheduler.models.job import Job
from scheduler.models.run import Run


class IdempotencyKey(models.Model):
    """One run per (job, key) while that run is live and for ten minutes after its creation."""

    job = models.ForeignKey(Job, on_delete=models.CASCADE, related_name="idempotency_keys", db_index=False)
    key = models.CharField(max_length=200)
    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="idempotency_keys")
    created_at = models.DateTimeField()
    expires_at = models.DateTimeField()

    class Meta:
        constraints = [
            # Of twenty equal requests at one instant the database lets one through.
            models.UniqueConstraint(fields=["job", "key"], name="idempotency_key_one_run"),
        ]
        indexes = [
            # Serves the retention of expired keys.
            models.Index(fields=["expires_at"], name="idempotency_key_by_expiry"),
        ]

    def __str__(self) -> str:
        return self.key


class DeadLetter(models.Model):
    """A run that used up its attempts, kept for a person to look at, replay or throw away."""

    id = models.UUIDField(primary_key=True, editable=False)
    run = models.OneToOneField(Run, on_delete=models.CASCADE, related_name="dead_letter")
    job = models.ForeignKey(Job, on_delete=models.CASCADE, related_name="dead_letters", db_index=False)
    error = models.TextField(blank=True)
    attempt = models.PositiveIntegerField()
    dead_reason = models.CharField(max_length=32, help_text="retries_exhausted, losses_exhausted, timed_out, …")
    scheduled_for = models.DateTimeField()
    fire_at = models.DateTimeField()
    metadata = models.JSONField(default=dict)
    created_at = models.DateTimeField()
    expires_at = models.DateTimeField(null=True, blank=True, help_text="null: kept for ever")
    fingerprint = models.CharField(
        max_length=200, blank=True, default="", db_default="", help_text="the error without what differs by run"
    )
    note = models.CharField(
        max_length=1000, blank=True, default="", db_default="", help_text="what somebody found out about it"
    )

    class Meta:
        indexes = [
            # Serves the groups of equal errors, and the newest letters of one.
            models.Index(fields=["fingerprint", "-created_at", "-id"], name="dead_letter_by_fingerprint"),
            # Serves the newest-first list of letters.
            models.Index(fields=["-created_at", "-id"], name="dead_letter_by_time"),
            # Serves a job's letters.
            models.Index(fields=["job", "-created_at", "-id"], name="dead_letter_by_job"),
            # Serves retention.
            models.Index(
                fields=["expires_at"],
                condition=models.Q(expires_at__isnull=False),
                name="dead_letter_by_expiry",
            ),
        ]

    def __str__(self) -> str:
        return str(self.run_id)


class RunLog(models.Model):
    """One line that a handler said. The order of ids is the order of the lines."""

    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="log_lines", db_index=False)
    attempt = models.PositiveIntegerField()
    logged_at = models.DateTimeField()
    level = models.CharField(max_length=16)
    message = models.TextField()
    fields = models.JSONField(default=dict)

    class Meta:
        indexes = [
            # Serves reading and following the log of a run.
            models.Index(fields=["run", "id"], name="run_log_by_run"),
        ]

    def __str__(self) -> str:
        return self.message[:80]
