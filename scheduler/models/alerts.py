"""Who is told when something goes wrong, of what, and how it went."""

from django.db import models
from django.db.models import Q

from calendars.models import Calendar


class _Named(models.Model):
    """What a tenant gives a name, which is one's again when it is deleted. It stays as a row: a run that ends in this
    moment may still name it."""

    tenant = models.SlugField(max_length=63, db_index=False)
    name = models.CharField(max_length=255)
    created_at = models.DateTimeField()
    deleted_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        abstract = True

    def __str__(self) -> str:
        return self.name


class AlertChannel(_Named):
    """Where alerts go. While it does not answer it is closed: what waits for it waits, and one sender at a time tries
    it."""

    class Kind(models.TextChoices):
        WEBHOOK = "webhook"
        EMAIL = "email"
        APPRISE = "apprise"

    kind = models.CharField(max_length=7, choices=Kind.choices)
    target = models.CharField(max_length=4096, help_text="a URL, which may be a secret, or an address")
    secret = models.CharField(max_length=64, blank=True, help_text="signs what a webhook gets")
    tried_at = models.DateTimeField(null=True, blank=True, help_text="when something was last sent over it")
    failures = models.PositiveIntegerField(
        default=0, db_default=0, help_text="attempts without an answer, one after the other"
    )
    closed_until = models.DateTimeField(null=True, blank=True, help_text="not tried before, and then by one sender")
    error = models.CharField(
        max_length=500, blank=True, default="", db_default="", help_text="of the last attempt without an answer"
    )

    class Meta:
        constraints = [
            # Serves the look-up by the name that a rule says.
            models.UniqueConstraint(
                fields=["tenant", "name"], condition=Q(deleted_at__isnull=True), name="alert_channel_one_live_per_name"
            ),
            models.CheckConstraint(
                condition=Q(failures=0, closed_until__isnull=True) | Q(failures__gt=0, closed_until__isnull=False),
                name="alert_channel_closed_while_it_fails",
            ),
        ]


class AlertRule(_Named):
    """What is told to its channels (`AlertRoute`)."""

    class Kind(models.TextChoices):
        FAILED = "failed"
        OVERRAN = "overran"
        MISSED = "missed"
        DEAD_LETTERS = "dead_letters"
        FLAPPING = "flapping"
        NO_RUNNER = "no_runner"
        SCHEDULER_SILENT = "scheduler_silent"
        WEEKLY_DIGEST = "weekly_digest"

    kind = models.CharField(max_length=16, choices=Kind.choices)
    job_glob = models.CharField(max_length=255, default="*", help_text="of job keys; * and ? stand for any text")
    tags = models.JSONField(
        default=list, db_default=[], blank=True, help_text="of jobs, any of them; empty: whatever they have"
    )
    throttle_seconds = models.FloatField(default=0, help_text="at most one alert of a job in so long; 0: every one")
    grace_seconds = models.FloatField(default=60, help_text="how long what is wrong may last before it is told")
    expected_within_seconds = models.FloatField(null=True, blank=True, help_text="overran: how long a run may take")
    threshold = models.PositiveIntegerField(default=1, db_default=1, help_text="dead_letters: told from so many on")
    recovery = models.BooleanField(default=True, db_default=True, help_text="also tell when it is over")
    calendar = models.ForeignKey(
        Calendar, on_delete=models.PROTECT, null=True, blank=True, related_name="+", help_text="quiet on days it closes"
    )
    looked_at = models.DateTimeField(null=True, blank=True, help_text="when somebody last looked for what it tells")

    class Meta:
        constraints = [
            # Serves the search for the rules of what happened: there are few rules.
            models.UniqueConstraint(
                fields=["tenant", "name"], condition=Q(deleted_at__isnull=True), name="alert_rule_one_live_per_name"
            )
        ]


class AlertRoute(models.Model):
    """A channel that a rule tells."""

    rule = models.ForeignKey(AlertRule, on_delete=models.PROTECT, related_name="routes", db_index=False)
    channel = models.ForeignKey(AlertChannel, on_delete=models.PROTECT, related_name="routes", db_index=False)

    class Meta:
        constraints = [
            # Serves the channels of a rule.
            models.UniqueConstraint(fields=["rule", "channel"], name="alert_route_once"),
        ]

    def __str__(self) -> str:
        return f"{self.rule_id} {self.channel_id}"


