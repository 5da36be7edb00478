"""Who may call the API: clients, what they may do, and their keys, each shown once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import render
from django.utils.translation import gettext as _

from croniq_site.kernel.errors import Conflict, InvalidInput, NotFound
from runners.api.sessions import person_of
from runners.domain.scopes import RUNNER_SCOPES, SCOPES
from runners.models import ApiClient, ApiKey
from runners.queries.clients import client_list, client_of_id, key_list, key_of_id
from runners.services.clients import create_client, edit_client, make_key, refuse_more_than, revoke_keys, rotate_key
from scheduler.dashboard.pages import action, actor_of, address, form, or_message, text_in
from scheduler.dashboard.refusals import errors_of
from scheduler.domain.inputs import name_of, seconds_of, slug_of

CLIENTS = "runners.change_apikey"
"""The permission that the scope api-clients:admin is for people."""
PAGE_ROWS = 100
MOST_KEYS = 100
GRACE = "1h"


@dataclass(frozen=True)
class KeyLine:
    """``status`` is live, ending (it will expire), expired or revoked."""

    key: ApiKey
    status: str


@form(needs=CLIENTS)
def clients_page(request: HttpRequest, now: datetime) -> HttpResponse:
    """The clients; a POST makes one and leads to it."""
    texts: dict[str, Any] = {"name": "", "tenant": "", "scopes": []}
    errors: dict[str, str] = {}
    if request.method == "POST":
        texts = _texts_of(request)
        try:
            return HttpResponseRedirect(address("settings-client", client_id=_made(request, texts, now).pk))
        except (InvalidInput, Conflict) as refused:
            errors = _errors_of(refused, "name")
    after = text_in(request, "after")
    clients = client_list(limit=PAGE_ROWS + 1, after=after)
    more = address("settings-clients", {"after": clients[PAGE_ROWS - 1].name}) if len(clients) > PAGE_ROWS else ""
    context = {"clients": clients[:PAGE_ROWS], "more": more, "after": after, "errors": errors, "texts": texts}
    context |= {"scopes": _scopes(texts["scopes"]), "runner_scopes": ", ".join(RUNNER_SCOPES)}
    return render(request, "settings/clients.html", context, status=400 if errors else 200)


@form(needs=CLIENTS)
def client_page(request: HttpRequest, now: datetime, client_id: int) -> HttpResponse:
    """One client with its keys; a POST changes what it is called and may do."""
    client, errors = _client_or_404(client_id), {}
    texts: dict[str, Any] = {"name": client.name, "scopes": client.scopes, "is_active": client.is_active}
    if request.method == "POST":
        texts = _texts_of(request)
        try:
            values = {name: texts[name] for name in ("scopes", "is_active")}
            values["name"] = texts["name"]
            _refuse_all(lambda: name_of("name", texts["name"]), lambda: _some(texts["scopes"]))
            by = person_of(request.user)
            edit_client(client_id, now, **values, actor=actor_of(request), by=by)
        except (InvalidInput, Conflict) as refused:
            errors = _errors_of(refused, "name")
        else:
            messages.success(request, _("Saved. It holds from the next request on, in every server."))
            return HttpResponseRedirect(address("settings-client", client_id=client_id))
    return _client_answer(request, now, client, texts=texts, errors=errors, status=400 if errors else 200)


@action(needs=CLIENTS)
def new_key(request: HttpRequest, now: datetime, client_id: int) -> HttpResponse:
    """Make a key and show it, this once: it is in this answer and nowhere else."""
    client = _client_or_404(client_id)
    text = request.POST.get("expires_in", "").strip()
    try:
        expires_at = now + timedelta(seconds=seconds_of("expires_in", text)) if text else None
        key, raw = make_key(
            client,
            now,
            expires_at=expires_at,
            actor=actor_of(request),
            by=person_of(request.user),
            newest=_newest_of(request),
        )
    except (InvalidInput, Conflict) as refused:
        errors = _errors_of(refused, "expires_in")
        return _client_answer(request, now, client, errors=errors, expires_in=text, status=400)
    return _client_answer(request, now, client, made=key, raw=raw)


@action(needs=CLIENTS)
def rotate(request: HttpRequest, now: datetime, key_id: int) -> HttpResponse:
    """Make a key that takes the place of another one, and show it this once."""
    old = _key_or_404(key_id)
    text = request.POST.get("grace", "").strip() or GRACE
    try:
        key, raw = rotate_key(
            key_id,
            now,
            timedelta(seconds=seconds_of("grace", text)),
            actor=actor_of(request),
            by=person_of(request.user),
            newest=_newest_of(request),
        )
    except (InvalidInput, Conflict) as refused:
        return _client_answer(request, now, old.client, errors=_errors_of(refused, "grace"), status=400)
    return _client_answer(request, now, old.client, made=key, raw=raw, replaced=_key_or_404(key_id))


@action(needs=CLIENTS)
def revoke(request: HttpRequest, now: datetime, key_id: int) -> str:
    key = _key_or_404(key_id)
    refuse_more_than(person_of(request.user), key.client.scopes)
    if or_message(request, lambda: revoke_keys([key_id], now, actor=actor_of(request)) or True):
        messages.success(request, _("{prefix}… opens nothing any more.").format(prefix=key.prefix))
    return address("settings-client", client_id=key.client_id)


def _made(request: HttpRequest, texts: dict[str, Any], now: datetime) -> ApiClient:
    refuse_more_than(person_of(request.user), texts["scopes"])
    tenant = texts["tenant"] or None
    _refuse_all(
        lambda: name_of("name", texts["name"]),
        lambda: slug_of("tenant", tenant) if tenant else None,
        lambda: _some(texts["scopes"]),
    )
    return create_client(texts["name"], texts["scopes"], now, tenant=tenant, actor=actor_of(request))


def _some(scopes: list[str]) -> None:
    if not scopes:
        raise InvalidInput.of("scopes", _("It may do nothing yet: tick at least one."))


def _refuse_all(*checks: Callable[[], Any]) -> None:
    """Refuse with all that is wrong, not only with what comes first."""
    wrong: dict[str, list[str]] = {}
    for check in checks:
        try:
            check()
        except InvalidInput as refused:
            wrong |= refused.fields
    if wrong:
        raise InvalidInput(" ".join(told[0] for told in wrong.values()), fields=wrong)


def _client_answer(
    request: HttpRequest,
    now: datetime,
    client: ApiClient,
    *,
    texts: dict[str, Any] | None = None,
    errors: dict[str, str] | None = None,
    expires_in: str = "90d",
    made: ApiKey | None = None,
    raw: str = "",
    replaced: ApiKey | None = None,
    status: int = 200,
) -> HttpResponse:
    keys = key_list(client_id=client.pk, limit=MOST_KEYS + 1, before=None)
    texts = texts or {"name": client.name, "scopes": client.scopes, "is_active": client.is_active}
    context = {
        "client": client,
        "texts": texts,
        "errors": errors or {},
        "scopes": _scopes(texts["scopes"]),
        "keys": [KeyLine(key, _status_of(key, now)) for key in keys[:MOST_KEYS]],
        "is_cut": len(keys) > MOST_KEYS,
        "newest": keys[0].pk if keys else 0,
        "expires_in": expires_in,
        "grace": GRACE,
        "made": made,
        "raw": raw,
        "replaced": replaced,
    }
    return render(request, "settings/client.html", context, status=status)


def _status_of(key: ApiKey, now: datetime) -> str:
    if key.revoked_at is not None:
        return "revoked"
    if key.expires_at is None:
        return "live"
    return "ending" if key.expires_at > now else "expired"


def _scopes(chosen: list[str]) -> list[tuple[str, bool]]:
    return [(scope, scope in chosen) for scope in sorted(SCOPES)]


def _texts_of(request: HttpRequest) -> dict[str, Any]:
    return {
        "name": request.POST.get("name", "").strip(),
        "tenant": request.POST.get("tenant", "").strip(),
        "scopes": request.POST.getlist("scopes"),
        "is_active": request.POST.get("is_active") == "on",
    }


def _newest_of(request: HttpRequest) -> int:
    """The newest key of the client as the page showed it."""
    text = request.POST.get("newest", "")
    if not (text.isascii() and text.isdigit() and len(text) <= 18):
        raise InvalidInput.of("newest", _("Use the form of the page: it says which keys were seen."))
    return int(text)


def _errors_of(refused: InvalidInput | Conflict, field: str) -> dict[str, str]:
    """What was wrong, by field; what is wrong with the whole is said at ``field``."""
    return errors_of(refused, whole=field)


def _client_or_404(client_id: int) -> ApiClient:
    client = client_of_id(client_id)
    if client is None:
        raise NotFound(_("There is no such API client."))
    return client


def _key_or_404(key_id: int) -> ApiKey:
    key = key_of_id(key_id)
    if key is None:
        raise NotFound(_("There is no such API key."))
    return key
