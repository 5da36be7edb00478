"""How often rare things happened: counts that no pruning of what they count can lower."""

from django.db import models


class Tally(models.Model):
    """``count`` events of a kind. A row is appended in the transaction of the event and waits for nobody; the reaper
    folds many rows into one of the same sum. The truth is the sum of all rows, at any moment."""

    class Kind(models.TextChoices):
        """What is counted; in parentheses what ``label`` says."""

        TAKEOVER = "takeover"
        FLAPPING = "flapping"
        IDENTITY_REJECTED = "identity_rejected"
        LOST = "lost"  # (cause)
        BURIED = "buried"
        SKIPPED = "skipped"  # (reason)
        FAILED = "failed"  # runs of ``job_id`` that ended without success (verdict)
        LATE_WORD = "late_word"  # (ack, renew or events)

    kind = models.CharField(max_length=32, choices=Kind.choices)
    label = models.CharField(max_length=64, blank=True)
    # No foreign key: it would share the job's row with every failure, and an edit would wait for those.
    job_id = models.BigIntegerField(null=True, blank=True)
    count = models.PositiveBigIntegerField()

    class Meta:
        verbose_name_plural = "tallies"
        constraints = [models.CheckConstraint(condition=models.Q(count__gte=1), name="tally_counts_something")]

    def __str__(self) -> str:
        return f"{self.count} {self.kind} {self.label}".strip()
