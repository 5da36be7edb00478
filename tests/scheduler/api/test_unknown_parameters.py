"""A query parameter that nobody reads is refused by its name: a filter with a typing error filters nothing."""

from __future__ import annotations

import pytest

from tests.scheduler.api.test_access import METHODS, names, path_of

# The runners' protocol ignores what it does not know; scrapers send parameters of their own.
LENIENT = ("v1/work/", "metrics", "v1/openapi.yaml", "v1/docs")
STRICT = [row for row in METHODS if not row[0].startswith(LENIENT)]


@pytest.mark.parametrize(("route", "view", "method"), STRICT, ids=names(STRICT))
def test_an_unknown_parameter_is_400_and_named(api, route, view, method):
    answer = api().generic(method, path_of(route) + "?bogus=1", "{}", content_type="application/json")
    assert answer.status_code == 400
    assert set(answer.json()["fields"]) == {"bogus"}


def test_each_method_says_which_parameters_it_reads():
    undescribed = [
        f"{method} {route}"
        for route, view, method in STRICT
        if not hasattr(getattr(view, method.lower()), "query_names")
    ]
    assert undescribed == []


@pytest.mark.parametrize(
    ("query", "fields"),
    [
        ("stat=failed", {"stat"}),
        ("State=failed", {"State"}),
        ("state=failed&x=1&y=", {"x", "y"}),
        ("state=failed&state=dead", {"state"}),
        ("%00=1", {"\ufffd"}),
        ("%FF=1", {"\ufffd"}),
        ("%E2%80%AEx=1", {"\ufffdx"}),
        ("x" * 3000 + "=1", {"x" * 100}),
        ("limit=5&page_size=5", {"limit"}),
        ("limit=5&cursor=x", {"cursor"}),
        ("limit=x&page_size=5", {"limit"}),
        ("page_size=501", {"page_size"}),
        ("page_size=true", {"page_size"}),
        ("limit=5.0", {"limit"}),
    ],
)
def test_what_is_wrong_with_a_query_is_named(api, query, fields):
    answer = api().get(f"/v1/executions?{query}")
    assert answer.status_code == 400
    assert set(answer.json()["fields"]) == fields


def test_a_typing_error_is_told_what_was_meant(api):
    message = api().get("/v1/executions?job_kye=a:b").json()["message"]
    assert "Did you mean job_key?" in message
    # Twenty are named, however many there are.
    query = "&".join(f"x{n}=1" for n in range(300))
    assert len(api().get(f"/v1/executions?{query}").json()["fields"]) == 20


def test_a_stranger_learns_nothing_of_parameters(api, client, db):
    assert client.get("/v1/executions?bogus=1").status_code == 401
    assert api("jobs:read").get("/v1/executions?bogus=1").status_code == 403


def test_the_work_protocol_ignores_them(api):
    answer = api().post("/v1/work/poll?x=1", {"runner_id": "r", "max_inflight": 0})
    assert answer.status_code == 200


@pytest.mark.parametrize("path", ["/health", "/ready", "/version", "/v1/openapi.yaml"])
@pytest.mark.parametrize("method", ["TRACE", "OPTIONS", "POST"])
def test_where_no_key_is_asked_for_a_method_that_is_not_there_is_405(db, clock, client, method, path):
    answer = client.generic(method, path, secure=True)
    assert (answer.status_code, answer.json()["error"]) == (405, "method_not_allowed")
    assert "GET" in answer["Allow"]
