"""A person's session opens the API too: the pages' cookie, with the CSRF token for whatever changes something."""

from __future__ import annotations

from typing import Any

from django.contrib.auth.models import AbstractBaseUser
from drf_spectacular.extensions import OpenApiAuthenticationExtension
from rest_framework.authentication import SessionAuthentication
from rest_framework.exceptions import PermissionDenied
from rest_framework.request import Request

from croniq_site.kernel.errors import Forbidden
from runners.domain.roles import SCOPE_PERMISSIONS
from runners.domain.scopes import Person


class PersonAuthentication(SessionAuthentication):
    """Whoever is signed in, with the scopes that his permissions are. A key in the same request comes first."""

    def authenticate(self, request: Request) -> tuple[Person, None] | None:
        signed_in = super().authenticate(request)
        return None if signed_in is None else (person_of(signed_in[0]), None)

    def enforce_csrf(self, request: Request) -> None:
        try:
            super().enforce_csrf(request)
        except PermissionDenied:
            raise Forbidden(
                "A session changes something only with the CSRF token of its pages: send X-CSRFToken, or use a key.",
                code="csrf_failed",
            ) from None


def person_of(user: AbstractBaseUser) -> Person:
    """Return what a user may do over the API: in every tenant, and as no runner."""
    granted = user.get_all_permissions()
    scopes = frozenset(scope for scope, permission in SCOPE_PERMISSIONS.items() if permission in granted)
    # No client has a number below zero: people's are their own.
    return Person(-user.pk, user.get_username(), None, scopes)


class SessionScheme(OpenApiAuthenticationExtension):
    """How the OpenAPI document names the session."""

    target_class = PersonAuthentication
    name = "Session"

    def get_security_definition(self, auto_schema: Any) -> dict[str, str]:
        return {
            "type": "apiKey",
            "in": "cookie",
            "name": "sessionid",
            "description": "Of whoever is signed in to the pages; `X-CSRFToken` with whatever is no GET.",
        }
