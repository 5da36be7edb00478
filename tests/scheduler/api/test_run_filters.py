"""What narrows the list of runs down: the API gives the verdict that the page gives, of the same runs."""

from __future__ import annotations

from datetime import timedelta
from urllib.parse import parse_qs, urlencode, urlsplit

import pytest

from scheduler.dashboard import pages
from scheduler.queries import run_reach
from tests.factories import JobFactory
from tests.scheduler.dashboard.conftest import client_of, person
from tests.scheduler.dashboard.markup import Page
from tests.scheduler.named_runs import ended, named_runs

MINUTE, HOUR = timedelta(minutes=1), timedelta(hours=1)
API_NAMES = {"job": "job_key", "runner": "runner_id"}
"""Where the protocol calls a filter otherwise."""

FOUND = [
    ({}, "feabcd"),
    ({"kind": "triggered"}, "fc"),
    ({"kind": "replay"}, "d"),
    ({"attempt": "2"}, "eb"),
    ({"attempt": "3"}, "b"),
    ({"error": "DISK full"}, "bc"),
    ({"error": "full:"}, "b"),
    ({"error": "d.sk"}, ""),
    ({"error": "disk", "state": "failed"}, "c"),
    ({"error": "disk", "state": "completed"}, ""),
    ({"tag": "eu"}, "eabcd"),
    ({"tag": "night", "state": "dead"}, "b"),
    ({"tag": "nig"}, ""),
    ({"tenant": "acme"}, "fcd"),
    ({"tenant": "nobody"}, ""),
    ({"tenant": "acme", "tag": "eu", "runner": "r1"}, "d"),
    ({"job": "ops:a", "attempt": "2"}, "eb"),
    ({"job": "crm:b", "tenant": "default"}, ""),
    ({"last": "1h"}, "fea"),
    ({"last": "24h", "state": "dead"}, "b"),
    ({"since": "2026-03-02T09:00:00Z", "until": "2026-03-02T11:30:00Z"}, "bc"),
    ({"last": "30d", "kind": "scheduled", "state": "completed"}, "a"),
]
REFUSED = [
    ({"kind": "odd"}, "kind"),
    ({"last": "2h"}, "last"),
    ({"last": "1h", "since": "2026-03-02T10:00:00Z"}, "last"),
    ({"since": "2026-03-02T10:00:00Z", "until": "2026-03-02T10:00:00Z"}, "until"),
    ({"attempt": "0"}, "attempt"),
    ({"attempt": "1001"}, "attempt"),
    ({"attempt": "9" * 5000}, "attempt"),
    ({"attempt": "\u0661"}, "attempt"),
]


@pytest.fixture
def page(db, clock, monkeypatch):
    monkeypatch.setattr(pages, "DatabaseClock", lambda: clock)
    return client_of(person("vera", "viewer"))


@pytest.fixture
def named(db, now) -> dict[str, str]:
    return named_runs(now)


def path(query: dict[str, str]) -> str:
    return f"/v1/executions?{urlencode({API_NAMES.get(name, name): value for name, value in query.items()})}"


def test_the_api_finds_what_the_page_finds(api, page, named):
    client = api("executions:read")
    told = {}
    for query, letters in FOUND:
        shown = [values.get("id", "") for values in Page(page.get("/runs", query)).all("a")]
        answer = client.get(path(query))
        assert answer.status_code == 200, (query, answer.content)
        assert "Link" not in answer.headers
        told[str(query)] = (
            "".join(named[text[4:]] for text in shown if text.startswith("run-")),
            "".join(named[row["id"]] for row in answer.json()),
            letters,
        )
    assert {query: found for query, found in told.items() if len(set(found)) > 1} == {}


def test_the_api_refuses_what_the_page_refuses_and_names_the_field(api, page, named):
    client = api("executions:read")
    for query, field in REFUSED:
        assert page.get("/runs", query).status_code == 400, query
        answer = client.get(path(query))
        assert (answer.status_code, list(answer.json()["fields"])) == (400, [field]), query


def test_a_key_of_a_tenant_sees_that_ones_runs_whatever_it_asks_for(api, named):
    client = api("executions:read", tenant="acme")
    asked = {"": "fcd", "acme": "fcd", "default": "", "nobody": ""}
    for tenant, letters in asked.items():
        for more, kept in (({}, "fcd"), ({"tag": "eu"}, "cd"), ({"job": "ops:a"}, "")):
            found = client.get(path({"tenant": tenant, **more})).json()
            assert {named[row["id"]] for row in found} == set(letters) & set(kept), (tenant, more)


def test_a_filter_without_an_index_looks_back_in_steps_and_loses_nothing(api, now, monkeypatch):
    monkeypatch.setattr(run_reach, "LOOKED_AT", 5)
    client, job, wanted = api("executions:read"), JobFactory(), []
    for minute in range(1, 24):
        # Several of one instant, also where a look ends.
        run = ended(job, now - minute // 3 * MINUTE, kind="triggered", runner_id="rare" if minute % 7 == 0 else "usual")
        if minute % 7 == 0:
            wanted.append(str(run.pk))
    answer = client.get("/v1/executions?runner_id=rare&limit=2")
    seen, [where] = [row["id"] for row in answer.json()], [answer.headers["Link"].split(";")[0][1:-1]]
    assert parse_qs(urlsplit(where).query)["page_size"] == ["2"]
    looks = 0
    while where:
        body = client.get(where).json()
        seen += [row["id"] for row in body["results"]]
        where, looks = body["next"], looks + 1
        assert len(body["results"]) <= 2
    assert seen == wanted
    assert looks >= 3
    # What an index answers is looked for to the end, and a full array says nothing of a look.
    assert "Link" not in client.get("/v1/executions?limit=2").headers
    full = client.get("/v1/executions?runner_id=usual&limit=3")
    assert (len(full.json()), "Link" in full.headers) == (3, False)
