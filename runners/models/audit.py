"""What happened, by whom: append-only."""

from django.db import models


class AuditEvent(models.Model):
    """One event. Rare faults (takeovers, losses, burials, refused identities) are counted from these rows."""

    event_id = models.UUIDField(unique=True)
    created_at = models.DateTimeField()
    actor_type = models.CharField(max_length=32, help_text="api_client, user, runner or system")
    actor_id = models.CharField(max_length=255, blank=True)
    action = models.CharField(max_length=64, help_text="for instance job.updated or runner.identity_rejected")
    target_type = models.CharField(max_length=32)
    target_id = models.CharField(max_length=255)
    tenant = models.CharField(max_length=63, blank=True)
    diff = models.JSONField(default=dict)

    class Meta:
        indexes = [
            # Serves the newest-first list and retention.
            models.Index(fields=["created_at", "id"], name="audit_by_time"),
            # Serves the history of one thing.
            models.Index(fields=["target_type", "target_id", "id"], name="audit_by_target"),
            # Serves counters of rare events and the filter by action.
            models.Index(fields=["action", "id"], name="audit_by_action"),
        ]

    def __str__(self) -> str:
        return f"{self.action} {self.target_id}"
