"""CRONIQ_OIDC_…: the OpenID provider whose people may sign in; nothing of it is set: none."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import urlsplit

import environ
from django.core.exceptions import ImproperlyConfigured

from croniq_site.configuration import names, secret, text_of
from runners.domain.roles import ADMIN, OPERATOR, VIEWER

NAMES = (
    "ISSUER",
    "CLIENT_ID",
    "CLIENT_SECRET",
    "CLIENT_SECRET_FILE",
    "NAME",
    "GROUPS_CLAIM",
    "VIEWERS",
    "OPERATORS",
    "ADMINS",
)


@dataclass(frozen=True)
class Oidc:
    """``groups_claim`` empty: roles are given here and not there. ``roles``: role → the provider's groups."""

    issuer: str
    client_id: str
    client_secret: str
    name: str = "single sign-on"
    groups_claim: str = ""
    roles: tuple[tuple[str, frozenset[str]], ...] = ()

    def roles_of(self, groups: object) -> set[str]:
        """Return the roles of somebody whose claim says ``groups``: a list of names, or one name."""
        given = {groups} if isinstance(groups, str) else set(map(str, groups)) if isinstance(groups, list) else set()
        return {role for role, names_of_role in self.roles if given & names_of_role}


def oidc_from(env: environ.Env) -> Oidc | None:
    """Read the provider. Raises ImproperlyConfigured with the name of the variable."""
    if not any(text_of(env, f"CRONIQ_OIDC_{name}") for name in NAMES):
        return None
    issuer = (text_of(env, "CRONIQ_OIDC_ISSUER") or "").rstrip("/")
    address = urlsplit(issuer)
    if address.scheme != "https" and (address.scheme, address.hostname) not in (
        ("http", "127.0.0.1"),
        ("http", "localhost"),
    ):
        raise ImproperlyConfigured(f"CRONIQ_OIDC_ISSUER: {issuer!r} is not the https:// address of an OpenID provider.")
    client_id = text_of(env, "CRONIQ_OIDC_CLIENT_ID") or ""
    client_secret = secret(env, "CRONIQ_OIDC_CLIENT_SECRET")
    for name, value in (("CLIENT_ID", client_id), ("CLIENT_SECRET", client_secret)):
        if not value:
            raise ImproperlyConfigured(f"CRONIQ_OIDC_{name}: the provider at {issuer} knows this site by it. Set it.")
    roles = [
        (role, frozenset(names(env, f"CRONIQ_OIDC_{role.upper()}S", default=[role])))
        for role in (VIEWER, OPERATOR, ADMIN)
    ]
    return Oidc(
        issuer,
        client_id,
        client_secret or "",
        text_of(env, "CRONIQ_OIDC_NAME") or "single sign-on",
        text_of(env, "CRONIQ_OIDC_GROUPS_CLAIM") or "",
        tuple(roles),
    )
