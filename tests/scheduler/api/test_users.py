"""/v1/users: people are made, changed and deleted over the API, and somebody who may all stays."""

from __future__ import annotations

import json

import pytest
from django.contrib.auth import authenticate
from django.contrib.auth.models import Group, User
from django.test import Client

from runners.models import AuditEvent
from runners.services.people import create_person
from tests.people.conftest import person

pytestmark = pytest.mark.django_db


@pytest.fixture
def root(api):
    return api("admin")


def put(client: Client, user: User, body: object):
    return client.put(f"/v1/users/{user.pk}", json.dumps(body), content_type="application/json")


def post(client: Client, body: object, path: str = "/v1/users"):
    return client.post(path, json.dumps(body), content_type="application/json")


def test_a_user_is_made_with_a_password_that_is_shown_once(root, now):
    made = post(root, {"username": "vera", "roles": ["operator", "viewer"]})
    assert made.status_code == 201
    body = made.json()
    password = body.pop("password")
    assert body == {
        "id": User.objects.get().pk,
        "username": "vera",
        "roles": ["viewer", "operator"],
        "is_active": True,
        "is_superuser": False,
        "has_password": True,
        "has_second_factor": False,
        "last_login_at": None,
        "created_at": "2026-03-02T12:00:00.000000Z",
    }
    assert authenticate(username="vera", password=password).pk == body["id"]
    assert root.get(f"/v1/users/{body['id']}").json() == body
    assert root.get("/v1/users").json() == [body]
    event = AuditEvent.objects.get(action="user.created")
    assert password not in str(event.diff)
    assert event.diff == {"is_active": True, "is_superuser": False, "roles": ["operator", "viewer"]}


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({}, "username"),
        ({"username": ""}, "username"),
        ({"username": "a b"}, "username"),
        ({"username": "a\x00"}, "username"),
        ({"username": "\ud800"}, "username"),
        ({"username": "x" * 151}, "username"),
        ({"username": 7}, "username"),
        ({"username": "vera", "roles": ["king"]}, "roles"),
        ({"username": "vera", "roles": "viewer"}, "roles"),
        ({"username": "vera", "password": "x"}, "password"),
    ],
    ids=str,
)
def test_what_cannot_be_names_the_field(root, body, field):
    answer = post(root, body)
    assert (answer.status_code, list(answer.json()["fields"])) == (400, [field])
    assert not User.objects.exists()


def test_a_name_is_one_persons_however_it_is_written(root):
    person("caf\u00e9", "viewer")
    for name in ("caf\u00e9", "cafe\u0301"):
        answer = post(root, {"username": name})
        assert (answer.status_code, answer.json()["error"]) == (409, "user_exists")
    assert User.objects.count() == 1


def test_roles_and_whether_he_may_sign_in_are_changed(root):
    vera = person("vera", "viewer")
    person("ada", "admin")
    assert put(root, vera, {"roles": ["admin"]}).json()["roles"] == ["admin"]
    body = put(root, vera, {"is_active": False}).json()
    assert (body["roles"], body["is_active"]) == (["admin"], False)
    assert put(root, vera, {"is_active": "no"}).status_code == 400
    assert put(root, vera, {"is_superuser": True}).status_code == 400
    assert Group.objects.get(name="admin").user_set.count() == 2


def test_the_last_administrator_stays(root):
    ada = person("ada", "admin")
    for answer in (
        put(root, ada, {"roles": []}),
        put(root, ada, {"is_active": False}),
        root.delete(f"/v1/users/{ada.pk}"),
    ):
        assert (answer.status_code, answer.json()["error"]) == (409, "last_admin")
    person("bea", "admin")
    assert root.delete(f"/v1/users/{ada.pk}").status_code == 204
    assert root.delete(f"/v1/users/{ada.pk}").status_code == 404


def test_another_password_ends_his_sessions(root, client):
    vera = person("vera", "viewer")
    client.force_login(vera)
    assert client.get("/jobs").status_code == 200
    wrong = root.post(f"/v1/users/{vera.pk}/password", {"password": "of my own"})
    assert (wrong.status_code, [*wrong.json()["fields"]]) == (400, ["password"])
    assert client.get("/jobs").status_code == 200
    answer = root.post(f"/v1/users/{vera.pk}/password")
    assert authenticate(username="vera", password=answer.json()["password"])
    assert client.get("/jobs").status_code == 302
    assert AuditEvent.objects.get(action="user.updated").diff == {"password": "changed"}


def test_people_are_no_business_of_a_tenants_key_or_of_an_operator(api, client, now):
    user, _ = create_person("vera", now, roles=["operator"])
    client.force_login(user)
    for who in (api("admin", tenant="acme"), client, api("api-clients:admin")):
        assert who.get("/v1/users").status_code == 403
        assert who.get(f"/v1/users/{user.pk}").status_code == 403
