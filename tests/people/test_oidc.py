"""Signing in with an OpenID provider: a process of its own that speaks the protocol over HTTP, also a hostile one."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest
from django.contrib.auth.models import User
from django.test import Client

from croniq_site.people.configuration import Oidc
from runners.models import AuditEvent
from tests.architecture.tree import ROOT
from tests.people.conftest import person
from tests.support.oidc_provider import CLIENT_ID, CLIENT_SECRET

pytestmark = pytest.mark.django_db

ROLES = (
    ("viewer", frozenset({"everybody"})),
    ("operator", frozenset({"ops", "on-call"})),
    ("admin", frozenset({"chiefs"})),
)


@pytest.fixture(scope="module")
def issuer() -> Iterator[str]:
    command = [sys.executable, "-m", "tests.support.oidc_provider"]
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        yield process.stdout.readline().strip()
        process.stdin.close()
        process.wait(20)


@pytest.fixture
def provider(issuer, settings) -> Callable[..., None]:
    """Say what the provider will say of the next who comes."""
    settings.CRONIQ_OIDC = Oidc(issuer, CLIENT_ID, CLIENT_SECRET, "Our people", "groups", ROLES)

    def says(**told: Any) -> None:
        httpx.post(f"{issuer}/next", content=json.dumps(told), timeout=20)

    says(claims={"sub": "7", "preferred_username": "vera", "groups": ["everybody"]})
    return says


def come_back(client: Client, where: str = ""):
    """Go to the provider and come back with its code."""
    there = client.get("/sign-in/oidc", {"next": where} if where else {})
    assert there.status_code == 302, there.content.decode()
    back = httpx.get(there["Location"], timeout=20)
    assert back.status_code == 302, back.text
    return client.get(back.headers["Location"])


def is_signed_in(client: Client) -> bool:
    return "_auth_user_id" in client.session


def test_without_a_provider_there_is_nothing_of_it(client):
    assert b"oidc" not in client.get("/sign-in").content
    for path in ("/sign-in/oidc", "/sign-in/oidc/callback?code=x&state=y"):
        assert client.get(path).status_code == 404


def test_somebody_comes_for_the_first_time_and_again(client, provider, issuer):
    assert b"Our people" in client.get("/sign-in").content
    there = urlsplit(client.get("/sign-in/oidc")["Location"])
    asked = parse_qs(there.query)
    assert f"{there.scheme}://{there.netloc}" == issuer
    assert {"code_challenge", "nonce", "state"} <= set(asked)
    assert asked["redirect_uri"] == ["http://testserver/sign-in/oidc/callback"]
    answer = come_back(client, "/runs?state=dead")
    assert (answer.status_code, answer["Location"]) == (302, "/runs?state=dead")
    user = User.objects.get()
    assert (user.username, user.has_usable_password()) == ("vera", False)
    assert client.get("/jobs").status_code == 200
    again = Client()
    assert come_back(again)["Location"] == "/now"
    assert User.objects.count() == 1


def test_the_way_back_leads_to_no_other_site(client, provider):
    assert come_back(client, "//evil.example/")["Location"] == "/now"


HOSTILE = {
    "another nonce": {"id_token": {"nonce": "of another sign-in"}},
    "no nonce": {"id_token": {"nonce": None}},
    "another audience": {"id_token": {"aud": "somebody-else"}},
    "expired": {"id_token": {"exp": 1}},
    "another issuer": {"id_token": {"iss": "http://127.0.0.1:1"}},
    "another key": {"signed_by": "another"},
    "no signature": {"signed_by": "nobody"},
    "a secret for a key": {"signed_by": "the public key"},
    "no id_token": {"signed_by": "not at all"},
    "no subject": {"id_token": {"sub": ""}},
    "for ever": {"id_token": {"exp": None}},
    "a provider by another name": {
        "configuration": {"issuer": "https://another.example"},
        "id_token": {"iss": "https://another.example"},
    },
}


@pytest.mark.parametrize("told", HOSTILE.values(), ids=HOSTILE)
def test_an_id_token_that_cannot_be_believed_lets_nobody_in(client, provider, told, caplog):
    provider(claims={"sub": "7", "preferred_username": "vera", "groups": ["chiefs"]}, **told)
    answer = come_back(client)
    assert answer.status_code == 401
    assert b"You are not signed in" in answer.content
    assert not is_signed_in(client)
    assert not User.objects.exists()
    assert "sign-in with the OpenID provider failed" in caplog.text


def test_a_code_is_of_the_session_that_asked_for_it_and_once(client, provider):
    """Who is led to a link with somebody else's code is not signed in as him."""
    there = client.get("/sign-in/oidc")["Location"]
    link = httpx.get(there, timeout=20).headers["Location"]
    other = Client()
    assert other.get(link).status_code == 401
    assert not is_signed_in(other)
    assert client.get(link).status_code == 302
    client.post("/sign-out")
    assert client.get(link).status_code == 401


