"""Codes of second factors are counted like passwords, and each opens once, on whichever server."""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import wraps
from typing import Any

from allauth.core import context
from allauth.mfa.adapter import get_adapter
from allauth.mfa.base.forms import AuthenticateForm, ReauthenticateForm
from cryptography.fernet import InvalidToken
from django.conf import settings
from django.http import Http404, HttpRequest
from django.http.response import HttpResponseBase
from django.shortcuts import render

from croniq_site.kernel.clock import DatabaseClock
from croniq_site.kernel.errors import TooManyRequests
from runners.services.sign_in import Way, begin_sign_in, end_sign_in, spend_code

View = Callable[..., HttpResponseBase]
_log = logging.getLogger(__name__)


class _Counted:
    def clean_code(self) -> str:
        address, name = context.request.META.get("REMOTE_ADDR", ""), self.user.get_username()
        now = DatabaseClock().now()
        begin_sign_in(address, name, now, Way.CODE)
        try:
            code = super().clean_code()
        except InvalidToken:
            _log.error("The second factor of %s is of another CRONIQ_SECRET_KEY.", self.user.get_username())
            raise get_adapter().validation_error("incorrect_code") from None
        if not spend_code(name, code, now):
            raise get_adapter().validation_error("incorrect_code")
        end_sign_in(address, name, Way.CODE)
        return code


class CodeForm(_Counted, AuthenticateForm):
    pass


class CodeAgainForm(_Counted, ReauthenticateForm):
    pass


def second_factor(view: View) -> View:
    """Make a page of allauth's a page where second factors are on, and no page where they are not."""

    @wraps(view)
    def gated(request: HttpRequest, **parts: Any) -> HttpResponseBase:
        if not settings.CRONIQ_TOTP:
            raise Http404
        try:
            return view(request, **parts)
        except TooManyRequests as refusal:
            response = render(request, "refused.html", {"refusal": refusal}, status=refusal.status)
            response["Retry-After"] = str(refusal.retry_after_seconds)
            return response

    return gated
