"""Passwords are looked at after the attempt was counted (`runners.services.sign_in`)."""

from __future__ import annotations

from typing import Any

from django.contrib.auth.backends import ModelBackend
from django.contrib.auth.models import AbstractBaseUser
from django.http import HttpRequest

from croniq_site.kernel.clock import DatabaseClock
from runners.services.sign_in import begin_sign_in, end_sign_in


class CountedBackend(ModelBackend):
    """Django's own, which does the same work for a name that nobody has."""

    def authenticate(
        self, request: HttpRequest | None, username: str | None = None, password: str | None = None, **more: Any
    ) -> AbstractBaseUser | None:
        """Raises TooManyRequests. Whoever asks without a request is this program itself."""
        if request is None or username is None or password is None:
            return super().authenticate(request, username=username, password=password, **more)
        address = request.META.get("REMOTE_ADDR", "")
        begin_sign_in(address, username, DatabaseClock().now())
        user = super().authenticate(request, username=username, password=password, **more)
        if user is not None:
            end_sign_in(address, username)
        return user
