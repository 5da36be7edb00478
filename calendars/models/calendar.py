"""Calendars and their rules as rows; what they mean is calendars/domain."""

from django.db import models
from django.db.models import Q


class Calendar(models.Model):
    """Rules in a zone of their own. Open = (no include rule, or any matches) and no exclude rule matches."""

    name = models.CharField(max_length=255)
    tenant = models.SlugField(max_length=63, default="default", db_index=False)
    timezone = models.CharField(max_length=64)
    description = models.TextField(blank=True)
    managed_by = models.CharField(max_length=32, default="api", db_default="api", help_text="api or file")
    created_at = models.DateTimeField()
    updated_at = models.DateTimeField()

    class Meta:
        constraints = [
            # Serves the look-up by name when a job or a trigger names its calendar.
            models.UniqueConstraint(fields=["tenant", "name"], name="calendar_one_per_name"),
        ]

    def __str__(self) -> str:
        return self.name


class CalendarRule(models.Model):
    """A conjunction of conditions; an empty condition does not restrict. Weekdays are ISO: 1 = Monday … 7 = Sunday."""

    class Effect(models.TextChoices):
        INCLUDE = "include"
        EXCLUDE = "exclude"

    calendar = models.ForeignKey(Calendar, on_delete=models.CASCADE, related_name="rules", db_index=False)
    position = models.PositiveSmallIntegerField(default=0)
    effect = models.CharField(max_length=7, choices=Effect.choices)
    name = models.CharField(max_length=255, blank=True)
    weekdays = models.JSONField(default=list, blank=True)
    month_days = models.JSONField(default=list, blank=True, help_text="1 to 31; -1 is the last day")
    yearly_dates = models.JSONField(default=list, blank=True, help_text='"MM-DD"')
    dates = models.JSONField(default=list, blank=True, help_text='"YYYY-MM-DD"')
    range_start = models.DateField(null=True, blank=True)
    range_end = models.DateField(null=True, blank=True, help_text="inclusive")
    window_start = models.TimeField(null=True, blank=True)
    window_end = models.TimeField(null=True, blank=True, help_text="exclusive; before the start = over midnight")
    holiday_country = models.CharField(max_length=3, blank=True)
    holiday_subdivision = models.CharField(max_length=16, blank=True)
    holiday_categories = models.JSONField(default=list, blank=True)
    holiday_observed = models.BooleanField(default=True)

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=Q(effect__in=["include", "exclude"]), name="calendar_rule_effect_is_known"
            ),
            models.CheckConstraint(
                condition=Q(range_start__isnull=True)
                | Q(range_end__isnull=True)
                | Q(range_end__gte=models.F("range_start")),
                name="calendar_rule_range_is_forward",
            ),
            models.CheckConstraint(
                condition=Q(window_start__isnull=True, window_end__isnull=True)
                | Q(window_start__isnull=False, window_end__isnull=False),
                name="calendar_rule_window_is_whole",
            ),
        ]
        indexes = [
            # Serves reading a calendar's rules in order.
            models.Index(fields=["calendar", "position"], name="calendar_rule_by_position"),
        ]
        ordering = ["position", "id"]

    def __str__(self) -> str:
        return self.name or f"{self.effect} rule {self.position}"
