"""API clients that the environment declares: the tables are made to say what the variables say."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime

from django.db import IntegrityError

from croniq_site.kernel.database import one_at_a_time, write_transaction
from croniq_site.kernel.errors import Conflict
from runners.domain.keys import DeclaredClient
from runners.models import ApiClient, ApiKey
from runners.services.access import access_changed
from runners.services.audit import Actor, Event, record_events

ENVIRONMENT = "environment"
"""`ApiClient.managed_by` of what is declared so."""
ACTOR = Actor("system", ENVIRONMENT)
LOCK = 0x43524B59
"""Number of the lock under which servers that start at once apply what they were told one after the other."""


def apply_declared(declared: Sequence[DeclaredClient], now: datetime) -> list[str]:
    """Make, change and end clients and keys until they are the declared ones; return what changed, without any key.

    Of a declared client exactly the declared keys open: another value ends the old one at once. A client that was
    declared and is not any more is switched off. The same again changes nothing. Raises Conflict, naming the variable,
    for a client of that name that somebody made by hand (`client_exists`), one of another tenant (`client_tenant`) and
    a key of another client (`key_exists`); nothing is changed then.
    """
    try:
        with write_transaction(), one_at_a_time(LOCK):
            events = [event for client in declared for event in _apply(client, now)]
            events += _switch_off({client.name for client in declared})
            if events:
                record_events(events, now)
                access_changed()
    except IntegrityError:
        raise Conflict("Somebody made one of the declared API clients at this moment. Try again.") from None
    return [f"{event.action} {event.target_id}" for event in events]


def _apply(declared: DeclaredClient, now: datetime) -> list[Event]:
    client = ApiClient.objects.select_for_update(no_key=True).filter(name=declared.name).first()
    if client is None:
        client = ApiClient.objects.create(
            name=declared.name,
            tenant=declared.tenant,
            scopes=list(declared.scopes),
            created_at=now,
            managed_by=ENVIRONMENT,
        )
        events = [_event("api_client.created", client, {"scopes": client.scopes})]
    else:
        events = _change(client, declared)
    return [*events, *_keys(client, declared, now)]


def _change(client: ApiClient, declared: DeclaredClient) -> list[Event]:
    if client.managed_by != ENVIRONMENT:
        raise Conflict(
            f"{declared.variable}_KEY: there is an API client {client.name!r} that was made by hand. Rename it, or "
            "declare another name.",
            code="client_exists",
        )
    if client.tenant != declared.tenant:
        raise Conflict(
            f"{declared.variable}_TENANT: the API client {client.name!r} was made for "
            f"{'all tenants' if client.tenant is None else f'the tenant {client.tenant}'} and stays so. "
            "Declare another name.",
            code="client_tenant",
        )
    values = {"scopes": list(declared.scopes), "is_active": True}
    diff = {name: [getattr(client, name), value] for name, value in values.items() if getattr(client, name) != value}
    if not diff:
        return []
    ApiClient.objects.filter(pk=client.pk).update(**values)
    return [_event("api_client.updated", client, diff)]


def _keys(client: ApiClient, declared: DeclaredClient, now: datetime) -> list[Event]:
    wanted = {key.digest: key for key in declared.keys}
    there = {key.digest: key for key in ApiKey.objects.filter(digest__in=wanted)}
    events = []
    for digest, key in wanted.items():
        row = there.get(digest)
        if row is None:
            ApiKey.objects.create(client=client, prefix=key.prefix, digest=digest, created_at=now)
        elif row.client_id != client.pk:
            raise Conflict(f"{declared.variable}_KEY: another API client has this key.", code="key_exists")
        elif row.revoked_at is None:
            continue
        else:  # a deployment that was taken back
            ApiKey.objects.filter(pk=row.pk).update(revoked_at=None)
        events.append(_event("api_key.issued", client, {"prefix": key.prefix}))
    old = ApiKey.objects.filter(client=client, revoked_at__isnull=True).exclude(digest__in=wanted)
    for row in old.select_for_update(no_key=True).order_by("pk"):
        ApiKey.objects.filter(pk=row.pk).update(revoked_at=now)
        events.append(_event("api_key.revoked", client, {"prefix": row.prefix}))
    return events


def _switch_off(names: Iterable[str]) -> list[Event]:
    gone = ApiClient.objects.filter(managed_by=ENVIRONMENT, is_active=True).exclude(name__in=list(names))
    clients = list(gone.select_for_update(no_key=True).order_by("pk"))
    ApiClient.objects.filter(pk__in=[client.pk for client in clients]).update(is_active=False)
    return [_event("api_client.updated", client, {"is_active": [True, False]}) for client in clients]


def _event(action: str, client: ApiClient, diff: dict) -> Event:
    return Event(action, "api_client", client.name, ACTOR, client.tenant or "", diff)
