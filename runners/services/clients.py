"""API clients and their keys."""

from __future__ import annotations

import secrets
from collections.abc import Collection, Iterable
from datetime import datetime, timedelta

from django.db import IntegrityError

from croniq_site.kernel.database import write_transaction
from croniq_site.kernel.errors import Conflict, Forbidden, InvalidInput, NotFound
from croniq_site.kernel.suggestions import did_you_mean
from croniq_site.kernel.text import is_printable_name
from runners.domain.keys import KEY_START, PREFIX_LENGTH, digest_of
from runners.domain.scopes import SCOPES, Principal, unknown_scopes
from runners.models import ApiClient, ApiKey
from runners.services.access import access_changed
from runners.services.audit import SYSTEM, Actor, Event, record_events


def create_client(
    name: str, scopes: Iterable[str], now: datetime, *, tenant: str | None = None, actor: Actor = SYSTEM
) -> ApiClient:
    """Make an API client. Refuses unknown scopes and a name that is taken (`Conflict` ``client_exists``)."""
    scopes = _checked(name, scopes)
    try:
        with write_transaction():
            client = ApiClient.objects.create(name=name, tenant=tenant, scopes=scopes, created_at=now)
            record_events([_event("api_client.created", client, actor, {"scopes": scopes})], now)
            return client
    except IntegrityError:
        raise _taken(name) from None


def edit_client(
    client_id: int,
    now: datetime,
    *,
    name: str | None = None,
    scopes: Iterable[str] | None = None,
    is_active: bool | None = None,
    actor: Actor = SYSTEM,
    by: Principal | None = None,
) -> ApiClient:
    """Change what a client is called and may do; None stays as it is. Saving what is there already changes nothing.

    Its tenant never changes: what it owns is that tenant's. Raises as `create_client`, NotFound, and Forbidden where
    ``by`` has less than the client has or is to have.
    """
    try:
        with write_transaction():
            client = _locked(client_id, by)
            values = {
                "name": client.name if name is None else name,
                "scopes": client.scopes if scopes is None else sorted(set(scopes)),
                "is_active": client.is_active if is_active is None else is_active,
            }
            _checked(values["name"], values["scopes"])
            refuse_more_than(by, values["scopes"])
            diff = {
                key: [getattr(client, key), value] for key, value in values.items() if getattr(client, key) != value
            }
            if diff:
                for key, value in values.items():
                    setattr(client, key, value)
                client.save(update_fields=list(values))
                access_changed()
                record_events([_event("api_client.updated", client, actor, diff)], now)
            return client
    except IntegrityError:
        raise _taken(name) from None


def refuse_managed(client: ApiClient) -> None:
    """Raise Conflict ``managed_by_environment`` where the environment says what a client and its keys are."""
    if client.managed_by:
        raise Conflict(
            f"The API client {client.name!r} is declared by the variables CRONIQ_API_CLIENT_…: change them, and start "
            "the servers anew or run manage.py apply_api_clients.",
            code="managed_by_environment",
        )


def refuse_more_than(by: Principal | None, scopes: Iterable[str]) -> None:
    """Raise Forbidden where ``by`` would hand out, or have a hand in, scopes that it has not itself; None may all."""
    if by is not None and not by.may_grant(scopes):
        missing = ", ".join(sorted(scope for scope in scopes if not by.has(scope)))
        raise Forbidden(f"The {by.words} {by.name!r} cannot give what it has not: {missing}.")


def _locked(client_id: int, by: Principal | None) -> ApiClient:
    """Return the client, which stays as it is until the transaction's end; refuses one that has more than ``by``."""
    client = ApiClient.objects.select_for_update(no_key=True).filter(pk=client_id).first()
    if client is None:
        raise NotFound("This API client was deleted.")
    refuse_managed(client)
    refuse_more_than(by, client.scopes)
    return client


def issue_key(client: ApiClient, now: datetime, *, expires_at: datetime | None = None, actor: Actor = SYSTEM) -> str:
    """Make one more key for ``client`` and return it, as `make_key` does, without its row."""
    return make_key(client, now, expires_at=expires_at, actor=actor)[1]


def make_key(
    client: ApiClient,
    now: datetime,
    *,
    expires_at: datetime | None = None,
    actor: Actor = SYSTEM,
    by: Principal | None = None,
    newest: int | None = None,
) -> tuple[ApiKey, str]:
    """Make one more key for ``client``: its row and the key itself, shown this once; only its digest is kept.

    ``newest`` is the client's newest key as whoever asks saw it (0: none; None: he did not look). Refuses where there
    is a newer one by now (`Conflict` ``keys_changed``): a form that is sent twice makes one key.
    """
    with write_transaction():
        client = _locked(client.pk, by)
        _refuse_newer_than(newest, client)
        return _new_key(client, now, expires_at, "api_key.issued", actor)


