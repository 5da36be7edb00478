"""API clients that the environment declares: read, applied, and changed by nobody else."""

from __future__ import annotations

from datetime import timedelta
from io import StringIO

import environ
import pytest
from django.core.exceptions import ImproperlyConfigured
from django.core.management import CommandError, call_command
from django.test import Client
from django.urls import reverse
from rest_framework.test import APIClient

from croniq_site.api_clients import declared_clients
from croniq_site.kernel.errors import Conflict
from runners.models import ApiClient, ApiKey, AuditEvent
from runners.queries.principals import principal_of
from runners.services.clients import create_client, issue_key
from runners.services.declared import apply_declared
from tests.support.polling import poll_until
from tests.support.races import DEADLINE_SECONDS, Session, is_waiting_for_lock, together

OLD, NEW = "croniq_" + "o" * 33, "croniq_" + "n" * 33
START = "CRONIQ_API_CLIENT_"


def declared(**variables: str):
    """What the variables ``CRONIQ_API_CLIENT_…`` declare."""
    env = environ.Env()
    env.ENVIRON = {f"{START}{name}": value for name, value in variables.items()}
    return declared_clients(env)


def billing(key: str = OLD, **more: str):
    return declared(BILLING_KEY=key, BILLING_SCOPES=more.pop("BILLING_SCOPES", "jobs:read"), **more)


# Reading


def test_a_client_is_read_and_its_key_is_not_kept():
    scopes = "work:poll, jobs:read"
    (client,) = declared(BILLING_RUNNER_KEY=OLD, BILLING_RUNNER_SCOPES=scopes, BILLING_RUNNER_TENANT="a")
    assert (client.name, client.scopes, client.tenant) == ("billing-runner", ("jobs:read", "work:poll"), "a")
    assert OLD not in repr(client)


def test_a_key_comes_from_a_file(tmp_path):
    (tmp_path / "key").write_text(f"{OLD}\n")
    assert declared(A_KEY_FILE=str(tmp_path / "key"), A_SCOPES="admin") == declared(A_KEY=OLD, A_SCOPES="admin")


@pytest.mark.parametrize(
    ("variables", "named"),
    [
        ({"A_KEY": OLD}, "A_SCOPES"),
        ({"A_SCOPES": "jobs:read"}, "A_KEY"),
        ({"A_KEY": OLD, "A_SCOPES": "jobs:fly"}, "A_SCOPES"),
        ({"A_KEY": OLD[:-1], "A_SCOPES": "jobs:read"}, "A_KEY"),
        ({"A_KEY": "x" * 50, "A_SCOPES": "jobs:read"}, "A_KEY"),
        ({"A_KEY": OLD + " x", "A_SCOPES": "jobs:read"}, "A_KEY"),
        ({"A_KEY": OLD + "x" * 300, "A_SCOPES": "jobs:read"}, "A_KEY"),
        ({"A_KEY": OLD, "A_KEY_FILE": "/nothing", "A_SCOPES": "jobs:read"}, "A_KEY"),
        ({"A_KEY_FILE": "/nothing", "A_SCOPES": "jobs:read"}, "A_KEY_FILE"),
        ({"A_KEY": OLD, "A_SCOPES": "jobs:read", "A_TENANT": "No Slug"}, "A_TENANT"),
        ({"A_KEY": OLD, "A_SCOPES": "jobs:read", "A_SCOPE": "jobs:read"}, "A_SCOPE"),
        ({"a_KEY": OLD}, "a_KEY"),
        ({"A_KEY": OLD, "A_SCOPES": "jobs:read", "B_KEY": OLD, "B_SCOPES": "jobs:read"}, "B_KEY"),
    ],
)
def test_nonsense_is_refused_by_the_name_of_its_variable_and_without_the_key(variables, named):
    with pytest.raises(ImproperlyConfigured) as refused:
        declared(**variables)
    assert str(refused.value).startswith(f"{START}{named}")
    assert OLD[:-1] not in str(refused.value)


# Applying

pytestmark = pytest.mark.django_db


def opens(key: str, now) -> bool:
    return principal_of(key, now) is not None


def test_the_same_again_changes_nothing(now):
    assert apply_declared(billing(), now) == ["api_client.created billing", "api_key.issued billing"]
    rows = list(ApiKey.objects.values()), list(ApiClient.objects.values()), AuditEvent.objects.count()
    assert apply_declared(billing(), now + timedelta(days=1)) == []
    assert rows == (list(ApiKey.objects.values()), list(ApiClient.objects.values()), AuditEvent.objects.count())
    principal = principal_of(OLD, now)
    assert (principal.name, principal.scopes, principal.tenant) == ("billing", {"jobs:read"}, None)


def test_another_value_ends_the_old_one_and_two_values_are_two_live_keys(now):
    for key, live in ((OLD, (True, False)), (f"{NEW},{OLD}", (True, True)), (NEW, (False, True)), (OLD, (True, False))):
        apply_declared(billing(key), now)
        assert (opens(OLD, now), opens(NEW, now)) == live
    assert ApiKey.objects.count() == 2


def test_a_variable_that_is_gone_switches_its_client_off_and_comes_back(now):
    by_hand = create_client("by-hand", ["jobs:read"], now)
    apply_declared(billing(), now)
    assert apply_declared((), now) == ["api_client.updated billing"]
    assert not opens(OLD, now)
    by_hand.refresh_from_db()
    assert by_hand.is_active
    apply_declared(billing(BILLING_SCOPES="jobs:write"), now)
    assert principal_of(OLD, now).scopes == {"jobs:write"}


