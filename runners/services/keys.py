"""A key at the door: whose it is, and that it is in use."""

from __future__ import annotations

import logging
from datetime import datetime, timedelta

from django.db import DatabaseError
from django.db.models import Q

from runners.domain.scopes import Principal
from runners.models import ApiKey
from runners.queries.principals import live_key, principal_from

_log = logging.getLogger(__name__)

NOTE_USE_EVERY = timedelta(minutes=1)


def recognise(raw_key: str, now: datetime) -> Principal | None:
    """Return whose ``raw_key`` is, and note at most once a minute that it is used; None for one that opens nothing.

    A database that cannot be written lets its keys in all the same.
    """
    key = live_key(raw_key, now)
    if key is None:
        return None
    if is_use_news(key, now):
        try:
            note_use(key.pk, now)
        except DatabaseError:
            _log.warning("It cannot be noted that the key %s… was used.", key.prefix, exc_info=True)
    return principal_from(key)


def is_use_news(key: ApiKey, now: datetime) -> bool:
    """True where nobody has noted for a minute that the key is in use."""
    return key.last_used_at is None or key.last_used_at <= now - NOTE_USE_EVERY


def note_use(key_id: int, now: datetime) -> None:
    """Note that the key was used, unless somebody else has for this minute."""
    unnoted = Q(last_used_at__isnull=True) | Q(last_used_at__lte=now - NOTE_USE_EVERY)
    ApiKey.objects.filter(unnoted, pk=key_id).update(last_used_at=now)
