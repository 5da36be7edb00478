"""/v1/api-clients and /v1/api-keys: who may call the API.

Who administers clients gives nobody more than it has: neither scopes that it lacks nor a key of a client that has them.
A client with a tenant sees and makes clients of that tenant alone.
"""

from __future__ import annotations

from datetime import timedelta

from rest_framework.request import Request
from rest_framework.response import Response

from croniq_site.kernel.errors import InvalidInput, NotFound
from runners.api.parameters import number_of
from runners.api.views import ApiView
from runners.models import ApiClient, ApiKey
from runners.queries.clients import client_list, client_of_id, key_list, key_of_id
from runners.services.clients import (
    create_client,
    edit_client,
    make_key,
    refuse_more_than,
    revoke_keys,
    rotate_key,
)
from scheduler.api import clients_schema, openapi, wire
from scheduler.api.paging import list_answer
from scheduler.api.views.audit import pk_part
from scheduler.api.views.jobs import actor_of
from scheduler.domain.inputs import flag_of, name_of, names_of, seconds_of, slug_of, whole_number_of
from scheduler.domain.job_fields import refuse_unknown

GRACE_SECONDS = 3600.0
MOST_ID = 2**63 - 1


def client_body(client: ApiClient) -> wire.Body:
    return {
        "id": client.pk,
        "name": client.name,
        "tenant": client.tenant,
        "scopes": client.scopes,
        "is_active": client.is_active,
        "managed_by": client.managed_by,
        "created_at": wire.instant(client.created_at),
    }


def key_body(key: ApiKey) -> wire.Body:
    return {
        "id": key.pk,
        "client_id": key.client_id,
        "client": key.client.name,
        "prefix": key.prefix,
        "created_at": wire.instant(key.created_at),
        "expires_at": wire.instant(key.expires_at),
        "revoked_at": wire.instant(key.revoked_at),
        "last_used_at": wire.instant(key.last_used_at),
    }


def client_or_404(view: ApiView, client_id: int) -> ApiClient:
    """Return a client that the caller sees; whether he may change it the services say, under its lock."""
    client = client_of_id(client_id, view.principal.tenant)
    if client is None:
        raise NotFound(f"There is no API client {client_id}.")
    return client


def key_or_404(view: ApiView, text: str) -> ApiKey:
    key = key_of_id(id_in_path(text, "API key"), view.principal.tenant)
    if key is None:
        raise NotFound(f"There is no API key {text}.")
    refuse_more_than(view.principal, key.client.scopes)
    return key


def id_in_path(text: str, what: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= 19 and int(text) <= MOST_ID):
        raise NotFound(f"There is no such {what}.")
    return int(text)


class ApiClients(ApiView):
    required_scope = {"GET": "api-clients:admin", "POST": "api-clients:admin"}

    @openapi.documented(
        "listApiClients",
        "The API clients, by name.",
        {200: openapi.listed(clients_schema.ApiClientAnswer)},
        parameters=[*openapi.PAGING],
        refuses=(400,),
    )
    def get(self, request: Request) -> Response:
        return list_answer(
            request,
            lambda limit, after: client_list(
                tenant=self.principal.tenant, limit=limit, after=after[0] if after else ""
            ),
            body=client_body,
            key=lambda client: (client.name,),
            key_parts=(str,),
        )

    @openapi.documented(
        "createApiClient",
        "Make an API client; its keys are made at /v1/api-keys.",
        {201: clients_schema.ApiClientAnswer},
        body=clients_schema.ApiClientBody,
        refuses=(400, 409, 413),
    )
    def post(self, request: Request) -> Response:
        refuse_unknown(self.body, {"name", "tenant", "scopes"})
        scopes = names_of("scopes", self.body.get("scopes"))
        refuse_more_than(self.principal, scopes)
        own = self.principal.tenant
        tenant = self.body.get("tenant", own)
        if tenant is not None:
            tenant = slug_of("tenant", tenant)
        if own is not None and tenant != own:
            raise InvalidInput.of("tenant", f"A client of the tenant {own!r} makes clients of that tenant.")
        name = name_of("name", self.body.get("name"))
        client = create_client(name, scopes, self.now, tenant=tenant, actor=actor_of(self))
        return Response(client_body(client), status=201)


