"""What the environment declares is applied when a server starts, and stops it where it contradicts."""

from __future__ import annotations

import pytest
from django.core.management import CommandError, call_command

from runners.models import ApiClient
from runners.services.clients import create_client
from scheduler.management.commands import quickstart, serve
from tests.people.test_declared import billing

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def no_port(monkeypatch):
    """The server gets as far as its port and no further."""

    def taken(*_: object) -> None:
        raise OSError(98, "Address already in use")

    monkeypatch.setattr(serve, "listening_socket", taken)


def test_serve_applies_it_before_it_listens(settings, no_port):
    settings.CRONIQ_API_CLIENTS = billing()
    with pytest.raises(CommandError, match="Cannot listen"):
        call_command("serve", "--port", "0")
    assert ApiClient.objects.get().managed_by == "environment"


def test_serve_does_not_start_against_it(settings, no_port, now):
    create_client("billing", ["admin"], now)
    settings.CRONIQ_API_CLIENTS = billing()
    with pytest.raises(CommandError, match="CRONIQ_API_CLIENT_BILLING_KEY"):
        call_command("serve", "--port", "0")


def test_quickstart_says_so_before_it_starts_anything(settings, monkeypatch, tmp_path, now):
    monkeypatch.setattr(quickstart, "call_command", lambda *_, **__: None)  # the database is up to date
    settings.DATA_DIR = tmp_path
    settings.CRONIQ_API_CLIENTS = billing()
    quickstart.Command().set_up(no_demo=True)
    assert ApiClient.objects.filter(name="billing", managed_by="environment").exists()
    ApiClient.objects.filter(name="billing").update(managed_by="")
    with pytest.raises(CommandError, match="CRONIQ_API_CLIENT_BILLING_KEY"):
        quickstart.Command().set_up(no_demo=True)
