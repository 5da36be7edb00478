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


class Outage(models.Model):
    """A time in which no ``serve`` gave a sign of life: it was not there, or the database was not.

    No runner could renew its leases then. ``began_at`` is the last heartbeat before it, ``ended_at`` the last instant
    at which somebody missed one.
    """

    began_at = models.DateTimeField()
    ended_at = models.DateTimeField()

    class Meta:
        constraints = [
            # However many find the same silence, it is one row. Serves the search for the latest.
            models.UniqueConstraint(fields=["began_at"], name="outage_one_per_beginning")
        ]

    def __str__(self) -> str:
        return f"{self.began_at:%Y-%m-%d %H:%M:%S} to {self.ended_at:%H:%M:%S}"