def test_what_is_declared_is_in_the_audit_by_whoever_declared_it(now):
    for declarations in (billing(), billing(NEW, BILLING_SCOPES="jobs:write"), ()):
        apply_declared(declarations, now)
    told = list(AuditEvent.objects.order_by("pk").values_list("action", "actor_type", "actor_id", "target_id"))
    actions = ["created", "updated", "updated"], ["issued", "issued", "revoked"]
    assert sorted(action for action, *_ in told) == sorted(
        [*(f"api_client.{verb}" for verb in actions[0]), *(f"api_key.{verb}" for verb in actions[1])]
    )
    assert {tuple(who) for _, *who in told} == {("system", "environment", "billing")}


@pytest.mark.parametrize("case", ["by hand", "another tenant", "another's key"])
def test_what_contradicts_stops_the_start_and_changes_nothing(now, case):
    if case == "by hand":
        create_client("billing", ["admin"], now)
    elif case == "another tenant":
        apply_declared(billing(BILLING_TENANT="a"), now)
    else:
        apply_declared(declared(OTHER_KEY=OLD, OTHER_SCOPES="jobs:read"), now)
    before = list(ApiKey.objects.values()), list(ApiClient.objects.values())
    with pytest.raises(Conflict) as refused:
        apply_declared((*billing(), *declared(ZZZ_KEY=NEW, ZZZ_SCOPES="jobs:read")), now)
    assert refused.value.message.startswith(f"{START}BILLING_")
    assert OLD not in refused.value.message
    assert before == (list(ApiKey.objects.values()), list(ApiClient.objects.values()))


@pytest.mark.django_db(transaction=True)
def test_servers_that_start_at_once_make_one_client(now):
    changes = together([lambda: apply_declared(billing(), now)] * 4)
    assert sorted(map(len, changes)) == [0, 0, 0, 2]
    assert (ApiClient.objects.count(), ApiKey.objects.count()) == (1, 1)


@pytest.mark.django_db(transaction=True)
def test_a_client_that_is_made_by_hand_at_this_moment_is_a_conflict(now, database):
    if database != "postgresql":
        pytest.skip("one writer at a time on SQLite")
    with Session() as other, Session() as starting:
        other.begin()
        other.run(create_client, "billing", ["jobs:read"], now)
        pid = starting.backend_pid
        applied = starting.start(apply_declared, billing(), now)
        poll_until(lambda: is_waiting_for_lock(pid) or applied.done(), what="the name is waited for")
        other.commit()
        assert isinstance(applied.exception(DEADLINE_SECONDS), Conflict)
    assert not ApiKey.objects.exists()


# By nobody else


@pytest.fixture
def managed(now) -> ApiClient:
    apply_declared(billing(), now)
    return ApiClient.objects.get(name="billing")


def test_the_api_does_not_write_it(managed, now):
    key = ApiKey.objects.get(client=managed)
    api = APIClient()
    api.default_format = "json"
    api.credentials(HTTP_AUTHORIZATION=f"ApiKey {issue_key(create_client('admin', ['admin'], now), now)}")
    for answer in (
        api.put(f"/v1/api-clients/{managed.pk}", {"is_active": False}),
        api.post("/v1/api-keys", {"client_id": managed.pk}),
        api.post(f"/v1/api-keys/{key.pk}/rotate"),
        api.delete(f"/v1/api-keys/{key.pk}"),
    ):
        assert (answer.status_code, answer.json()["error"]) == (409, "managed_by_environment")
    assert api.get(f"/v1/api-clients/{managed.pk}").json()["managed_by"] == "environment"
    assert opens(OLD, now)


def test_the_admin_does_not_write_it(managed, now, admin_client: Client):
    path = reverse("admin:runners_apiclient_change", args=[managed.pk])
    assert b'name="_save"' not in admin_client.get(path).content
    form = {"name": "mine", "scopes": ["admin"], "is_active": "on"}
    assert admin_client.post(path, form).status_code == 409
    key = ApiKey.objects.get(client=managed)
    revoke = {"action": "revoke", "_selected_action": [key.pk]}
    assert admin_client.post(reverse("admin:runners_apikey_changelist"), revoke).status_code == 409
    assert opens(OLD, now)
    managed.refresh_from_db()
    assert (managed.name, managed.scopes) == ("billing", ["jobs:read"])


def test_nor_does_the_command_that_makes_keys(managed):
    with pytest.raises(CommandError, match="CRONIQ_API_CLIENT_"):
        call_command("create_api_key", "billing", "--scopes", "jobs:read", stdout=StringIO(), stderr=StringIO())


# The command


def apply_api_clients() -> str:
    out = StringIO()
    call_command("apply_api_clients", stdout=out)
    return out.getvalue()


def test_the_command_applies_what_the_settings_declare_and_says_no_key(settings, now):
    settings.CRONIQ_API_CLIENTS = billing()
    said = apply_api_clients()
    assert "api_key.issued billing" in said
    assert OLD not in said
    assert OLD not in str(list(AuditEvent.objects.values()))
    assert apply_api_clients() == "1 declared, no changes.\n"


def test_the_command_says_what_contradicts(settings, now):
    create_client("billing", ["admin"], now)
    settings.CRONIQ_API_CLIENTS = billing()
    with pytest.raises(CommandError, match="CRONIQ_API_CLIENT_BILLING_KEY"):
        apply_api_clients()
