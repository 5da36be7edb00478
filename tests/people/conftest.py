"""People of each role."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from django.contrib.auth.models import Group, User
from django.test import Client

PASSWORD = "a long secret"


def person(name: str, *roles: str, **more: object) -> User:
    user = User.objects.create_user(name, password=PASSWORD, **more)
    user.groups.set(Group.objects.filter(name__in=roles))
    return user


@pytest.fixture
def client_as(db: None) -> Callable[..., Client]:
    """A browser in which somebody of these roles is signed in."""

    def make(*roles: str, **more: object) -> Client:
        client = Client(**more)
        client.force_login(person("-".join(roles) or "nobody", *roles))
        return client

    return make
