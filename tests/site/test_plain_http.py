"""What a server that expects https says to plain http: pages move, machines are answered where they are."""

from __future__ import annotations

import pytest
from django.test import Client

pytestmark = pytest.mark.django_db


@pytest.fixture
def plain(settings) -> Client:
    settings.SECURE_SSL_REDIRECT = True  # as it is unless CRONIQ_HTTPS is off
    return Client()


@pytest.mark.parametrize("path", ["/health", "/ready", "/version", "/metrics"])
def test_a_probe_from_inside_is_answered_over_plain_http(plain, path):
    assert plain.get(path).status_code not in (301, 302, 307, 308)


@pytest.mark.parametrize("path", ["/v1/trigger", "/v1/jobs/register", "/v1/jobs", "/v1/executions"])
def test_an_sdk_which_follows_no_redirects_is_answered_over_plain_http(plain, path):
    answer = plain.post(path, {}, content_type="application/json")
    assert (answer.status_code, answer.json()["error"]) in ((401, "unauthorized"), (405, "method_not_allowed"))


@pytest.mark.parametrize("path", ["/", "/runs", "/sign-in", "/admin/"])
def test_a_page_is_shown_over_https_only(plain, path):
    answer = plain.get(path)
    assert (answer.status_code, answer["Location"]) == (301, f"https://testserver{path}")
