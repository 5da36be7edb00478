"""Pages at a fixed instant, for somebody who may look and somebody who may act."""

from __future__ import annotations

from datetime import datetime

import pytest
from django.contrib.auth.models import Group, User
from django.test import Client

from croniq_site.kernel.clock import ManualClock
from scheduler.dashboard import pages

HTMX = {"HX-Request": "true"}


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch, now: datetime) -> ManualClock:
    """The clock of the pages."""
    clock = ManualClock(now)
    monkeypatch.setattr(pages, "DatabaseClock", lambda: clock)
    return clock


def client_of(user: User) -> Client:
    client = Client()
    client.force_login(user)
    return client


def person(name: str, *roles: str) -> User:
    user = User.objects.create_user(name, password="a long secret")
    user.groups.set(Group.objects.filter(name__in=roles))
    return user


@pytest.fixture
def viewer(db) -> Client:
    """Signed in, with the role that looks."""
    return client_of(person("vera", "viewer"))


@pytest.fixture
def operator(db) -> Client:
    """Signed in, with the role that acts."""
    return client_of(person("otto", "operator"))
