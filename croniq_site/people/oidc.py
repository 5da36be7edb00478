"""OpenID Connect: the code flow with PKCE, and an id_token that is believed for its signature, audience, time, nonce.

allauth believes what the token endpoint says over TLS without looking at the signature, and sends no nonce; both are
done here. The nonce is made of the PKCE challenge, which the session keeps: it fits this sign-in and no other.
"""

from __future__ import annotations

import hashlib
import hmac
import logging
from base64 import urlsafe_b64encode
from typing import Any

import requests
from allauth.socialaccount.internal import jwtkit
from allauth.socialaccount.models import SocialApp, SocialLogin, SocialToken
from allauth.socialaccount.providers.base import AuthProcess
from allauth.socialaccount.providers.oauth2.client import OAuth2Client, OAuth2Error
from allauth.socialaccount.providers.oauth2.views import OAuth2CallbackView
from allauth.socialaccount.providers.openid_connect.provider import OpenIDConnectProvider
from allauth.socialaccount.providers.openid_connect.views import OpenIDConnectOAuth2Adapter
from django.conf import settings
from django.http import Http404, HttpRequest
from django.http.response import HttpResponseBase
from django.shortcuts import render
from django.urls import reverse
from django.utils.http import url_has_allowed_host_and_scheme
from django.views.decorators.cache import never_cache

_log = logging.getLogger(__name__)

PROVIDER_ID = "oidc"
_UNREADABLE = (requests.RequestException, OAuth2Error, KeyError, TypeError, ValueError, AttributeError)
"""What a provider can do to us by what it says, or does not say."""


class Client(OAuth2Client):
    def get_redirect_url(self, authorization_url: str, scope: list[str], extra_params: dict[str, Any]) -> str:
        challenge = extra_params["code_challenge"]
        return super().get_redirect_url(authorization_url, scope, {**extra_params, "nonce": _nonce(challenge)})


class Adapter(OpenIDConnectOAuth2Adapter):
    client_class = Client

    def get_callback_url(self, request: HttpRequest, app: SocialApp) -> str:
        return request.build_absolute_uri(reverse("oidc-callback"))

    def get_access_token_data(
        self, request: HttpRequest, app: SocialApp, client: OAuth2Client, pkce_code_verifier: str | None = None
    ) -> dict[str, Any]:
        digest = hashlib.sha256((pkce_code_verifier or "").encode()).digest()
        self._expected_nonce = _nonce(urlsafe_b64encode(digest).rstrip(b"="))
        return super().get_access_token_data(request, app, client, pkce_code_verifier)

    def complete_login(self, request: HttpRequest, app: SocialApp, token: SocialToken, **kwargs: Any) -> SocialLogin:
        claims = jwtkit.verify_and_decode(
            credential=kwargs["response"]["id_token"],
            keys_url=self.openid_config["jwks_uri"],
            issuer=self._issuer(),
            audience=app.client_id,
            lookup_kid=jwtkit.lookup_kid_jwk,
        )
        if "exp" not in claims:
            raise OAuth2Error("The id_token never expires.")
        if not hmac.compare_digest(str(claims.get("nonce", "")).encode(), self._expected_nonce.encode()):
            raise OAuth2Error("The id_token has another nonce: it was made for another sign-in.")
        return self.get_provider().sociallogin_from_response(request, {"id_token": claims})

    def _issuer(self) -> str:
        """The provider's name for itself, which is the configured one: its own document must not change it."""
        issuer = self.openid_config["issuer"]
        if issuer.rstrip("/") != settings.CRONIQ_OIDC.issuer:
            raise OAuth2Error(f"The provider calls itself {issuer!r}.")
        return issuer


class Provider(OpenIDConnectProvider):
    oauth2_adapter_class = Adapter

    def extract_email_addresses(self, data: dict[str, Any]) -> list[Any]:
        return []  # nobody is known here by his address


def app() -> SocialApp:
    """Return the configured provider as allauth knows one; 404 where there is none."""
    oidc = settings.CRONIQ_OIDC
    if oidc is None:
        raise Http404
    return SocialApp(
        provider="openid_connect",
        provider_id=PROVIDER_ID,
        name=oidc.name,
        client_id=oidc.client_id,
        secret=oidc.client_secret,
        settings={"server_url": oidc.issuer, "oauth_pkce_enabled": True},
    )


@never_cache
def begin(request: HttpRequest) -> HttpResponseBase:
    """Send the browser to the provider."""
    provider = Provider(request, app())
    where = request.GET.get("next", "")
    is_here = url_has_allowed_host_and_scheme(where, {request.get_host()}, require_https=request.is_secure())
    try:
        return provider.redirect(request, AuthProcess.LOGIN, next_url=where if is_here else None)
    except _UNREADABLE as error:
        return refused(request, error)


@never_cache
def callback(request: HttpRequest) -> HttpResponseBase:
    """The browser comes back with a code."""
    app()
    try:
        return OAuth2CallbackView.adapter_view(Adapter(request, PROVIDER_ID))(request)
    except _UNREADABLE as error:
        return refused(request, error)


def refused(request: HttpRequest, error: BaseException | None) -> HttpResponseBase:
    # A token may be in the error's text: the log has its kind, and whoever configures the provider looks there.
    _log.warning("sign-in with the OpenID provider failed: %s", type(error).__name__ if error else "no code")
    return render(request, "socialaccount/authentication_error.html", status=401)


def _nonce(challenge: bytes | str) -> str:
    text = challenge if isinstance(challenge, bytes) else challenge.encode()
    return hashlib.sha256(b"nonce of " + text).hexdigest()
