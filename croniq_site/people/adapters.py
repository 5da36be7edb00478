"""What allauth asks of a site: who may come in, by which stages, and how secrets are kept."""

from __future__ import annotations

import logging
from base64 import urlsafe_b64encode
from hashlib import sha256
from typing import Any

from allauth.account.adapter import DefaultAccountAdapter
from allauth.mfa.adapter import DefaultMFAAdapter
from allauth.socialaccount.adapter import DefaultSocialAccountAdapter
from allauth.socialaccount.models import SocialLogin
from cryptography.fernet import Fernet
from django.conf import settings
from django.contrib.auth.models import AbstractBaseUser
from django.http import HttpRequest

from croniq_site.kernel.clock import DatabaseClock
from croniq_site.kernel.errors import Conflict
from croniq_site.people.oidc import Provider, app, refused
from runners.services.audit import Actor
from runners.services.people import edit_person

_log = logging.getLogger(__name__)


class AccountAdapter(DefaultAccountAdapter):
    def is_open_for_signup(self, request: HttpRequest) -> bool:
        return False

    def get_login_stages(self) -> list[str]:
        stages = super().get_login_stages()
        return stages if settings.CRONIQ_TOTP else [stage for stage in stages if not stage.startswith("allauth.mfa.")]

    def add_message(self, *_: Any, **__: Any) -> None:
        """Whoever signs in sees that he is signed in."""


class SocialAdapter(DefaultSocialAccountAdapter):
    """One provider, the configured one. Whoever it knows may come in; his roles follow its groups at each sign-in."""

    def get_provider(self, request: HttpRequest, provider: str, client_id: str | None = None) -> Provider:
        return Provider(request, app())

    def is_open_for_signup(self, request: HttpRequest, sociallogin: SocialLogin) -> bool:
        return settings.CRONIQ_OIDC is not None

    def pre_social_login(self, request: HttpRequest, sociallogin: SocialLogin) -> None:
        if sociallogin.is_existing:
            give_roles(sociallogin.user, sociallogin)

    def save_user(self, request: HttpRequest, sociallogin: SocialLogin, form: Any = None) -> AbstractBaseUser:
        user = super().save_user(request, sociallogin, form)
        give_roles(user, sociallogin)
        return user

    def on_authentication_error(
        self, request: HttpRequest, provider: Any, error: Any = None, exception: Any = None, extra_context: Any = None
    ) -> None:
        from allauth.core.exceptions import ImmediateHttpResponse

        raise ImmediateHttpResponse(refused(request, exception))


def give_roles(user: AbstractBaseUser, sociallogin: SocialLogin) -> None:
    """Give ``user`` the roles that the provider's claim says, if a claim is configured. The last admin stays one."""
    oidc = settings.CRONIQ_OIDC
    if not oidc.groups_claim:
        return
    claims = sociallogin.account.extra_data.get("id_token", {})
    roles = oidc.roles_of(claims.get(oidc.groups_claim))
    try:
        edit_person(user.pk, DatabaseClock().now(), roles=roles, actor=Actor("system", "oidc"))
    except Conflict as refusal:
        _log.warning("The roles of %s stay as they are: %s", user.get_username(), refusal.message)
    user.refresh_from_db()


class MfaAdapter(DefaultMFAAdapter):
    """Secrets of second factors are kept encrypted with the site's key: a dump of the database opens nothing."""

    def encrypt(self, text: str) -> str:
        return _fernet().encrypt(text.encode()).decode()

    def decrypt(self, encrypted_text: str) -> str:
        return _fernet().decrypt(encrypted_text.encode()).decode()


def _fernet() -> Fernet:
    return Fernet(urlsafe_b64encode(sha256(b"croniq.mfa" + settings.SECRET_KEY.encode()).digest()))
