"""API clients and their keys."""

from django.db import models
from django.db.models.functions import Length
from django.db.models.lookups import Exact


class ApiClient(models.Model):
    """Somebody who may call the API: a name, a tenant (None serves all tenants), scopes."""

    name = models.CharField(max_length=255)
    tenant = models.SlugField(max_length=63, null=True, blank=True, db_index=False)
    scopes = models.JSONField(default=list)
    is_active = models.BooleanField(default=True)
    created_at = models.DateTimeField()
    managed_by = models.CharField(
        max_length=32,
        blank=True,
        default="",
        db_default="",
        help_text="who has the say in it and its keys: environment; empty: people",
    )

    class Meta:
        verbose_name = "API client"
        constraints = [models.UniqueConstraint(fields=["name"], name="api_client_one_per_name")]

    def __str__(self) -> str:
        return self.name


class ApiKey(models.Model):
    """One live or past key of a client. The key itself is never stored, only its SHA-256."""

    client = models.ForeignKey(ApiClient, on_delete=models.CASCADE, related_name="keys")
    prefix = models.CharField(max_length=12, help_text="The first 12 characters, to recognise the key by.")
    digest = models.CharField(max_length=64, help_text="SHA-256 of the key, hexadecimal.")
    created_at = models.DateTimeField()
    expires_at = models.DateTimeField(null=True, blank=True)
    lives_for = models.DurationField(
        null=True, blank=True, help_text="what it was made for, whatever a rotation left of it; null: for good"
    )
    revoked_at = models.DateTimeField(null=True, blank=True)
    last_used_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        verbose_name = "API key"
        constraints = [
            # Serves the look-up of every request's key.
            models.UniqueConstraint(fields=["digest"], name="api_key_one_per_digest"),
            models.CheckConstraint(condition=Exact(Length("digest"), 64), name="api_key_digest_is_sha256"),
        ]

    def __str__(self) -> str:
        return f"{self.prefix}…"
