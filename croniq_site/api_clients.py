"""API clients that the environment declares: CRONIQ_API_CLIENT_<NAME>_KEY (or _KEY_FILE), _SCOPES and _TENANT."""

from __future__ import annotations

import re
from difflib import get_close_matches

import environ
from django.core.exceptions import ImproperlyConfigured

from croniq_site.configuration import names, secret, text_of
from runners.domain.keys import DeclaredClient, declared_key, fault_of_chosen
from runners.domain.scopes import SCOPES, unknown_scopes

PREFIX = "CRONIQ_API_CLIENT_"
_VARIABLE = re.compile(rf"({PREFIX}([A-Z0-9]+(?:_[A-Z0-9]+)*?))_(KEY_FILE|KEY|SCOPES|TENANT)", re.ASCII)
_SLUG = re.compile(r"[a-z0-9](?:[a-z0-9_-]{0,61}[a-z0-9])?", re.ASCII)


def declared_clients(env: environ.Env) -> tuple[DeclaredClient, ...]:
    """Return the clients that the variables declare, by name; the keys themselves are not in what is returned.

    ``CRONIQ_API_CLIENT_BILLING_RUNNER_…`` is the client ``billing-runner``. Raises ImproperlyConfigured with the name
    of the variable, and without its value.
    """
    found: dict[str, str] = {}
    for variable, value in env.ENVIRON.items():
        if variable.startswith(PREFIX) and value.strip():
            match = _VARIABLE.fullmatch(variable)
            if match is None:
                raise ImproperlyConfigured(
                    f"{variable}: this is none of {PREFIX}NAME_KEY, _KEY_FILE, _SCOPES and _TENANT, with a NAME of "
                    "A-Z, 0-9 and _."
                )
            found[match[1]] = match[2].lower().replace("_", "-")
    clients = [_client(env, variable, name) for variable, name in sorted(found.items())]
    seen: dict[str, str] = {}
    for client in clients:
        for key in client.keys:
            other = seen.setdefault(key.digest, client.variable)
            if other != client.variable:
                raise ImproperlyConfigured(f"{client.variable}_KEY: {other}_KEY has this key already.")
    return tuple(clients)


def _client(env: environ.Env, variable: str, name: str) -> DeclaredClient:
    # Several keys, all of them live, are how a key is changed without a pause.
    raw_keys = [part.strip() for part in (secret(env, f"{variable}_KEY") or "").split(",") if part.strip()]
    if not raw_keys:
        raise ImproperlyConfigured(
            f"{variable}_KEY: the API client {name!r} has no key. Set it or {variable}_KEY_FILE."
        )
    for raw_key in raw_keys:
        if fault := fault_of_chosen(raw_key):
            raise ImproperlyConfigured(f"{variable}_KEY: {fault}")
    tenant = text_of(env, f"{variable}_TENANT")
    if tenant is not None and not _SLUG.fullmatch(tenant):
        raise ImproperlyConfigured(f"{variable}_TENANT: {tenant!r} is not 1 to 63 of a-z, 0-9, - and _.")
    keys = dict.fromkeys(declared_key(raw_key) for raw_key in raw_keys)
    return DeclaredClient(variable, name, _scopes(env, f"{variable}_SCOPES"), tenant, tuple(keys))


def _scopes(env: environ.Env, variable: str) -> tuple[str, ...]:
    scopes = sorted(set(names(env, variable, default=[])))
    if not scopes:
        raise ImproperlyConfigured(f"{variable}: name at least one of {', '.join(sorted(SCOPES))}.")
    for scope in unknown_scopes(scopes):
        near = get_close_matches(scope, SCOPES, n=1, cutoff=0.5)
        hint = f" Did you mean {near[0]}?" if near else ""
        raise ImproperlyConfigured(f"{variable}: {scope!r} is no scope.{hint}")
    return tuple(scopes)
