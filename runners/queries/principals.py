"""Whose key is this?"""

from __future__ import annotations

from datetime import datetime

from django.db.models import Q

from runners.domain.scopes import Principal
from runners.models import ApiKey
from runners.services.clients import KEY_START, digest_of


def raw_key_of(authorization: str) -> str | None:
    """Return the key in an ``Authorization`` header (``ApiKey …`` or ``Bearer …``), None where there is none."""
    scheme, _, value = authorization.strip().partition(" ")
    value = value.strip()
    return value if scheme.lower() in ("apikey", "bearer") and value.startswith(KEY_START) else None


def principal_of(raw_key: str, now: datetime) -> Principal | None:
    """Return whose ``raw_key`` is; None if it is unknown, expired or revoked, or its client inactive."""
    key = live_key(raw_key, now)
    return None if key is None else principal_from(key)


def live_key(raw_key: str, now: datetime) -> ApiKey | None:
    """Return the key with its client; None if it is unknown, expired or revoked, or its client inactive."""
    return (
        ApiKey.objects.select_related("client")
        .filter(Q(expires_at__isnull=True) | Q(expires_at__gt=now))
        .filter(digest=digest_of(raw_key), revoked_at__isnull=True, client__is_active=True)
        .first()
    )


def principal_from(key: ApiKey) -> Principal:
    client = key.client
    return Principal(client_id=client.pk, name=client.name, tenant=client.tenant, scopes=frozenset(client.scopes))