def test_a_provider_that_is_away_is_a_page(client, provider, settings):
    settings.CRONIQ_OIDC = Oidc("http://127.0.0.1:9", CLIENT_ID, CLIENT_SECRET)
    assert client.get("/sign-in/oidc").status_code == 401


def test_a_refusal_of_the_provider_is_a_page(client, provider):
    state = parse_qs(urlsplit(client.get("/sign-in/oidc")["Location"]).query)["state"][0]
    assert client.get("/sign-in/oidc/callback", {"error": "server_error", "state": state}).status_code == 401


@pytest.mark.parametrize(
    ("groups", "roles"),
    [
        (["everybody"], {"viewer"}),
        (["on-call", "everybody", "others"], {"viewer", "operator"}),
        ("chiefs", {"admin"}),
        (["nothing of ours"], set()),
        ({"everybody": 1}, set()),
        (None, set()),
    ],
)
def test_groups_are_roles_at_each_sign_in(client, provider, groups, roles):
    person("root", "admin")
    come_back(client)
    provider(claims={"sub": "7", "groups": groups})
    come_back(Client())
    user = User.objects.get(username="vera")
    assert set(user.groups.values_list("name", flat=True)) == roles
    assert user.is_staff == ("admin" in roles)
    event = AuditEvent.objects.filter(action="user.updated").latest("pk")
    assert (event.actor_id, event.target_id) == ("oidc", "vera")


def test_without_a_claim_roles_are_given_here(client, provider, issuer, settings):
    settings.CRONIQ_OIDC = Oidc(issuer, CLIENT_ID, CLIENT_SECRET)
    come_back(client)
    assert client.get("/jobs").status_code == 403
    User.objects.get().groups.add(*person("x", "viewer").groups.all())
    come_back(Client())
    assert client.get("/jobs").status_code == 200


def test_the_last_admin_comes_in_as_one_whatever_the_provider_says(client, provider, caplog):
    provider(claims={"sub": "1", "preferred_username": "ada", "groups": ["chiefs"]})
    come_back(client)
    provider(claims={"sub": "1", "groups": []})
    assert come_back(Client()).status_code == 302
    assert User.objects.get().groups.get().name == "admin"
    assert "stay as they are" in caplog.text


def test_a_name_that_is_taken_is_not_taken_over(client, provider):
    """Who calls himself at the provider as an administrator does here is somebody else all the same."""
    ada = person("vera", "admin", email="vera@example.org")
    provider(claims={"sub": "9", "preferred_username": "vera", "email": "vera@example.org", "email_verified": True})
    come_back(client)
    assert client.session["_auth_user_id"] != str(ada.pk)
    assert User.objects.count() == 2


def test_who_is_switched_off_stays_out(client, provider):
    come_back(client)
    User.objects.update(is_active=False)
    other = Client()
    come_back(other)
    assert not is_signed_in(other)
