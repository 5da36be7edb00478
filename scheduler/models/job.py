"""What to do: jobs, the groups that limit them and the lanes in which their runs wait."""

from django.db import models
from django.db.models import Q


class Lane(models.Model):
    """A place to wait: (tenant, route, priority). A route is the required and the preferred capabilities, interned.

    A claim names lanes by id; the statement never compares capabilities.
    """

    tenant = models.CharField(max_length=63)
    route = models.CharField(max_length=64, help_text="SHA-256 of the canonical JSON of (require, prefer).")
    require = models.JSONField(default=list)
    prefer = models.JSONField(default=list)
    priority = models.SmallIntegerField(default=0, help_text="Higher is served first within a tenant.")

    class Meta:
        constraints = [
            # Serves the interning of a job's or a trigger's route.
            models.UniqueConstraint(fields=["tenant", "route", "priority"], name="lane_one_per_route"),
        ]

    def __str__(self) -> str:
        return f"{self.tenant} {','.join(self.require) or 'any'} {self.priority}"


class ConcurrencyGroup(models.Model):
    """A limit that several jobs of a tenant share."""

    tenant = models.CharField(max_length=63, default="default")
    name = models.CharField(max_length=255)
    max_concurrent = models.PositiveIntegerField()
    managed_by = models.CharField(max_length=32, default="api", db_default="api", help_text="api or file")

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["tenant", "name"], name="group_one_per_name"),
            models.CheckConstraint(condition=Q(max_concurrent__gte=1), name="group_limit_is_positive"),
        ]

    def __str__(self) -> str:
        return self.name


class Job(models.Model):
    """What to do and under which rules. Durations are seconds. A deleted job keeps its row while its runs are kept."""

    class Overlap(models.TextChoices):
        PARALLEL = "parallel"
        QUEUE_ONE = "queue_one"
        SKIP = "skip"

    class CatchUp(models.TextChoices):
        ALL = "all"
        LATEST = "latest"
        NONE = "none"

    class Strategy(models.TextChoices):
        FIXED = "fixed"
        LINEAR = "linear"
        EXPONENTIAL = "exponential"

    job_key = models.CharField(max_length=255, help_text="two or three parts joined by a colon")
    tenant = models.SlugField(max_length=63, default="default", db_index=False)
    description = models.TextField(blank=True)
    metadata = models.JSONField(default=dict, blank=True)
    action = models.JSONField(
        default=dict, blank=True, help_text="empty: a handler in a runner's code; else what to run"
    )
    tags = models.JSONField(default=list, blank=True)
    managed_by = models.CharField(max_length=32, default="api", help_text="api, runner, file, admin or demo")

    timeout_seconds = models.FloatField(default=300)
    lease_seconds = models.FloatField(default=60)
    max_retries = models.PositiveIntegerField(default=3, help_text="attempts beyond the first")
    max_losses = models.PositiveIntegerField(default=2)
    retry_strategy = models.CharField(max_length=11, choices=Strategy.choices, default=Strategy.EXPONENTIAL)
    retry_base_seconds = models.FloatField(default=2)
    retry_step_seconds = models.FloatField(default=2)
    retry_cap_seconds = models.FloatField(default=3600)
    retry_jitter = models.FloatField(default=0.1)

    require = models.JSONField(default=list, blank=True)
    prefer = models.JSONField(default=list, blank=True)
    pin = models.CharField(max_length=255, blank=True, help_text="the one runner_id that may run it")
    priority = models.SmallIntegerField(default=0)
    lane = models.ForeignKey(Lane, on_delete=models.PROTECT, related_name="+")

    max_concurrent = models.PositiveIntegerField(null=True, blank=True)
    concurrency_group = models.ForeignKey(
        ConcurrencyGroup, on_delete=models.PROTECT, null=True, blank=True, related_name="jobs"
    )
    overlap = models.CharField(max_length=9, choices=Overlap.choices, default=Overlap.PARALLEL)
    coalesce = models.BooleanField(default=False)
    max_queue_depth = models.PositiveIntegerField(default=10)
    queue_ttl_seconds = models.FloatField(null=True, blank=True)

    catch_up = models.CharField(max_length=6, choices=CatchUp.choices, default=CatchUp.LATEST)
    misfire_grace_seconds = models.FloatField(null=True, blank=True)
    max_catch_up = models.PositiveIntegerField(default=100)

    dead_letter_enabled = models.BooleanField(default=True)
    dead_letter_retention_seconds = models.FloatField(default=30 * 86_400, help_text="0 keeps them for ever")
    dead_letter_operator_hint = models.TextField(blank=True)
    dead_letter_replay_max_age_seconds = models.FloatField(null=True, blank=True)

    is_active = models.BooleanField(default=True)
    paused_at = models.DateTimeField(null=True, blank=True)
    paused_until = models.DateTimeField(null=True, blank=True)
    paused_reason = models.CharField(max_length=255, blank=True)
    missed_seen_at = models.DateTimeField(
        null=True, blank=True, help_text="what was recorded as missed up to then somebody has dealt with"
    )
    deleted_at = models.DateTimeField(null=True, blank=True)
    created_at = models.DateTimeField()
    updated_at = models.DateTimeField()

    class Meta:
        permissions = [("exec_job", "Can say what a job executes")]
        constraints = [
            # Serves every look-up by key; a deleted job's key is free for a new job.
            models.UniqueConstraint(
                fields=["job_key"], condition=Q(deleted_at__isnull=True), name="job_one_live_per_key"
            ),
            models.CheckConstraint(condition=Q(timeout_seconds__gt=0), name="job_timeout_is_positive"),
            models.CheckConstraint(condition=Q(lease_seconds__gte=5), name="job_lease_is_at_least_5s"),
            models.CheckConstraint(
                condition=Q(retry_jitter__gte=0, retry_jitter__lte=1), name="job_retry_jitter_is_a_share"
            ),
            models.CheckConstraint(
                condition=Q(max_concurrent__isnull=True) | Q(max_concurrent__gte=1), name="job_limit_is_positive"
            ),
            models.CheckConstraint(
                condition=Q(overlap__in=["parallel", "queue_one", "skip"]), name="job_overlap_is_known"
            ),
            models.CheckConstraint(condition=Q(catch_up__in=["all", "latest", "none"]), name="job_catch_up_is_known"),
        ]
        indexes = [
            # Serves the list of a tenant's jobs in the order of their keys.
            models.Index(fields=["tenant", "job_key"], condition=Q(deleted_at__isnull=True), name="job_by_tenant"),
        ]

    def __str__(self) -> str:
        return self.job_key
