"""Who asks, and may they: API keys and scopes for the rest framework."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.http import HttpRequest
from drf_spectacular.extensions import OpenApiAuthenticationExtension
from rest_framework.authentication import BaseAuthentication
from rest_framework.exceptions import AuthenticationFailed
from rest_framework.permissions import BasePermission
from rest_framework.request import Request

from croniq_site.kernel.clock import Clock, DatabaseClock
from croniq_site.kernel.errors import Forbidden
from runners.domain.scopes import SCOPES, Principal
from runners.queries.principals import raw_key_of
from runners.services.keys import recognise

PUBLIC = "public"
"""What a view declares as the scope of a method that asks for no key."""

CLOCK: Clock = DatabaseClock()


def now_of(request: Request | HttpRequest):
    """Return the instant of ``request``: read once, so that its key, its leases and its answer agree."""
    # The rest framework's request hands unknown attributes to Django's; the instant is kept there, for both.
    inner = getattr(request, "_request", request)
    if not hasattr(inner, "croniq_now"):
        inner.croniq_now = CLOCK.now()
    return inner.croniq_now


class ApiKeyAuthentication(BaseAuthentication):
    """``Authorization: ApiKey croniq_…`` or ``Bearer croniq_…``; the user of the request is a `Principal`."""

    def authenticate(self, request: Request) -> tuple[Principal, None] | None:
        header = request.META.get("HTTP_AUTHORIZATION", "")
        if not header.strip():
            return None
        raw_key = raw_key_of(header)
        principal = None if raw_key is None else recognise(raw_key, now_of(request))
        if principal is None:
            # One answer for unknown, expired and revoked: which of them it is helps only somebody who guesses.
            raise AuthenticationFailed("This API key is unknown, expired or revoked. Create one with create_api_key.")
        return principal, None

    def authenticate_header(self, request: Request) -> str:
        """Make the rest framework answer 401, with this challenge, where it would answer 403."""
        return 'ApiKey realm="croniq"'


class HasScope(BasePermission):
    """Each view says in ``required_scope`` which scope each of its methods needs; what is not declared is refused."""

    def has_permission(self, request: Request, view: Any) -> bool:
        method = "GET" if request.method == "HEAD" else request.method
        declared: Mapping[str, str] = getattr(view, "required_scope", {})
        scope = declared.get(method)
        if scope == PUBLIC:
            return True
        principal = request.user
        if not isinstance(principal, Principal):
            return False  # nobody: answered with 401, because there is a challenge
        if scope is None:
            # A method without a handler is 405, which is the next thing the view finds; one with a handler whose
            # author forgot the scope stays shut.
            return method.lower() not in view.http_method_names or not hasattr(view, method.lower())
        if scope not in SCOPES or not principal.has(scope):
            raise Forbidden(
                f"The {principal.words} {principal.name!r} has not the scope {scope}.", code="missing_scope"
            )
        return True


class ApiKeyScheme(OpenApiAuthenticationExtension):
    """How the OpenAPI document names the key."""

    target_class = ApiKeyAuthentication
    name = "ApiKey"

    def get_security_definition(self, auto_schema: Any) -> dict[str, str]:
        return {
            "type": "apiKey",
            "in": "header",
            "name": "Authorization",
            "description": "`ApiKey croniq_…` or `Bearer croniq_…`",
        }
