"""API clients and keys in the admin: changed by services, audited, and no digest on any page."""

from __future__ import annotations

import pytest
from django.contrib.auth.models import Permission, User
from django.test import Client
from django.urls import reverse

from runners.models import ApiClient, ApiKey, AuditEvent
from tests.factories import ApiClientFactory, ApiKeyFactory

pytestmark = pytest.mark.django_db
ADD = reverse("admin:runners_apiclient_add")
KEYS = reverse("admin:runners_apikey_changelist")


def page_of(client: ApiClient) -> str:
    return reverse("admin:runners_apiclient_change", args=[client.pk])


def test_a_client_is_made_and_audited(admin_client: Client):
    answer = admin_client.post(ADD, {"name": "billing", "tenant": "", "scopes": ["jobs:read", "jobs:trigger"]})
    assert answer.status_code == 302, answer.context["errors"]
    made = ApiClient.objects.get()
    assert (made.name, made.tenant, made.scopes, made.is_active) == (
        "billing",
        None,
        ["jobs:read", "jobs:trigger"],
        True,
    )
    event = AuditEvent.objects.get(action="api_client.created")
    assert (event.actor_type, event.actor_id, event.target_id) == ("user", "admin", "billing")


def test_a_client_is_changed_but_its_tenant_is_not(admin_client: Client):
    client = ApiClientFactory(name="billing", tenant="a", scopes=["admin"])
    form = {"name": "invoices", "tenant": "b", "scopes": ["jobs:read"]}
    assert admin_client.post(page_of(client), form).status_code == 302
    client.refresh_from_db()
    assert (client.name, client.tenant, client.scopes, client.is_active) == ("invoices", "a", ["jobs:read"], False)
    event = AuditEvent.objects.get(action="api_client.updated")
    assert event.diff == {
        "name": ["billing", "invoices"],
        "scopes": [["admin"], ["jobs:read"]],
        "is_active": [True, False],
    }
    admin_client.post(page_of(client), form)
    assert AuditEvent.objects.count() == 1  # the same again changes nothing


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"name": "taken"}, "name"),
        ({"name": "a\u202eb"}, "printable"),
        ({"scopes": ["jobs:everything"]}, "jobs:everything"),
        ({"scopes": []}, "required"),
        ({"tenant": "Not A Slug"}, "slug"),
    ],
)
def test_a_refusal_is_at_its_field_and_nothing_is_saved(admin_client: Client, values, said):
    ApiClientFactory(name="taken")
    answer = admin_client.post(ADD, {"name": "new", "tenant": "", "scopes": ["jobs:read"], **values})
    assert answer.status_code == 200
    assert said in answer.content.decode()
    assert ApiClient.objects.count() == 1


def test_a_name_that_somebody_took_meanwhile_is_a_message(admin_client: Client, monkeypatch):
    ApiClientFactory(name="taken")
    # Both found the name free when they were asked.
    monkeypatch.setattr(ApiClient, "validate_constraints", lambda self, exclude=None: None)
    answer = admin_client.post(ADD, {"name": "taken", "tenant": "", "scopes": ["jobs:read"]}, follow=True)
    assert "There is an API client named" in answer.content.decode()
    assert ApiClient.objects.count() == 1


def test_clients_are_never_deleted(admin_client: Client):
    client = ApiClientFactory()
    assert (
        admin_client.post(reverse("admin:runners_apiclient_delete", args=[client.pk]), {"post": "yes"}).status_code
        == 403
    )
    assert ApiClient.objects.exists()


def test_no_page_shows_a_digest(admin_client: Client):
    key = ApiKeyFactory()
    for path in (KEYS, reverse("admin:runners_apikey_change", args=[key.pk]), page_of(key.client)):
        answer = admin_client.get(path)
        assert answer.status_code == 200
        assert key.digest not in answer.content.decode()


def test_keys_are_revoked_for_good_and_audited(admin_client: Client, now):
    live, dead = ApiKeyFactory(prefix="croniq_live0"), ApiKeyFactory(revoked_at=now)
    form = {"action": "revoke", "_selected_action": [live.pk, dead.pk]}
    answer = admin_client.post(KEYS, form, follow=True)
    assert "1 of 2 selected keys were live and are revoked." in answer.content.decode()
    live.refresh_from_db()
    dead.refresh_from_db()
    assert live.revoked_at is not None
    assert dead.revoked_at == now
    event = AuditEvent.objects.get(action="api_key.revoked")
    assert (event.actor_id, event.target_id, event.diff) == ("admin", live.client.name, {"prefix": "croniq_live0"})


def test_only_who_may_change_keys_revokes_them(client: Client):
    key = ApiKeyFactory()
    user = User.objects.create_user("vera", is_staff=True)
    user.user_permissions.add(Permission.objects.get(codename="view_apikey"))
    client.force_login(user)
    assert "revoke" not in client.get(KEYS).content.decode().lower().replace("revoked", "")
    client.post(KEYS, {"action": "revoke", "_selected_action": [key.pk]})
    assert ApiKey.objects.get().revoked_at is None
