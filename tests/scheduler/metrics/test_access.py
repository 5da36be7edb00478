"""Who may read `/metrics`: closed to the world, also to the world behind a proxy that sits on this very host."""

from __future__ import annotations

import httpx
import pytest
from rest_framework.test import APIClient

from runners.services.clients import issue_key
from tests.factories import NOW, ApiClientFactory
from tests.support.server import live_edge


def status(address: str, **headers: str) -> int:
    return APIClient().get("/metrics", REMOTE_ADDR=address, **{f"HTTP_{k}": v for k, v in headers.items()}).status_code


@pytest.fixture(autouse=True)
def rules(db, clock, settings) -> None:
    settings.CRONIQ_METRICS_ALLOW = ["127.0.0.0/8", "::1/128", "10.0.0.0/8"]


@pytest.mark.parametrize("address", ["127.0.0.1", "::1", "::ffff:127.0.0.1", "10.9.8.7"])
def test_an_allowed_address_needs_no_key(address):
    assert status(address) == 200


@pytest.mark.parametrize(
    "header", ["X_FORWARDED_FOR", "FORWARDED", "X_REAL_IP", "VIA", "X_FORWARDED_PROTO", "X_FORWARDED_HOST"]
)
@pytest.mark.parametrize("address", ["127.0.0.1", "::1", "10.9.8.7"])
def test_what_a_proxy_at_an_allowed_address_passes_on_needs_one(header, address):
    assert status(address, **{header: "203.0.113.9"}) == 401


@pytest.mark.parametrize("said", ["127.0.0.1", "::1", "127.0.0.1, 203.0.113.9", "10.9.8.7, 203.0.113.9"])
@pytest.mark.parametrize("address", ["127.0.0.1", "::1", "10.9.8.7"])
def test_a_stranger_behind_it_cannot_say_that_he_is_here(address, said):
    assert status(address, X_FORWARDED_FOR=said) == 401


def test_a_client_that_a_trusted_proxy_names_is_judged_by_its_own_address():
    # uvicorn has put the client in the proxy's place: it is the last that the proxy knows of.
    assert status("10.9.8.7", X_FORWARDED_FOR="10.9.8.7") == 200
    assert status("10.9.8.7", X_FORWARDED_FOR="192.0.2.1, 10.9.8.7", X_FORWARDED_PROTO="https") == 200
    assert status("203.0.113.9", X_FORWARDED_FOR="203.0.113.9") == 401


def test_a_key_opens_it_from_anywhere():
    key = issue_key(ApiClientFactory(scopes=["metrics:read"]), NOW)
    other = issue_key(ApiClientFactory(scopes=["jobs:read"]), NOW)
    assert status("203.0.113.9", AUTHORIZATION=f"ApiKey {key}") == 200
    assert status("127.0.0.1", AUTHORIZATION=f"ApiKey {key}", X_FORWARDED_FOR="203.0.113.9") == 200
    assert status("203.0.113.9", AUTHORIZATION=f"ApiKey {other}") == 403


@pytest.mark.django_db(transaction=True)
def test_the_same_through_the_web_server():
    with live_edge() as server:
        assert server.get("/metrics").status_code == 200
        for said in ("203.0.113.9", "127.0.0.1", "127.0.0.1, 203.0.113.9", "203.0.113.9, 127.0.0.1"):
            answer = httpx.get(f"{server.base_url}/metrics", headers={"x-forwarded-for": said})
            assert answer.status_code == 401, said
        passed_on = {"x-forwarded-for": "10.9.8.7"}  # the proxy on this host is one that the web server trusts
        assert httpx.get(f"{server.base_url}/metrics", headers=passed_on).status_code == 200
