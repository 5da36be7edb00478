"""Whose key is this?"""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime

from django.db.models import Q, QuerySet

from croniq_site.kernel.database import IDS_PER_QUERY, chunks
from runners.domain.keys import KEY_START, digest_of
from runners.domain.scopes import Principal
from runners.models import ApiKey


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
    return _live_keys(now).filter(digest=digest_of(raw_key)).first()


def live_principals(key_ids: Collection[int], now: datetime) -> dict[int, Principal]:
    """Return whose these keys are, by their ids, without those that open nothing any more."""
    found: dict[int, Principal] = {}
    for some in chunks(sorted(key_ids), IDS_PER_QUERY):
        found |= {key.pk: principal_from(key) for key in _live_keys(now).filter(pk__in=some)}
    return found


def principal_from(key: ApiKey) -> Principal:
    client = key.client
    return Principal(client.pk, client.name, client.tenant, frozenset(client.scopes), key.pk, key.expires_at)


def _live_keys(now: datetime) -> QuerySet[ApiKey]:
    return ApiKey.objects.select_related("client").filter(
        Q(expires_at__isnull=True) | Q(expires_at__gt=now), revoked_at__isnull=True, client__is_active=True
    )
