"""Pages at a fixed instant, for somebody who may look and somebody who may act."""

from __future__ import annotations

from datetime import datetime

import pytest
from django.contrib.auth.models import Permission, User
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


@pytest.fixture
def viewer(db) -> Client:
    """Signed in, without any permission."""
    return client_of(User.objects.create_user("vera", password="a long secret"))


@pytest.fixture
def operator(db) -> Client:
    """Signed in, with the one permission to act."""
    user = User.objects.create_user("otto", password="a long secret")
    user.user_permissions.add(
        Permission.objects.get(codename="change_job", content_type__app_label="scheduler", content_type__model="job")
    )
    return client_of(user)