class OneApiClient(ApiView):
    required_scope = {"GET": "api-clients:admin", "PUT": "api-clients:admin"}

    @openapi.documented("getApiClient", "One API client.", {200: clients_schema.ApiClientAnswer}, refuses=(404,))
    def get(self, request: Request, client_id: str) -> Response:
        client = client_of_id(id_in_path(client_id, "API client"), self.principal.tenant)
        if client is None:
            raise NotFound(f"There is no API client {client_id}.")
        return Response(client_body(client))

    @openapi.documented(
        "editApiClient",
        "Change what a client is called, what it may do, or whether it may do anything. What is not named stays.",
        {200: clients_schema.ApiClientAnswer},
        body=clients_schema.ApiClientBody,
        refuses=(400, 404, 409, 413),
    )
    def put(self, request: Request, client_id: str) -> Response:
        client = client_or_404(self, id_in_path(client_id, "API client"))
        refuse_unknown(self.body, {"name", "tenant", "scopes", "is_active"})
        if self.body.get("tenant", client.tenant) != client.tenant:
            raise InvalidInput.of("tenant", "A client stays its tenant's; make another one.")
        readers = {"name": name_of, "scopes": names_of, "is_active": flag_of}
        values = {field: readers[field](field, self.body[field]) for field in readers if field in self.body}
        edited = edit_client(client.pk, self.now, **values, actor=actor_of(self), by=self.principal)
        return Response(client_body(edited))


class ApiKeys(ApiView):
    required_scope = {"GET": "api-clients:admin", "POST": "api-clients:admin"}

    @openapi.documented(
        "listApiKeys",
        "The API keys, newest first: what they begin with, never the keys themselves.",
        {200: openapi.listed(clients_schema.ApiKeyAnswer)},
        parameters=[openapi.number_query("client_id", 10**18 - 1), *openapi.PAGING],
        refuses=(400,),
    )
    def get(self, request: Request) -> Response:
        client_id = number_of(request, "client_id", default=None, most=10**18 - 1)
        return list_answer(
            request,
            lambda limit, before: key_list(
                tenant=self.principal.tenant, client_id=client_id, limit=limit, before=before[0] if before else None
            ),
            body=key_body,
            key=lambda key: (key.pk,),
            key_parts=(pk_part,),
        )

    @openapi.documented(
        "createApiKey",
        "Make one more key for a client. It is shown in this answer and never again.",
        {201: clients_schema.NewApiKeyAnswer},
        body=clients_schema.ApiKeyBody,
        refuses=(400, 404, 409, 413),
    )
    def post(self, request: Request) -> Response:
        refuse_unknown(self.body, {"client_id", "expires_in"})
        client_id = whole_number_of("client_id", self.body.get("client_id"), 1, MOST_ID)
        lifetime = self.body.get("expires_in")
        seconds = None if lifetime is None else seconds_of("expires_in", lifetime)
        client = client_or_404(self, client_id)
        expires_at = None if seconds is None else self.now + timedelta(seconds=seconds)
        key, raw = make_key(client, self.now, expires_at=expires_at, actor=actor_of(self), by=self.principal)
        return Response({**key_body(key), "key": raw}, status=201)


class OneApiKey(ApiView):
    required_scope = {"DELETE": "api-clients:admin"}

    @openapi.documented(
        "revokeApiKey",
        "Let a key open nothing any more, at once and for good. Again is 204.",
        {204: None},
        refuses=(404, 409),
    )
    def delete(self, request: Request, key_id: str) -> Response:
        revoke_keys([key_or_404(self, key_id).pk], self.now, actor=actor_of(self))
        return Response(status=204)


class RotateApiKey(ApiView):
    required_scope = {"POST": "api-clients:admin"}

    @openapi.documented(
        "rotateApiKey",
        "Make a key that takes the place of this one, which goes on for grace, an hour by default.",
        {201: clients_schema.NewApiKeyAnswer},
        body=clients_schema.RotateBody,
        refuses=(400, 404, 409, 413),
    )
    def post(self, request: Request, key_id: str) -> Response:
        refuse_unknown(self.body, {"grace"})
        grace = self.body.get("grace")
        seconds = GRACE_SECONDS if grace is None else seconds_of("grace", grace)
        old = key_or_404(self, key_id)
        key, raw = rotate_key(old.pk, self.now, timedelta(seconds=seconds), actor=actor_of(self), by=self.principal)
        return Response({**key_body(key), "key": raw}, status=201)
