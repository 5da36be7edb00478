"""When to do it."""

from uuid import uuid4

from django.db import models
from django.db.models import F, Q

from calendars.models import Calendar
from scheduler.models.job import Job


class Trigger(models.Model):
    """A schedule bound to a job, with its zone, calendar and the materializer's cursor.

    Fires in (created_at, cursor_at] are decided; the next pass looks at (cursor_at, now + horizon].
    """

    class Kind(models.TextChoices):
        CRON = "cron"
        INTERVAL = "interval"
        ONCE = "once"

    class OnBlocked(models.TextChoices):
        ADVANCE = "advance"
        DEFER = "defer"
        FOLLOWING = "following"
        PRECEDING = "preceding"

    id = models.UUIDField(primary_key=True, default=uuid4, editable=False)
    job = models.ForeignKey(Job, on_delete=models.CASCADE, related_name="triggers")
    kind = models.CharField(max_length=8, choices=Kind.choices)
    cron_expression = models.CharField(max_length=255, blank=True)
    every = models.DurationField(null=True, blank=True)
    anchor_at = models.DateTimeField(null=True, blank=True, help_text="interval: fires at anchor + k·every")
    run_at = models.DateTimeField(null=True, blank=True, help_text="once")
    timezone = models.CharField(max_length=64, blank=True, help_text="empty: CRONIQ_TIME_ZONE")
    calendar = models.ForeignKey(Calendar, on_delete=models.PROTECT, null=True, blank=True, related_name="triggers")
    on_blocked = models.CharField(max_length=9, choices=OnBlocked.choices, default=OnBlocked.ADVANCE)
    window_start = models.TimeField(null=True, blank=True)
    window_end = models.TimeField(null=True, blank=True)
    not_before = models.DateTimeField(null=True, blank=True)
    not_after = models.DateTimeField(null=True, blank=True)
    managed_by = models.CharField(max_length=32, default="api")
    enabled = models.BooleanField(default=True)
    config_error = models.TextField(blank=True, help_text="why this trigger alone stands still")
    cursor_at = models.DateTimeField()
    next_materialize_at = models.DateTimeField(null=True, blank=True, help_text="null: nothing to plan any more")
    created_at = models.DateTimeField()
    updated_at = models.DateTimeField()

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=Q(kind="cron", every__isnull=True, run_at__isnull=True) & ~Q(cron_expression="")
                | Q(
                    kind="interval",
                    every__isnull=False,
                    anchor_at__isnull=False,
                    run_at__isnull=True,
                    cron_expression="",
                )
                | Q(kind="once", run_at__isnull=False, every__isnull=True, cron_expression=""),
                name="trigger_has_its_schedule_only",
            ),
            models.CheckConstraint(
                condition=Q(on_blocked__in=["advance", "defer", "following", "preceding"]),
                name="trigger_on_blocked_is_known",
            ),
            models.CheckConstraint(
                condition=Q(not_before__isnull=True) | Q(not_after__isnull=True) | Q(not_after__gte=F("not_before")),
                name="trigger_bounds_are_forward",
            ),
            models.UniqueConstraint(
                # Two runners that register a job at one moment make one trigger.
                fields=["job"],
                condition=Q(managed_by="runner"),
                name="trigger_one_registered_per_job",
            ),
        ]
        indexes = [
            # Serves the materializer's batch: what is to be planned next.
            models.Index(
                fields=["next_materialize_at"],
                condition=Q(enabled=True, next_materialize_at__isnull=False),
                name="trigger_to_materialize",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.kind} {self.cron_expression or self.every or self.run_at}"