def rotate_key(
    key_id: int,
    now: datetime,
    grace: timedelta,
    *,
    actor: Actor = SYSTEM,
    by: Principal | None = None,
    newest: int | None = None,
) -> tuple[ApiKey, str]:
    """Make a key that takes the place of another, which goes on for ``grace`` at most. Returns the new one.

    The new one lives as long as the old was made to, also when an answer was lost and the old is rotated again. Refuses
    an old one that opens nothing any more (`Conflict` ``key_ended``); raises NotFound, and as `edit_client` and
    `make_key`.
    """
    with write_transaction():
        old = (
            ApiKey.objects.select_for_update(of=("self",), no_key=True)
            .select_related("client")
            .filter(pk=key_id)
            .first()
        )
        if old is None:
            raise NotFound("There is no such API key.")
        if old.revoked_at is not None or (old.expires_at is not None and old.expires_at <= now):
            raise Conflict("This API key opens nothing any more; make a new one.", code="key_ended")
        client = _locked(old.client_id, by)
        _refuse_newer_than(newest, client)
        ends_at = now + grace
        if old.expires_at is None or ends_at < old.expires_at:
            ApiKey.objects.filter(pk=old.pk, revoked_at__isnull=True).update(expires_at=ends_at)
            access_changed()
        expires_at = None if old.lives_for is None else now + old.lives_for
        return _new_key(client, now, expires_at, "api_key.rotated", actor, {"replaces": old.prefix})


def _refuse_newer_than(newest: int | None, client: ApiClient) -> None:
    """Under the client's lock: whoever makes a key of it holds that."""
    if newest is not None and ApiKey.objects.filter(client=client, pk__gt=newest).exists():
        raise Conflict(
            "A key of this client was made since you looked, maybe by this very form. Nothing was done: look again.",
            code="keys_changed",
        )


def _new_key(
    client: ApiClient,
    now: datetime,
    expires_at: datetime | None,
    action: str,
    actor: Actor,
    more: dict[str, str] | None = None,
) -> tuple[ApiKey, str]:
    raw = KEY_START + secrets.token_urlsafe(32)
    key = ApiKey.objects.create(
        client=client,
        prefix=raw[:PREFIX_LENGTH],
        digest=digest_of(raw),
        created_at=now,
        expires_at=expires_at,
        lives_for=None if expires_at is None else expires_at - now,
    )
    diff = {"prefix": key.prefix, "expires_at": expires_at.isoformat() if expires_at else None, **(more or {})}
    record_events([_event(action, client, actor, diff)], now)
    return key, raw


def revoke_keys(key_ids: Collection[int], now: datetime, *, actor: Actor = SYSTEM) -> int:
    """Let these keys open nothing any more; return how many of them did until now. For good: there is no way back."""
    with write_transaction():
        keys = list(
            ApiKey.objects.select_for_update(of=("self",), no_key=True)
            .select_related("client")
            .filter(pk__in=key_ids, revoked_at__isnull=True)
            .order_by("pk")
        )
        for key in keys:
            refuse_managed(key.client)
        revoked = ApiKey.objects.filter(pk__in=[key.pk for key in keys], revoked_at__isnull=True).update(revoked_at=now)
        record_events((_event("api_key.revoked", key.client, actor, {"prefix": key.prefix}) for key in keys), now)
        access_changed()
        return revoked


def _checked(name: str, scopes: Iterable[str]) -> list[str]:
    scopes = sorted(set(scopes))
    if not is_printable_name(name):
        raise InvalidInput.of("name", "A name has 1 to 255 printable characters.")
    if unknown := unknown_scopes(scopes):
        hints = "".join(did_you_mean(scope, SCOPES) for scope in unknown[:3])
        raise InvalidInput.of("scopes", f"Unknown scopes: {', '.join(unknown)}.{hints}")
    if not scopes:
        raise InvalidInput.of("scopes", "A client without any scope can do nothing; name at least one.")
    return scopes


def _taken(name: str) -> Conflict:
    return Conflict(f"There is an API client named {name!r} already.", code="client_exists")


def _event(action: str, client: ApiClient, actor: Actor, diff: dict) -> Event:
    return Event(action, "api_client", client.name, actor, client.tenant or "", diff)
