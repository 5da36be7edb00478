"""Who is told when something goes wrong, of what, and how it went."""

from django.db import models
from django.db.models import Q


class AlertChannel(models.Model):
    """Where alerts go. A deleted one stays as a row: a run that ends in this moment may still name it."""

    class Kind(models.TextChoices):
        WEBHOOK = "webhook"
        EMAIL = "email"

    tenant = models.SlugField(max_length=63, db_index=False)
    name = models.CharField(max_length=255)
    kind = models.CharField(max_length=7, choices=Kind.choices)
    target = models.CharField(max_length=4096, help_text="a URL, whose path may be a secret, or an address")
    secret = models.CharField(max_length=64, blank=True, help_text="signs what a webhook gets")
    created_at = models.DateTimeField()
    deleted_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        constraints = [
            # Serves the look-up by the name that a rule says.
            models.UniqueConstraint(
                fields=["tenant", "name"], condition=Q(deleted_at__isnull=True), name="alert_channel_one_live_per_name"
            )
        ]

    def __str__(self) -> str:
        return self.name


class AlertRule(models.Model):
    """What is told to a channel. A deleted one stays as a row, as its channel does."""

    class Kind(models.TextChoices):
        FAILED = "failed"
        SCHEDULER_SILENT = "scheduler_silent"

    tenant = models.SlugField(max_length=63, db_index=False)
    name = models.CharField(max_length=255)
    kind = models.CharField(max_length=16, choices=Kind.choices)
    channel = models.ForeignKey(AlertChannel, on_delete=models.PROTECT, related_name="rules", db_index=False)
    job_glob = models.CharField(max_length=255, default="*", help_text="of job keys; * and ? stand for any text")
    throttle_seconds = models.FloatField(default=0, help_text="at most one alert of a job in so long; 0: every one")
    grace_seconds = models.FloatField(default=60, help_text="how long the scheduler may be silent")
    created_at = models.DateTimeField()
    deleted_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        constraints = [
            # Serves the search for the rules of what happened: there are few rules.
            models.UniqueConstraint(
                fields=["tenant", "name"], condition=Q(deleted_at__isnull=True), name="alert_rule_one_live_per_name"
            )
        ]

    def __str__(self) -> str:
        return self.name


class Alert(models.Model):
    """One cause that a rule tells of, and how its delivery went.

    ``next_at`` is when somebody has to do something about it: its first attempt, the next one, or, while it is being
    sent, the end of the lease of whoever sends it. Null: it has its outcome.
    """

    class Event(models.TextChoices):
        FAILED = "failed"
        SILENT = "silent"
        RECOVERED = "recovered"
        TEST = "test"

    class State(models.TextChoices):
        WAITING = "waiting"
        DELIVERED = "delivered"
        FAILED = "failed"
        THROTTLED = "throttled"
        DROPPED = "dropped"

    id = models.UUIDField(primary_key=True, editable=False)
    rule = models.ForeignKey(
        AlertRule, on_delete=models.PROTECT, null=True, blank=True, related_name="alerts", db_index=False
    )
    channel = models.ForeignKey(AlertChannel, on_delete=models.PROTECT, related_name="alerts", db_index=False)
    tenant = models.SlugField(max_length=63, db_index=False)
    event = models.CharField(max_length=9, choices=Event.choices)
    cause = models.CharField(max_length=100)
    job_key = models.CharField(max_length=255, blank=True)
    detail = models.JSONField(default=dict)
    created_at = models.DateTimeField()
    ended_at = models.DateTimeField(null=True, blank=True, help_text="of a silence: when it was over")

    state = models.CharField(max_length=9, choices=State.choices, default=State.WAITING)
    attempt = models.PositiveIntegerField(default=0)
    next_at = models.DateTimeField(null=True, blank=True)
    began_at = models.DateTimeField(null=True, blank=True, help_text="when the last attempt began")
    finished_at = models.DateTimeField(null=True, blank=True)
    error = models.CharField(max_length=500, blank=True, help_text="of the last attempt")

    class Meta:
        constraints = [
            # However many processes find a cause, it is one alert. Serves the search for a silence that goes on.
            models.UniqueConstraint(fields=["rule", "cause"], name="alert_one_per_cause"),
            models.CheckConstraint(
                condition=Q(state="waiting", next_at__isnull=False, finished_at__isnull=True)
                | Q(
                    state__in=["delivered", "failed", "throttled", "dropped"],
                    next_at__isnull=True,
                    finished_at__isnull=False,
                ),
                name="alert_waits_until_its_outcome",
            ),
        ]
        indexes = [
            # Serves those who send.
            models.Index(fields=["next_at"], condition=Q(next_at__isnull=False), name="alert_to_send"),
            # Serves the throttle: what was said of a job lately.
            models.Index(fields=["rule", "job_key", "began_at"], name="alert_by_job"),
        ]

    def __str__(self) -> str:
        return f"{self.event} {self.job_key}".strip()
