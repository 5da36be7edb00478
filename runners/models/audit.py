"""What happened, by whom: append-only."""

from django.db import models
from django.db.models import Q


class AuditEvent(models.Model):
    """One event. Rows are only ever added: the database refuses to change them, and to delete one that is not older
    than the `AuditCut`."""

    event_id = models.UUIDField(unique=True)
    created_at = models.DateTimeField()
    actor_type = models.CharField(max_length=32, help_text="api_client, user, runner or system")
    actor_id = models.CharField(max_length=255, blank=True)
    action = models.CharField(max_length=64, help_text="for instance job.updated or runner.identity_rejected")
    target_type = models.CharField(max_length=32)
    target_id = models.CharField(max_length=255)
    tenant = models.CharField(max_length=63, blank=True)
    diff = models.JSONField(default=dict, help_text="field: [before, after]; whatever is no such pair explains it")
    request_id = models.CharField(
        max_length=64, blank=True, default="", db_default="", help_text="of the request that did it, if one did"
    )
    history = models.CharField(
        max_length=32, null=True, blank=True, help_text="whose definition changed, by its row, for instance job/17"
    )

    class Meta:
        indexes = [
            # Serves the newest-first list and retention.
            models.Index(fields=["created_at", "id"], name="audit_by_time"),
            # Serves what happened to one thing.
            models.Index(fields=["target_type", "target_id", "id"], name="audit_by_target"),
            # Serves counters of rare events and the filter by action.
            models.Index(fields=["action", "id"], name="audit_by_action"),
            # Serves the history of a definition; null for other events: what SQLite finds such an index by.
            models.Index(fields=["history", "id"], name="audit_by_history", condition=Q(history__isnull=False)),
        ]

    def __str__(self) -> str:
        return f"{self.action} {self.target_id}"


class AuditCut(models.Model):
    """Until when the audit was thrown away: one row, which retention moves. Events before it may be deleted; the
    database's triggers look here."""

    until = models.DateTimeField(help_text="exclusive; of the events before it some or all are gone")

    def __str__(self) -> str:
        return f"until {self.until:%Y-%m-%d %H:%M}"
