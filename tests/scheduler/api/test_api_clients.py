"""/v1/api-clients and /v1/api-keys: who may call, and who may say so."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.db import DatabaseError
from rest_framework.test import APIClient

from runners.models import ApiClient, ApiKey, AuditEvent
from runners.services.clients import edit_client, issue_key
from tests.factories import ApiClientFactory
from tests.support.polling import poll_until
from tests.support.races import DEADLINE_SECONDS, Session, is_waiting_for_lock

CLIENTS, KEYS = "/v1/api-clients", "/v1/api-keys"


def with_key(raw_key: str) -> APIClient:
    client = APIClient()
    client.default_format = "json"
    client.credentials(HTTP_AUTHORIZATION=f"ApiKey {raw_key}")
    return client


def test_a_client_and_its_key_are_made_used_and_revoked(api, clock):
    admin = api()
    made = admin.post(CLIENTS, {"name": "billing", "scopes": ["jobs:read"], "tenant": "shop"})
    assert made.status_code == 201
    assert made.json() == {
        "id": ApiClient.objects.get(name="billing").pk,
        "name": "billing",
        "tenant": "shop",
        "scopes": ["jobs:read"],
        "is_active": True,
        "managed_by": "",
        "created_at": "2026-03-02T12:00:00.000000Z",
    }
    key = admin.post(KEYS, {"client_id": made.json()["id"], "expires_in": "1h"}).json()
    assert key["expires_at"] == "2026-03-02T13:00:00.000000Z"
    assert key["key"].startswith(key["prefix"])
    holder = with_key(key["key"])
    assert holder.get("/v1/jobs").status_code == 200
    (listed, *_) = admin.get(f"{KEYS}?client_id={made.json()['id']}").json()
    assert listed == {k: v for k, v in key.items() if k != "key"} | {"last_used_at": "2026-03-02T12:00:00.000000Z"}
    assert key["key"] not in admin.get(KEYS).content.decode()
    assert admin.delete(f"{KEYS}/{key['id']}").status_code == 204
    assert holder.get("/v1/jobs").status_code == 401
    actions = AuditEvent.objects.filter(target_id="billing").order_by("pk").values_list("action", "actor_type")
    assert list(actions) == [
        ("api_client.created", "api_client"),
        ("api_key.issued", "api_client"),
        ("api_key.revoked", "api_client"),
    ]


def test_switched_off_a_client_is_let_in_no_more_and_on_again_it_is(api):
    admin, owner = api(), ApiClientFactory(name="billing", scopes=["jobs:read"])
    holder = with_key(issue_key(owner, owner.created_at))
    assert admin.put(f"{CLIENTS}/{owner.pk}", {"is_active": False}).json()["is_active"] is False
    assert holder.get("/v1/jobs").status_code == 401
    body = admin.put(f"{CLIENTS}/{owner.pk}", {"is_active": True}).json()
    assert (body["name"], body["scopes"]) == ("billing", ["jobs:read"])
    assert holder.get("/v1/jobs").status_code == 200


def test_a_rotated_key_goes_on_for_its_grace(api, clock, now):
    admin, owner = api(), ApiClientFactory()
    old = issue_key(owner, now, expires_at=now + timedelta(days=30))
    row = ApiKey.objects.get(client=owner)
    clock.set(now + timedelta(days=1))
    rotated = admin.post(f"{KEYS}/{row.pk}/rotate", {"grace": "10m"})
    assert rotated.status_code == 201
    assert rotated.json()["expires_at"] == "2026-04-02T12:00:00.000000Z"  # thirty days, as the old one was made for
    for minutes, status in ((9, 200), (10, 401)):
        clock.set(now + timedelta(days=1, minutes=minutes))
        assert with_key(old).get("/v1/jobs").status_code == status
        assert with_key(rotated.json()["key"]).get("/v1/jobs").status_code == 200
    again = admin.post(f"{KEYS}/{row.pk}/rotate")
    assert (again.status_code, again.json()["error"]) == (409, "key_ended")


def test_a_revoked_key_makes_no_new_one(api, now):
    admin, owner = api(), ApiClientFactory()
    issue_key(owner, now)
    row = ApiKey.objects.get(client=owner)
    assert admin.delete(f"{KEYS}/{row.pk}").status_code in (200, 204)
    answer = admin.post(f"{KEYS}/{row.pk}/rotate")
    assert (answer.status_code, answer.json()["error"]) == (409, "key_ended")
    assert ApiKey.objects.filter(client=owner).count() == 1


def test_a_grace_never_lets_a_key_live_longer(api, now):
    admin, owner = api(), ApiClientFactory()
    issue_key(owner, now, expires_at=now + timedelta(minutes=1))
    row = ApiKey.objects.get(client=owner)
    assert admin.post(f"{KEYS}/{row.pk}/rotate", {"grace": "1h"}).status_code == 201
    row.refresh_from_db()
    assert row.expires_at == now + timedelta(minutes=1)


def test_nobody_gives_what_it_has_not(api, now):
    """Not by a new client, not by an edit, and not by a key of a client that has more."""
    keeper = api("api-clients:admin", "jobs:read")
    assert keeper.post(CLIENTS, {"name": "reader", "scopes": ["jobs:read"]}).status_code == 201
    mighty = ApiClientFactory(scopes=["admin"])
    issue_key(mighty, now)
    key = ApiKey.objects.get(client=mighty)
    reader = ApiClient.objects.get(name="reader")
    refused = [
        keeper.post(CLIENTS, {"name": "mighty", "scopes": ["admin"]}),
        keeper.put(f"{CLIENTS}/{reader.pk}", {"scopes": ["jobs:read", "jobs:exec"]}),
        keeper.put(f"{CLIENTS}/{mighty.pk}", {"is_active": False, "scopes": ["jobs:read"]}),
        keeper.post(KEYS, {"client_id": mighty.pk}),
        keeper.post(f"{KEYS}/{key.pk}/rotate"),
        keeper.delete(f"{KEYS}/{key.pk}"),
    ]
    assert [answer.status_code for answer in refused] == [403] * 6
    assert ApiKey.objects.filter(client=mighty).values_list("revoked_at", "expires_at").get() == (None, None)
    assert not ApiClient.objects.filter(name="mighty").exists()


def test_a_tenant_keeps_to_its_own(api, now):
    own = api("api-clients:admin", tenant="shop")
    foreign = ApiClientFactory(tenant=None, scopes=["api-clients:admin"])
    issue_key(foreign, now)
    key = ApiKey.objects.get(client=foreign)
    for answer in (
        own.get(f"{CLIENTS}/{foreign.pk}"),
        own.put(f"{CLIENTS}/{foreign.pk}", {"is_active": False}),
        own.post(KEYS, {"client_id": foreign.pk}),
        own.delete(f"{KEYS}/{key.pk}"),
        own.post(f"{KEYS}/{key.pk}/rotate"),
    ):
        assert answer.status_code == 404, answer.content
    assert [client["name"] for client in own.get(CLIENTS).json()] == [own.owner.name]
    assert [row["client"] for row in own.get(KEYS).json()] == [own.owner.name]
    made = own.post(CLIENTS, {"name": "mine", "scopes": ["api-clients:admin"]})
    assert made.json()["tenant"] == "shop"
    for tenant in (None, "other"):
        answer = own.post(CLIENTS, {"name": "theirs", "scopes": ["api-clients:admin"], "tenant": tenant})
        assert (answer.status_code, list(answer.json()["fields"])) == (400, ["tenant"])
        answer = own.put(f"{CLIENTS}/{made.json()['id']}", {"tenant": tenant})
        assert (answer.status_code, list(answer.json()["fields"])) == (400, ["tenant"])


def test_a_name_that_is_taken_is_409(api):
    ApiClientFactory(name="billing")
    answer = api().post(CLIENTS, {"name": "billing", "scopes": ["jobs:read"]})
    assert (answer.status_code, answer.json()["error"]) == (409, "client_exists")


@pytest.mark.parametrize(
    ("path", "body", "field"),
    [
        (CLIENTS, {"scopes": ["jobs:read"]}, "name"),
        (CLIENTS, {"name": "a", "scopes": "jobs:read"}, "scopes"),
        (CLIENTS, {"name": "a", "scopes": []}, "scopes"),
        (CLIENTS, {"name": "a", "scopes": ["jobs:fly"]}, "scopes"),
        (CLIENTS, {"name": "a", "scopes": ["jobs:read"], "tenant": "A b"}, "tenant"),
        (CLIENTS, {"name": "a", "scopes": ["jobs:read"], "id": 7}, "id"),
        (KEYS, {}, "client_id"),
        (KEYS, {"client_id": True}, "client_id"),
        (KEYS, {"client_id": 2**63}, "client_id"),
        (KEYS, {"client_id": 1, "expires_in": "soon"}, "expires_in"),
        (f"{KEYS}/1/rotate", {"grace": -1}, "grace"),
    ],
)
def test_a_wrong_field_is_named(api, path, body, field):
    answer = api().post(path, body)
    assert (answer.status_code, list(answer.json()["fields"])) == (400, [field])


def test_keys_are_paged_by_their_age(api, now):
    client, owner = api(), ApiClientFactory()
    for _ in range(5):
        issue_key(owner, now)
    seen, path = [], f"{KEYS}?page_size=2&client_id={owner.pk}"
    while path:
        body = client.get(path).json()
        seen += [row["id"] for row in body["results"]]
        path = body["next"]
    assert seen == sorted(ApiKey.objects.filter(client=owner).values_list("pk", flat=True), reverse=True)


def test_the_use_of_a_key_is_noted_once_a_minute(api, clock, now):
    client = api()
    for seconds, noted in ((0, 0), (59, 0), (60, 60), (119, 60)):
        clock.set(now + timedelta(seconds=seconds))
        assert client.get("/v1/jobs").status_code == 200
        assert ApiKey.objects.get(client=client.owner).last_used_at == now + timedelta(seconds=noted)


def test_a_database_that_cannot_be_written_still_lets_its_keys_in(api, monkeypatch):
    client = api()

    def fail(*_, **__):
        raise DatabaseError("read-only")

    monkeypatch.setattr("django.db.models.query.QuerySet.update", fail)
    assert client.get("/v1/jobs").status_code == 200


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("edit", [{"is_active": False}, {"scopes": ["jobs:read"]}])
def test_a_client_that_is_renamed_while_it_is_switched_off_stays_off(api, now, database, edit):
    if database != "postgresql":
        pytest.skip("seen by the lock that is waited for")
    admin = api()
    owner = ApiClientFactory(name="billing", scopes=["jobs:exec", "jobs:read"])
    as_is = {"name": "billing", "scopes": ["jobs:exec", "jobs:read"], "is_active": True}
    with Session() as first, Session() as second:
        first.begin()
        first.run(edit_client, owner.pk, now, **{**as_is, **edit})
        pid = second.backend_pid
        renamed = second.start(admin.put, f"{CLIENTS}/{owner.pk}", {"name": "bills"})
        poll_until(lambda: is_waiting_for_lock(pid) or renamed.done(), what="the rename waits")
        first.commit()
        assert renamed.result(DEADLINE_SECONDS).status_code == 200
    found = ApiClient.objects.get(pk=owner.pk)
    assert {"name": found.name, "scopes": found.scopes, "is_active": found.is_active} == {
        **as_is,
        **edit,
        "name": "bills",
    }


def test_a_key_for_good_that_is_rotated_again_after_a_lost_answer_is_replaced_by_one_for_good(api, now):
    admin, owner = api(), ApiClientFactory()
    issue_key(owner, now)
    row = ApiKey.objects.get(client=owner)
    for _ in range(2):
        assert admin.post(f"{KEYS}/{row.pk}/rotate", {"grace": "10m"}).json()["expires_at"] is None
