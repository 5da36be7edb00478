"""Runners and the processes that have spoken for them."""

from django.db import models
from django.db.models import Q

from runners.models.clients import ApiClient


class Runner(models.Model):
    """A runner's identity: the ``runner_id`` on the wire, owned by the API client that used it first."""

    runner_id = models.CharField(max_length=255)
    client = models.ForeignKey(ApiClient, on_delete=models.PROTECT, related_name="runners")
    capabilities = models.JSONField(default=list)
    tags = models.JSONField(default=list)
    max_inflight = models.PositiveIntegerField(default=1)
    created_at = models.DateTimeField()
    last_poll_at = models.DateTimeField()
    takeovers = models.PositiveIntegerField(default=0)
    flapping_reported_at = models.DateTimeField(null=True, blank=True)
    drained_at = models.DateTimeField(
        null=True, blank=True, help_text="since when it finishes what it holds and takes no more; null: it takes work"
    )
    drain_reason = models.CharField(max_length=255, blank=True, default="", db_default="")

    class Meta:
        constraints = [models.UniqueConstraint(fields=["runner_id"], name="runner_one_owner_per_id")]
        indexes = [
            # Serves presence (online, stale, dead) and the retention of long-dead runners.
            models.Index(fields=["last_poll_at"], name="runner_by_last_poll"),
        ]

    def __str__(self) -> str:
        return self.runner_id


class RunnerInstance(models.Model):
    """One process that polled as a runner. ``instance_id`` is empty for clients that send none (one anonymous one)."""

    runner = models.ForeignKey(Runner, on_delete=models.CASCADE, related_name="instances", db_index=False)
    instance_id = models.CharField(max_length=255, blank=True)
    first_seen_at = models.DateTimeField()
    last_poll_at = models.DateTimeField()
    deposed_at = models.DateTimeField(null=True, blank=True)
    is_drained = models.BooleanField(
        default=False,
        db_default=False,
        help_text="its runner is: said here too, because a claim looks at this row and at no other",
    )

    class Meta:
        constraints = [
            # Serves the look-up of a poll's instance.
            models.UniqueConstraint(fields=["runner", "instance_id"], name="instance_one_per_id"),
            # Serves takeover: of two new instances at one moment the database lets one be the current one.
            models.UniqueConstraint(
                fields=["runner"], condition=Q(deposed_at__isnull=True), name="instance_one_current_per_runner"
            ),
        ]
        indexes = [
            # Serves the retention of deposed instances.
            models.Index(fields=["deposed_at"], condition=Q(deposed_at__isnull=False), name="instance_deposed_by_time"),
            # Serves flapping (takeovers of the last ten minutes).
            models.Index(
                fields=["runner", "deposed_at"], condition=Q(deposed_at__isnull=False), name="instance_by_deposed_at"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.runner_id}/{self.instance_id or 'anonymous'}"
