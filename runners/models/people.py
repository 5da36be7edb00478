"""How often somebody tried to sign in, and how he likes to see pages."""

from django.conf import settings
from django.db import models


class SignInCount(models.Model):
    """Attempts from one address, or for one name, since ``began_at``. Rows, so that every server counts the same."""

    key = models.CharField(max_length=64, help_text="address:…, or account: and the digest of a name")
    attempts = models.PositiveIntegerField(default=0)
    began_at = models.DateTimeField()
    refused_at = models.DateTimeField(null=True, blank=True, help_text="the first refusal since then")

    class Meta:
        constraints = [
            # Serves every attempt.
            models.UniqueConstraint(fields=["key"], name="sign_in_count_one_per_key")
        ]
        indexes = [
            # Serves the forgetting of those that are over.
            models.Index(fields=["began_at"], name="sign_in_count_by_time")
        ]

    def __str__(self) -> str:
        return self.key


class Preferences(models.Model):
    """How somebody likes to see pages, and what he still has to do. Whoever has chosen nothing has no row."""

    user = models.OneToOneField(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, primary_key=True, related_name="preferences"
    )
    time_zone = models.CharField(
        max_length=64, blank=True, help_text="in which instants are shown; empty: the browser's"
    )
    must_change_password = models.BooleanField(
        default=False, db_default=False, help_text="somebody else made it: nothing opens before it is changed"
    )

    class Meta:
        verbose_name_plural = "preferences"

    def __str__(self) -> str:
        return self.time_zone
