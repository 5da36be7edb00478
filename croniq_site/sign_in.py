"""Passwords are looked at after the attempt was counted (`runners.services.sign_in`)."""

from __future__ import annotations

from typing import Any

from django.contrib.auth import get_user_model
from django.contrib.auth.backends import ModelBackend
from django.contrib.auth.models import AbstractBaseUser, Group, Permission
from django.db.models import Q
from django.http import HttpRequest

from croniq_site.kernel.clock import DatabaseClock
from runners.services.people import must_change_password
from runners.services.sign_in import MARK_COOKIE, Way, begin_sign_in, end_sign_in, is_mark_of


class CountedBackend(ModelBackend):
    """Django's own, which does the same work for a name that nobody has."""

    def authenticate(
        self, request: HttpRequest | None, username: str | None = None, password: str | None = None, **more: Any
    ) -> AbstractBaseUser | None:
        """Raises TooManyRequests. Whoever asks without a request is this program itself."""
        if request is None or username is None or password is None:
            return super().authenticate(request, username=username, password=password, **more)
        address, now = request.META.get("REMOTE_ADDR", ""), DatabaseClock().now()
        way = Way.KNOWN if is_mark_of(request.COOKIES.get(MARK_COOKIE, ""), username, now) else Way.PASSWORD
        begin_sign_in(address, username, now, way)
        user = super().authenticate(request, username=username, password=password, **more)
        if user is not None:
            end_sign_in(address, username, way)
        return user

    def get_all_permissions(self, user_obj: Any, obj: Any = None) -> set[str]:
        """His own and those of his groups in one query: every page asks. None with a password that is another's."""
        if must_change_password(user_obj):
            return set()
        if not user_obj.is_active or user_obj.is_anonymous or user_obj.is_superuser or obj is not None:
            return super().get_all_permissions(user_obj, obj)
        if not hasattr(user_obj, "_perm_cache"):
            his_own = user_obj.user_permissions.order_by().values("pk")
            of_groups = Group.permissions.through.objects.filter(group__user=user_obj).values("permission_id")
            rows = Permission.objects.filter(Q(pk__in=his_own) | Q(pk__in=of_groups)).order_by()
            user_obj._perm_cache = {
                f"{app}.{name}" for app, name in rows.values_list("content_type__app_label", "codename")
            }
        return user_obj._perm_cache

    def get_user(self, user_id: Any) -> AbstractBaseUser | None:
        """Whoever is signed in, with how he likes to see pages: every page asks for both."""
        users = get_user_model()._default_manager.select_related("preferences")
        user = users.filter(pk=user_id).first()
        return user if user is not None and self.user_can_authenticate(user) else None