class AlertExemption(models.Model):
    """Somebody's will, with his reason, that rules do not tell, or tell differently, for a time. It ends by itself."""

    class Effect(models.TextChoices):
        SNOOZE = "snooze"
        DISABLE = "disable"
        OVERRIDE = "override"

    tenant = models.SlugField(max_length=63, db_index=False)
    rule = models.ForeignKey(
        AlertRule, on_delete=models.PROTECT, null=True, blank=True, related_name="exemptions", db_index=False
    )
    job_glob = models.CharField(max_length=255, default="*")
    effect = models.CharField(max_length=8, choices=Effect.choices)
    throttle_seconds = models.FloatField(null=True, blank=True, help_text="override: in the place of the rule's")
    grace_seconds = models.FloatField(null=True, blank=True, help_text="override: in the place of the rule's")
    note = models.CharField(max_length=500)
    created_by = models.CharField(max_length=255)
    created_at = models.DateTimeField()
    until = models.DateTimeField()
    ended_at = models.DateTimeField(null=True, blank=True, help_text="when somebody ended it before its time")

    class Meta:
        constraints = [
            models.CheckConstraint(condition=~Q(note=""), name="alert_exemption_says_why"),
            models.CheckConstraint(condition=Q(until__gt=models.F("created_at")), name="alert_exemption_ends"),
        ]
        indexes = [
            # Serves the search for those in effect.
            models.Index(fields=["until"], condition=Q(ended_at__isnull=True), name="alert_exemption_in_effect"),
        ]

    def __str__(self) -> str:
        return f"{self.effect} {self.job_glob}"


class Alert(models.Model):
    """One cause that a rule tells one channel of, and how its delivery went.

    ``cause`` begins with what lasts, up to its last colon; behind it is since when. ``ended_at`` is when it was over;
    of what has no duration (a recovery, a test) it is when it was made. ``next_at`` is when somebody has to do anything
    about it: its first attempt, the next one, the end of what holds it back, or, while it is being sent, the end of the
    lease of whoever sends it. Null: it has its outcome.
    """

    class Event(models.TextChoices):
        FAILED = "failed"
        OVERRAN = "overran"
        MISSED = "missed"
        DEAD_LETTERS = "dead_letters"
        FLAPPING = "flapping"
        NO_RUNNER = "no_runner"
        SILENT = "silent"
        RECOVERED = "recovered"
        DIGEST = "digest"
        TEST = "test"

    class State(models.TextChoices):
        WAITING = "waiting"
        DELIVERED = "delivered"
        FAILED = "failed"
        THROTTLED = "throttled"
        SNOOZED = "snoozed"
        QUIET = "quiet"
        DROPPED = "dropped"

    id = models.UUIDField(primary_key=True, editable=False)
    rule = models.ForeignKey(
        AlertRule, on_delete=models.PROTECT, null=True, blank=True, related_name="alerts", db_index=False
    )
    channel = models.ForeignKey(AlertChannel, on_delete=models.PROTECT, related_name="alerts", db_index=False)
    tenant = models.SlugField(max_length=63, db_index=False)
    event = models.CharField(max_length=12, choices=Event.choices)
    cause = models.CharField(max_length=100)
    job_key = models.CharField(max_length=255, blank=True)
    detail = models.JSONField(default=dict)
    created_at = models.DateTimeField()
    ended_at = models.DateTimeField(null=True, blank=True, help_text="when its cause was over")

    state = models.CharField(max_length=9, choices=State.choices, default=State.WAITING)
    attempt = models.PositiveIntegerField(default=0)
    next_at = models.DateTimeField(null=True, blank=True)
    held = models.CharField(
        max_length=7, blank=True, default="", db_default="", help_text="what it waits for: snoozed or quiet"
    )
    began_at = models.DateTimeField(null=True, blank=True, help_text="when the last attempt began")
    finished_at = models.DateTimeField(null=True, blank=True)
    error = models.CharField(max_length=500, blank=True, help_text="of the last attempt")

    class Meta:
        constraints = [
            # However many processes find a cause, it is one alert of a channel.
            models.UniqueConstraint(fields=["rule", "channel", "cause"], name="alert_one_per_cause"),
            models.CheckConstraint(
                condition=Q(state="waiting", next_at__isnull=False, finished_at__isnull=True)
                | Q(
                    state__in=["delivered", "failed", "throttled", "snoozed", "quiet", "dropped"],
                    next_at__isnull=True,
                    finished_at__isnull=False,
                ),
                name="alert_waits_until_its_outcome",
            ),
        ]
        indexes = [
            # Serves those who send: what has been due for longest of each channel.
            models.Index(fields=["channel", "next_at"], condition=Q(next_at__isnull=False), name="alert_to_send"),
            # Serves the search for what goes on.
            models.Index(fields=["rule"], condition=Q(ended_at__isnull=True), name="alert_open"),
            # Serves the throttle: what was said of a job lately.
            models.Index(fields=["rule", "job_key", "began_at"], name="alert_by_job"),
        ]

    def __str__(self) -> str:
        return f"{self.event} {self.job_key}".strip()
