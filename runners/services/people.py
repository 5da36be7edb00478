"""People: which roles they have and whether they may sign in. An installation always keeps somebody who may all."""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import datetime

from django.contrib.auth import get_user_model
from django.contrib.auth.models import AbstractBaseUser, Group
from django.core.exceptions import ValidationError
from django.db import IntegrityError
from django.db.models import Q

from croniq_site.kernel.database import one_at_a_time, write_transaction
from croniq_site.kernel.errors import Conflict, InvalidInput, NotFound
from runners.domain.roles import ADMIN, ROLES
from runners.models import Preferences
from runners.services.audit import SYSTEM, Actor, Event, record_events
from runners.services.sign_in import forget_errors

LOCK = 0x43525055
"""Number of the lock under which people are changed one after the other: of two administrators who switch each other
off at this moment, the second must see what the first did."""


@contextmanager
def keeping_an_admin() -> Iterator[None]:
    """A write transaction that changes people or groups: it is undone where it would leave no active administrator.

    Raises Conflict ``last_admin``. Where there was none before there need be none afterwards.
    """
    with write_transaction(), one_at_a_time(LOCK):
        had_one = has_admin()
        yield
        if had_one and not has_admin():
            raise Conflict(
                "Nobody would be left who may administer this installation. Make somebody else an administrator first.",
                code="last_admin",
            )


def has_admin() -> bool:
    """Is there an active user who is a superuser or in the group ``admin``?"""
    users = get_user_model().objects.filter(is_active=True)
    return users.filter(Q(is_superuser=True) | Q(groups__name=ADMIN)).exists()


def create_person(
    username: str, now: datetime, *, roles: Iterable[str] = (), actor: Actor = SYSTEM
) -> tuple[AbstractBaseUser, str]:
    """Make a user with these roles, and a password of ours that is returned this once; only its hash is kept.

    Raises InvalidInput for a name of other than 1 to 150 letters, digits and ``@.+-_`` and for a role that is none;
    Conflict ``user_exists``.
    """
    model = get_user_model()
    roles = frozenset(roles)
    try:
        username = model.normalize_username(username)
        model._meta.get_field("username").clean(username, None)
    except (ValidationError, TypeError):
        raise InvalidInput.of(
            "username", "A user's name is 1 to 150 letters, digits and @ . + - _ without spaces."
        ) from None
    password = _new_password()
    try:
        with write_transaction():
            user = model(username=username, date_joined=now)
            user.set_password(password)
            user.save(force_insert=True)
            _set_roles(user, roles)
            user.save(update_fields=["is_staff"])
            password_given(user.pk)
            record_events([Event("user.created", "user", username, actor, diff=_values(user))], now)
            return user, password
    except IntegrityError:
        raise Conflict(f"There is a user named {username!r} already.", code="user_exists") from None


def renew_password(user_id: int, now: datetime, *, actor: Actor = SYSTEM) -> tuple[AbstractBaseUser, str]:
    """Give somebody who has lost his password another one of ours, returned this once. It ends all his sessions; his
    second factor stays, and his name may be tried again at once. Raises NotFound."""
    password = _new_password()
    with write_transaction():
        user = set_password(user_id, password, now, actor=actor)
        password_given(user.pk)
        return user, password


def set_password(user_id: int, password: str, now: datetime, *, actor: Actor = SYSTEM) -> AbstractBaseUser:
    """Give somebody this password, which is looked at by whoever calls. It ends all his sessions, and his name is not
    refused any more for wrong passwords. Raises NotFound."""
    with write_transaction():
        user = _locked(user_id)
        user.set_password(password)
        user.save(update_fields=["password"])
        forget_errors(user.get_username())
        record_events([Event("user.updated", "user", user.get_username(), actor, diff={"password": "changed"})], now)
        return user


def password_given(user_id: int) -> None:
    """Let nothing open for somebody before he has changed the password that somebody else knows."""
    Preferences.objects.update_or_create(user_id=user_id, defaults={"must_change_password": True})


def password_chosen(user_id: int) -> None:
    Preferences.objects.filter(user_id=user_id, must_change_password=True).update(must_change_password=False)


def must_change_password(user: AbstractBaseUser) -> bool:
    """No query for whom the session has loaded."""
    preferences = getattr(user, "preferences", None)
    return preferences is not None and preferences.must_change_password


def edit_person(
    user_id: int,
    now: datetime,
    *,
    is_active: bool | None = None,
    is_superuser: bool | None = None,
    roles: Iterable[str] | None = None,
    actor: Actor = SYSTEM,
) -> AbstractBaseUser:
    """Change whether somebody may sign in and what he may do; None stays as it is. His other groups stay too.

    An administrator may use Django's admin. Raises NotFound, InvalidInput for a role that is none, and as
    `keeping_an_admin`.
    """
    with keeping_an_admin():
        user = _locked(user_id)
        before = _values(user)
        if is_active is not None:
            user.is_active = is_active
        if is_superuser is not None:
            user.is_superuser = is_superuser
        if roles is not None:
            _set_roles(user, frozenset(roles))
        after = _values(user)
        diff = {name: [before[name], after[name]] for name in after if before[name] != after[name]}
        if diff:
            user.save(update_fields=["is_active", "is_superuser", "is_staff"])
            record_events([Event("user.updated", "user", user.get_username(), actor, diff=diff)], now)
        return user


def delete_person(user_id: int, now: datetime, *, actor: Actor = SYSTEM) -> None:
    """Delete a user; what the audit says of him stays. Raises NotFound, and as `keeping_an_admin`."""
    with keeping_an_admin():
        user = _locked(user_id)
        record_events([Event("user.deleted", "user", user.get_username(), actor, diff=_values(user))], now)
        user.delete()


def _new_password() -> str:
    return secrets.token_urlsafe(15)


def _locked(user_id: int) -> AbstractBaseUser:
    user = get_user_model().objects.select_for_update(no_key=True).filter(pk=user_id).first()
    if user is None:
        raise NotFound("There is no such user.")
    return user


def _values(user: AbstractBaseUser) -> dict[str, object]:
    names = user.groups.filter(name__in=ROLES).order_by("name").values_list("name", flat=True)
    return {"is_active": user.is_active, "is_superuser": user.is_superuser, "roles": list(names)}


def _set_roles(user: AbstractBaseUser, roles: frozenset[str]) -> None:
    if not roles <= set(ROLES):
        raise InvalidInput.of("roles", f"A role is one of {', '.join(ROLES)}.")
    groups = {group.name: group for group in Group.objects.filter(name__in=ROLES)}
    user.groups.remove(*(group for name, group in groups.items() if name not in roles))
    user.groups.add(*(groups[name] for name in roles))
    if ADMIN in roles:
        user.is_staff = True
    elif not user.is_superuser:
        user.is_staff = False
