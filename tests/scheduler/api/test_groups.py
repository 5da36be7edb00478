"""/v1/concurrency-groups."""

from __future__ import annotations

import pytest

from scheduler.models import ConcurrencyGroup, Job
from tests.factories import ConcurrencyGroupFactory

PATH = "/v1/concurrency-groups"


def test_a_group_is_made_changed_listed_used_and_deleted(api):
    client = api("jobs:read", "jobs:write")
    answer = client.put(f"{PATH}/db/eu west", {"max_concurrent": 2})
    assert (answer.status_code, answer.json()) == (
        201,
        {"name": "db/eu west", "tenant": "default", "max_concurrent": 2},
    )
    changed = {"name": "db/eu west", "tenant": "default", "max_concurrent": 3}
    answer = client.put(f"{PATH}/db/eu west", changed)
    assert (answer.status_code, answer.json()) == (200, changed)
    assert client.get(PATH).json() == [changed]
    job = {
        "job_key": "a:b",
        "concurrency_group": "db/eu west",
        "max_concurrent": 1,
        "overlap": "skip",
        "coalesce": True,
    }
    answer = client.post("/v1/jobs", job | {"queue_ttl": "5m"})
    assert answer.status_code == 201, answer.json()
    assert {**answer.json(), **job, "queue_ttl": "300s"} == answer.json()
    assert client.delete(f"{PATH}/db/eu west").json()["error"] == "group_in_use"
    assert client.put("/v1/jobs/a:b", {"concurrency_group": None}).json()["concurrency_group"] is None
    assert client.delete(f"{PATH}/db/eu west").status_code == 204
    assert client.delete(f"{PATH}/db/eu west").status_code == 404


def test_a_job_of_a_group_that_nobody_made_is_refused(api):
    answer = api().post("/v1/jobs", {"job_key": "a:b", "concurrency_group": "db"})
    assert answer.status_code == 400
    assert list(answer.json()["fields"]) == ["concurrency_group"]
    assert not Job.objects.exists()


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({}, "max_concurrent"),
        ({"max_concurrent": 0}, "max_concurrent"),
        ({"max_concurrent": "2"}, "max_concurrent"),
        ({"max_concurrent": 1, "name": "other"}, "name"),
        ({"max_concurrent": 1, "tenant": "other"}, "tenant"),
        ({"max_concurrent": 1, "limit": 1}, "limit"),
    ],
)
def test_nonsense_is_refused_by_field(api, body, field):
    answer = api().put(f"{PATH}/db", body)
    assert answer.status_code == 400
    assert list(answer.json()["fields"]) == [field]
    assert not ConcurrencyGroup.objects.exists()


def test_tenants_have_groups_of_their_own(api):
    theirs = ConcurrencyGroupFactory(name="db", tenant="acme", max_concurrent=7)
    own = api(tenant="beta")
    assert own.get(PATH).json() == []
    assert own.delete(f"{PATH}/db").status_code == 404
    assert own.put(f"{PATH}/db?tenant=acme", {"max_concurrent": 1}).json()["tenant"] == "beta"
    theirs.refresh_from_db()
    assert theirs.max_concurrent == 7
    everybody = api()
    assert everybody.put(f"{PATH}/db?tenant=acme", {"max_concurrent": 8}).status_code == 200
    assert everybody.put(f"{PATH}/db?tenant=A!", {"max_concurrent": 8}).status_code == 400
    pages, url = [], f"{PATH}?page_size=1"
    while url:
        page = everybody.get(url).json()
        pages += [(row["name"], row["tenant"]) for row in page["results"]]
        url = page["next"]
    assert pages == [("db", "acme"), ("db", "beta")]


def test_scopes(api):
    assert api("jobs:read").put(f"{PATH}/db", {"max_concurrent": 1}).status_code == 403
    assert api("jobs:write").get(PATH).status_code == 403
