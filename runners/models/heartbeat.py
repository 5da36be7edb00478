"""Signs of life of our own processes."""

from django.db import models
from django.db.models import Q


class Heartbeat(models.Model):
    """One row a process (serve, materialize, reap, …). ``ended_at`` says that it stopped in good order."""

    process_id = models.UUIDField(unique=True)
    kind = models.CharField(max_length=32)
    host = models.CharField(max_length=255)
    pid = models.PositiveIntegerField()
    started_at = models.DateTimeField()
    beat_at = models.DateTimeField()
    tick_at = models.DateTimeField(null=True, blank=True, help_text="End of the last pass that did its work.")
    ended_at = models.DateTimeField(null=True, blank=True)
    detail = models.JSONField(default=dict)

    class Meta:
        constraints = [models.CheckConstraint(condition=~Q(kind=""), name="heartbeat_has_kind")]
        indexes = [
            # Serves "is any process of this kind alive" and the last tick.
            models.Index(fields=["kind", "beat_at"], name="heartbeat_by_kind"),
        ]

    def __str__(self) -> str:
        return f"{self.kind} {self.host}:{self.pid}"
