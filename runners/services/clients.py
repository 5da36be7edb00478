"""API clients and their keys."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Iterable
from datetime import datetime

from django.db import IntegrityError

from croniq_site.kernel.database import write_transaction
from croniq_site.kernel.errors import Conflict, InvalidInput
from croniq_site.kernel.text import is_printable_name
from runners.domain.scopes import unknown_scopes
from runners.models import ApiClient, ApiKey

KEY_START = "croniq_"
PREFIX_LENGTH = 12


def create_client(name: str, scopes: Iterable[str], now: datetime, *, tenant: str | None = None) -> ApiClient:
    """Make an API client. Refuses unknown scopes and a name that is taken (`Conflict` ``client_exists``)."""
    scopes = sorted(set(scopes))
    if not is_printable_name(name):
        raise InvalidInput.of("name", "A name has 1 to 255 printable characters.")
    if unknown := unknown_scopes(scopes):
        raise InvalidInput.of("scopes", f"Unknown scopes: {', '.join(unknown)}.")
    if not scopes:
        raise InvalidInput.of("scopes", "A client without any scope can do nothing; name at least one.")
    try:
        with write_transaction():
            return ApiClient.objects.create(name=name, tenant=tenant, scopes=scopes, created_at=now)
    except IntegrityError:
        raise Conflict(f"There is an API client named {name!r} already.", code="client_exists") from None


def issue_key(client: ApiClient, now: datetime, *, expires_at: datetime | None = None) -> str:
    """Make one more key for ``client`` and return it. It is shown this once: only its digest is kept."""
    raw = KEY_START + secrets.token_urlsafe(32)
    ApiKey.objects.create(
        client=client, prefix=raw[:PREFIX_LENGTH], digest=digest_of(raw), created_at=now, expires_at=expires_at
    )
    return raw


def digest_of(raw_key: str) -> str:
    """SHA-256, hexadecimal. A key is 256 random bits: there is nothing for a slow hash to slow down."""
    return hashlib.sha256(raw_key.encode("utf-8", "surrogatepass")).hexdigest()
