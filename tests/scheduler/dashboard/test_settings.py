"""Settings: clients and keys, users, tenants, oneself, the doctor."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.contrib.auth import authenticate
from django.contrib.auth.models import User
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from runners.models import ApiClient, ApiKey, AuditEvent
from runners.queries.principals import principal_of
from runners.services.clients import create_client, make_key
from runners.services.declared import ENVIRONMENT
from scheduler.api.views.site import installed_version
from scheduler.queries.diagnostics import diagnostics
from tests.factories import (
    ApiClientFactory,
    DeadLetterFactory,
    HeartbeatFactory,
    JobFactory,
    LaneFactory,
    QueueEntryFactory,
    RunnerFactory,
)
from tests.scheduler.dashboard.conftest import HTMX, client_of, person
from tests.scheduler.dashboard.markup import Page

pytestmark = pytest.mark.django_db


@pytest.fixture
def admin(db) -> Client:
    return client_of(person("ada", "admin"))


@pytest.fixture
def billing(now) -> ApiClient:
    return create_client("billing", ["work:poll"], now)


def path_of(client: ApiClient) -> str:
    return f"/settings/clients/{client.pk}"


def secret_in(answer) -> str:
    """The key or password that the page shows."""
    return answer.content.decode().partition('<code class="secret" tabindex="0">')[2].partition("<")[0]


# Clients and keys


def test_a_new_client_may_nothing_that_nobody_ticked(admin):
    page = Page(admin.get("/settings/clients"))
    assert page.all("input", name="scopes")
    assert not [box for box in page.all("input", name="scopes") if "checked" in box]
    assert "A runner needs work:poll, work:ack" in page.text


def test_a_client_is_made_and_leads_to_its_page(admin):
    form = {"name": "billing", "tenant": "acme", "scopes": ["work:poll", "work:ack"]}
    answer = admin.post("/settings/clients", form)
    made = ApiClient.objects.get()
    assert answer["Location"] == path_of(made)
    assert (made.name, made.tenant, made.scopes) == ("billing", "acme", ["work:ack", "work:poll"])
    assert "billing" in Page(admin.get("/settings/clients")).text
    assert AuditEvent.objects.get(action="api_client.created").actor_id == "ada"


@pytest.mark.parametrize(
    ("form", "says"),
    [
        ({"name": "", "scopes": ["jobs:read"]}, "“Name” is 1 to 255 printable characters"),
        ({"name": "x", "scopes": []}, "at least one"),
        ({"name": "x", "scopes": ["jobs:eat"]}, "Unknown scopes"),
        ({"name": "x", "scopes": ["jobs:read"], "tenant": "No Slug"}, "“Tenant” is 1 to 63 lower-case letters"),
        ({"name": "billing", "scopes": ["jobs:read"]}, "There is an API client named"),
    ],
    ids=["no name", "no scope", "unknown scope", "no slug", "taken"],
)
def test_what_cannot_be_is_said_in_the_form_and_what_was_written_stays(admin, billing, form, says):
    answer = admin.post("/settings/clients", form)
    assert (answer.status_code, says in Page(answer).text) == (400, True)
    assert [values["value"] for values in Page(answer).all("input", id="name")] == [form["name"]]
    assert ApiClient.objects.count() == 1


def test_all_that_is_wrong_with_a_client_is_said_at_once(admin):
    page = Page(admin.post("/settings/clients", {"name": " ", "tenant": "No Slug"}))
    assert [one["id"] for one in page.all("p", class_="error")] == ["name-error", "tenant-error", "scopes-error"]
    assert "tick at least one" in page.text


def test_a_key_is_shown_once_and_a_form_that_is_sent_twice_makes_one(admin, billing, now):
    form = {"newest": "0", "expires_in": "90d"}
    answer = admin.post(f"{path_of(billing)}/key", form)
    raw = secret_in(answer)
    assert "no-store" in answer["Cache-Control"]
    assert principal_of(raw, now).name == "billing"
    key = ApiKey.objects.get()
    assert key.expires_at == now + timedelta(days=90)
    page = admin.get(path_of(billing))
    assert (raw in page.content.decode(), f"{key.prefix}…" in Page(page).text) == (False, True)
    again = admin.post(f"{path_of(billing)}/key", form)
    assert (again.status_code, secret_in(again), ApiKey.objects.count()) == (400, "", 1)
    assert "was made since you looked" in Page(again).text
    assert raw not in str(list(AuditEvent.objects.values()))


@pytest.mark.parametrize(
    "form",
    [{"newest": "0", "expires_in": "soon"}, {"newest": "x"}, {"newest": "9" * 5000}, {}],
    ids=["no duration", "no number", "a number of 5000 digits", "nothing"],
)
def test_a_key_that_cannot_be_is_not_made(admin, billing, form):
    assert admin.post(f"{path_of(billing)}/key", form).status_code == 400
    assert not ApiKey.objects.exists()


def test_a_rotated_key_goes_on_for_the_overlap(admin, billing, now):
    old, _ = make_key(billing, now)
    answer = admin.post(f"/settings/keys/{old.pk}/rotate", {"newest": str(old.pk), "grace": "2h"})
    old.refresh_from_db()
    assert old.expires_at == now + timedelta(hours=2)
    new = ApiKey.objects.exclude(pk=old.pk).get()
    assert (principal_of(secret_in(answer), now).key_id, new.expires_at) == (new.pk, None)
    assert f"The one that it takes the place of, {old.prefix}…" in Page(answer).text
    assert admin.post(f"/settings/keys/{old.pk}/rotate", {"newest": str(old.pk)}).status_code == 400
    assert admin.post(f"/settings/keys/{old.pk}/rotate", {"newest": str(new.pk), "grace": "x"}).status_code == 400
    assert ApiKey.objects.count() == 2


def test_a_revoked_key_opens_nothing_and_is_not_rotated(admin, billing, now):
    key, raw = make_key(billing, now)
    answer = admin.post(f"/settings/keys/{key.pk}/revoke", follow=True)
    assert "opens nothing any more" in Page(answer).text
    assert principal_of(raw, now) is None
    assert "Revoked" in Page(admin.get(path_of(billing))).text
    again = admin.post(f"/settings/keys/{key.pk}/rotate", {"newest": str(key.pk)})
    assert (again.status_code, ApiKey.objects.count()) == (400, 1)


def test_a_client_is_changed_and_switched_off(admin, billing):
    answer = admin.post(path_of(billing), {"name": "invoices", "scopes": ["jobs:read"]})
    assert answer["Location"] == path_of(billing)
    billing.refresh_from_db()
    assert (billing.name, billing.scopes, billing.is_active) == ("invoices", ["jobs:read"], False)
    assert admin.post(path_of(billing), {"name": "", "scopes": ["jobs:read"]}).status_code == 400
    assert admin.get("/settings/clients/987654321").status_code == 404
    assert admin.post("/settings/keys/987654321/revoke").status_code == 404


def test_what_the_environment_declares_is_looked_at_alone(admin, billing, now):
    key, _ = make_key(billing, now)
    ApiClient.objects.update(managed_by=ENVIRONMENT)
    page = Page(admin.get(path_of(billing)))
    assert "The environment of the servers declares this client" in page.text
    assert not [form for form in page.all("form") if "/settings/" in form["action"]]
    assert admin.post(path_of(billing), {"name": "x", "scopes": ["jobs:read"]}).status_code == 400
    assert admin.post(f"{path_of(billing)}/key", {"newest": str(key.pk)}).status_code == 400
    admin.post(f"/settings/keys/{key.pk}/revoke")
    assert ApiKey.objects.filter(revoked_at=None).count() == 1


def test_no_page_of_an_operator_makes_keys_or_users(operator, viewer, billing):
    for who in (operator, viewer):
        for path in ("/settings/clients", path_of(billing), "/settings/users", "/settings/doctor"):
            assert who.get(path).status_code == 403
        assert who.post(f"{path_of(billing)}/key", {"newest": "0"}).status_code == 403
        tabs = Page(who.get("/settings")).links("/settings/")
        assert "/settings/clients" not in tabs
        assert "/settings/tenants" in tabs
    assert not ApiKey.objects.exists()


def test_whoever_may_make_keys_gives_nothing_that_he_has_not(now):
    """Somebody with the permission for keys, and nothing else."""
    from django.contrib.auth.models import Permission

    user = User.objects.create_user("kim")
    user.user_permissions.set(Permission.objects.filter(codename__in=["change_apikey", "view_job"]))
    kim, strong = client_of(user), create_client("strong", ["admin"], now)
    key, _ = make_key(strong, now)
    for scope in ("admin", "work:poll"):
        assert kim.post("/settings/clients", {"name": "x", "scopes": [scope]}).status_code == 403
    assert kim.post(f"{path_of(strong)}/key", {"newest": str(key.pk)}).status_code == 403
    assert kim.post(f"/settings/keys/{key.pk}/rotate", {"newest": str(key.pk)}).status_code == 403
    assert kim.post(f"/settings/keys/{key.pk}/revoke").status_code == 403
    # Neither changes what has more than he has, nor lets what has less have more.
    weak = create_client("weak", ["api-clients:admin"], now)
    for one in (strong, weak):
        form = {"name": "mine", "scopes": ["admin"], "is_active": "on"}
        assert kim.post(path_of(one), form).status_code == 403
    assert kim.post(path_of(strong), {"name": "mine", "scopes": ["api-clients:admin"]}).status_code == 403
    assert set(ApiClient.objects.values_list("name", flat=True)) == {"strong", "weak"}
    weak.delete()
    assert (ApiClient.objects.count(), ApiKey.objects.filter(revoked_at=None).count()) == (1, 1)


def test_the_lists_cost_as_many_queries_with_thirty_rows_as_with_three(admin, billing, now):
    counts = []
    for rows in (range(3), range(3, 30)):
        for number in rows:
            make_key(billing, now)
            ApiClientFactory()
            person(f"user-{number}", "viewer")
        asked = []
        for path in ("/settings/clients", path_of(billing), "/settings/users", "/settings"):
            with CaptureQueriesContext(connection) as queries:
                assert admin.get(path).status_code == 200
            asked.append(len(queries))
        counts.append(asked)
    assert counts[0] == counts[1]
    assert max(counts[0]) <= 15


# Users


def opens_only_what_changes_it(user: User, password: str) -> None:
    """A password that somebody else knows."""
    hers = Client()
    sign_in = {"username": user.username, "password": password}
    assert hers.post("/sign-in", {**sign_in, "next": ""})["Location"] == "/now"
    for path in ("/now", "/jobs", "/runs?state=dead"):
        assert (hers.get(path).status_code, hers.get(path)["Location"]) == (302, "/password")
    assert hers.post("/jobs/a:b/run")["Location"] == "/password"
    assert hers.get("/runs", headers=HTMX)["HX-Redirect"] == "/password"
    assert hers.get("/v1/jobs").status_code == 403
    assert hers.get("/admin/", follow=True).redirect_chain[-1][0] == "/password"
    assert "Somebody else made the password" in Page(hers.get("/password")).text
    chosen = {"old_password": password, "new_password1": "a secret of hers", "new_password2": "a secret of hers"}
    assert hers.post("/password", chosen)["Location"] == "/now"
    assert (hers.get("/now").status_code, hers.get("/v1/jobs").status_code) == (200, 200)
    assert "Somebody else" not in Page(hers.get("/password")).text
    user.set_password(password)
    user.save()


def test_a_user_is_made_with_a_password_that_is_shown_once(admin):
    answer = admin.post("/settings/users", {"username": "vera", "role": "viewer"})
    password, vera = secret_in(answer), User.objects.get(username="vera")
    assert authenticate(username="vera", password=password) == vera
    assert list(vera.groups.values_list("name", flat=True)) == ["viewer"]
    opens_only_what_changes_it(vera, password)
    assert password not in admin.get(f"/settings/users/{vera.pk}").content.decode()
    again = admin.post("/settings/users", {"username": "vera", "role": "viewer"})
    assert (again.status_code, secret_in(again)) == (400, "")
    assert "There is a user named" in Page(again).text


@pytest.mark.parametrize(("username", "role"), [("", "viewer"), ("a b", ""), ("vera", "king")])
def test_a_user_that_cannot_be_is_not_made(admin, username, role):
    assert admin.post("/settings/users", {"username": username, "role": role}).status_code == 400
    assert User.objects.count() == 1


def test_roles_and_signing_in_are_changed_and_the_last_admin_stays(admin):
    ada, vera = User.objects.get(), person("vera", "viewer")
    path = f"/settings/users/{vera.pk}"
    assert admin.post(path, {"roles": ["operator"]})["Location"] == path
    vera.refresh_from_db()
    assert (vera.is_active, list(vera.groups.values_list("name", flat=True))) == (False, ["operator"])
    for form in ({"roles": ["admin"]}, {"is_active": "on"}):
        answer = admin.post(f"/settings/users/{ada.pk}", form)
        assert (answer.status_code, "Nobody would be left" in Page(answer).text) == (400, True)
    answer = admin.post(f"/settings/users/{ada.pk}/delete", {"typed": "ada"}, follow=True)
    assert "Nobody would be left" in Page(answer).text
    assert admin.post(path, {"roles": ["king"]}).status_code == 400


@pytest.mark.parametrize("is_superuser", [False, True])
def test_a_lost_password_is_made_anew_and_a_user_deleted(admin, is_superuser):
    vera = person("vera", "viewer")
    User.objects.filter(pk=vera.pk).update(is_staff=is_superuser, is_superuser=is_superuser)
    hers = client_of(vera)
    answer = admin.post(f"/settings/users/{vera.pk}/password")
    assert authenticate(username="vera", password=secret_in(answer)) == vera
    opens_only_what_changes_it(vera, secret_in(answer))
    assert hers.get("/settings").status_code == 302
    assert admin.post(f"/settings/users/{vera.pk}/delete", {"typed": "ve"}).status_code == 400
    admin.post(f"/settings/users/{vera.pk}/delete", {"typed": "vera"})
    assert not User.objects.filter(username="vera").exists()
    assert admin.get(f"/settings/users/{vera.pk}").status_code == 404


# Oneself, tenants, the doctor


def test_ones_own_page_says_who_one_is_also_without_a_role(settings, viewer):
    settings.CRONIQ_TOTP = True
    nobody = client_of(person("kim"))
    page = Page(nobody.get("/settings"))
    assert "none: an administrator can give you one" in page.text
    assert {"/password", "/second-factor", "/time-zone"} <= {values["href"] for values in page.all("a")}
    assert "/settings/tenants" not in page.links("/settings")
    assert "viewer" in Page(viewer.get("/settings")).text
    settings.CRONIQ_TOTP = False
    assert not Page(viewer.get("/settings")).links("/second-factor")


def test_tenants_are_counted(viewer, now):
    JobFactory(tenant="acme", paused_at=now)
    job = JobFactory(tenant="acme", lane=LaneFactory(tenant="acme"))
    QueueEntryFactory(job=job, available_at=now)
    QueueEntryFactory(job=job, available_at=now + timedelta(hours=1))
    RunnerFactory(client=ApiClientFactory(tenant="globex"))
    RunnerFactory(client=ApiClientFactory(tenant="globex"), last_poll_at=now - timedelta(hours=1))
    page = Page(viewer.get("/settings/tenants"))
    assert "acme 2 1 0 0 0 0 1" in page.text
    assert "globex 0 0 0 2 1 0 0" in page.text
    assert "default" in page.text


def test_the_doctor_says_on_its_page_what_it_says_elsewhere(admin, now):
    for kind in ("serve", "materialize"):
        HeartbeatFactory(kind=kind, beat_at=now, tick_at=now)
    found = diagnostics(now, installed_version())
    page = Page(admin.get("/settings/doctor"))
    assert found.problems
    for said in (*found.problems, *found.retention, *found.versions.values(), *found.versions):
        assert said in page.text, said
    seen = page.all("div", id="doctor")[0]["hx-get"]
    assert admin.get(seen, headers=HTMX).status_code == 204
    HeartbeatFactory(kind="reap", beat_at=now, tick_at=now)
    DeadLetterFactory()  # is for Now to say
    answer = admin.get("/settings/doctor")
    page = Page(answer)
    assert "The installation is well." in page.text
    assert "All is well" not in page.text
    assert b'is said by <a href="/now">Now</a>' in answer.content
    assert "Whether their jobs fail, are late or have dead letters" in page.text
