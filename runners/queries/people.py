"""People, as lists: who they are and what they may do."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from allauth.mfa.models import Authenticator
from django.contrib.auth import get_user_model
from django.contrib.auth.models import AbstractBaseUser
from django.db.models import Exists, OuterRef, QuerySet

from runners.domain.roles import ROLES


@dataclass(frozen=True)
class PersonRow:
    """``roles`` in the order of `ROLES`; ``has_password`` False: he signs in by the provider alone."""

    id: int
    username: str
    roles: tuple[str, ...]
    is_active: bool
    is_superuser: bool
    has_password: bool
    has_second_factor: bool
    last_login: datetime | None
    created_at: datetime


def person_list(*, limit: int, after: str = "") -> list[PersonRow]:
    """Return at most ``limit`` people by name, those after ``after``. Two queries."""
    return [_row(user) for user in _people().filter(username__gt=after).order_by("username")[:limit]]


def person_of_id(user_id: int) -> PersonRow | None:
    user = _people().filter(pk=user_id).first()
    return None if user is None else _row(user)


def _people() -> QuerySet:
    factors = Authenticator.objects.filter(user=OuterRef("pk"), type=Authenticator.Type.TOTP)
    return get_user_model().objects.annotate(has_second_factor=Exists(factors)).prefetch_related("groups")


def _row(user: AbstractBaseUser) -> PersonRow:
    names = {group.name for group in user.groups.all()}
    return PersonRow(
        id=user.pk,
        username=user.get_username(),
        roles=tuple(role for role in ROLES if role in names),
        is_active=user.is_active,
        is_superuser=user.is_superuser,
        has_password=user.has_usable_password(),
        has_second_factor=user.has_second_factor,
        last_login=user.last_login,
        created_at=user.date_joined,
    )
