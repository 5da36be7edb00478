"""Times in which nothing is handed out."""

from django.db import models
from django.db.models import F, Q


class Maintenance(models.Model):
    """A time in which all dispatch is held. Every claim of every server looks for the row that is on.

    It stays on after ``until`` for as long as it takes to record what fell due in it: else a claim would start that.
    """

    is_on = models.BooleanField()
    began_at = models.DateTimeField()
    until = models.DateTimeField(null=True, blank=True, help_text="null: until somebody ends it")
    reason = models.CharField(max_length=255, blank=True)
    skipped = models.PositiveIntegerField(default=0, help_text="runs that fell due in it and were skipped for it")
    ended_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        verbose_name_plural = "maintenance"
        constraints = [
            # Serves every claim's look whether it may hand anything out.
            models.UniqueConstraint(fields=["is_on"], condition=Q(is_on=True), name="maintenance_one_at_a_time"),
            models.CheckConstraint(
                condition=Q(is_on=True, ended_at__isnull=True) | Q(is_on=False, ended_at__isnull=False),
                name="maintenance_on_until_ended",
            ),
            models.CheckConstraint(
                condition=Q(until__isnull=True) | Q(until__gte=F("began_at")), name="maintenance_is_forward"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.began_at:%Y-%m-%d %H:%M:%S} {self.reason}".strip()
