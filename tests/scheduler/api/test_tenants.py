"""Tenants: what is another's is not there, is not changed by asking for it, and shows in no answer. Read from the URL
conf: a new call that takes or shows something foreign fails here."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.apps import apps

from runners.domain.scopes import Principal
from scheduler.domain.polls import PollRequest
from scheduler.services.groups import save_group
from scheduler.services.identity import admit
from scheduler.services.jobs import save_job
from tests.factories import ApiClientFactory, LaneFactory, QueueEntryFactory, RunnerFactory, SlotFactory
from tests.scheduler.api.calls import (
    ABSENT,
    ACTOR,
    CHANGES_NOTHING,
    WRITES,
    World,
    Write,
    all_calls,
    build_world,
    path_of,
)

CALLS = {call.name: call for call in all_calls()}
PUBLIC = {"GET /health", "GET /ready", "GET /version", "GET /v1/openapi.yaml", "GET /v1/docs"}

FOREIGN: dict[str, tuple[dict[str, Any], set[int]]] = {
    "POST /v1/trigger": ({"job_key": "{job_key}"}, {404}),
    "POST /v1/jobs": ({"job_key": "{job_key}", "description": "mine"}, {404}),
    "POST /v1/jobs/register": ({"job_key": "{job_key}", "schedule": "5m"}, {404}),
    "POST /v1/schedules": ({"job_key": "{job_key}", "every": "2h"}, {404}),
    "POST /v1/calendars": ({"name": "x", "timezone": "UTC", "tenant": "{tenant}"}, {400}),
    "POST /v1/api-clients": ({"name": "x", "scopes": ["jobs:read"], "tenant": "{tenant}"}, {400}),
    "POST /v1/api-keys": ({"client_id": "{client_id}"}, {404}),
    "POST /v1/alert-channels": (
        {"name": "x", "kind": "email", "target": "a@b.example", "tenant": "{tenant}"},
        {400},
    ),
    "POST /v1/alert-rules": ({"name": "x", "kind": "failed", "channels": ["{channel}"]}, {400}),
    "POST /v1/alert-exemptions": (
        {"effect": "snooze", "duration": "1h", "note": "x", "rule": "{tenant}-rule"},
        {400},
    ),
    # Of many, those that are another's are none.
    "POST /v1/jobs/bulk-pause": ({"job_keys": ["{job_key}"]}, {200}),
    "POST /v1/jobs/bulk-resume": ({"job_keys": ["{paused}"]}, {200}),
    "POST /v1/jobs/bulk-delete": ({"job_keys": ["{job_key}"]}, {200}),
    "POST /v1/jobs/bulk-tag": ({"job_keys": ["{job_key}"], "add": ["y"]}, {200}),
    "POST /v1/executions/bulk-cancel": ({"ids": ["{execution_id}"]}, {200}),
    "POST /v1/executions/bulk-replay": ({"ids": ["{cancelled}"]}, {200}),
    "POST /v1/dead-letters/bulk-delete": ({"ids": ["{letter_id}"]}, {200}),
    "POST /v1/dead-letters/bulk-replay": ({"ids": ["{letter_id}"]}, {200}),
    # All of them: maintenance is everybody's.
    "PUT /v1/system/maintenance": ({}, {403}),
    "DELETE /v1/system/maintenance": ({}, {403}),
    # People are of no tenant.
    "POST /v1/users": ({"username": "x"}, {403}),
    "GET /v1/users/{user_id}": ({}, {403}),
    "PUT /v1/users/{user_id}": ({"roles": []}, {403}),
    "DELETE /v1/users/{user_id}": ({}, {403}),
    "POST /v1/users/{user_id}/password": ({}, {403}),
    # A group is named within its tenant: this makes one of the caller's own.
    "PUT /v1/concurrency-groups/{name}": ({"max_concurrent": 3}, {201}),
}
"""Calls without an id in their path, with one of another tenant in their body, and what is answered."""


@pytest.fixture
def worlds(db, now) -> dict[str, World]:
    return {tenant: build_world(tenant, now) for tenant in ("acme", "other")}


def rows() -> dict[str, dict[object, dict]]:
    """Every row of every table of ours, by table and key; of a key when it was last used is left out."""
    models = [model for app in ("scheduler", "calendars", "runners") for model in apps.get_app_config(app).get_models()]
    found = {model.__name__: {row[model._meta.pk.attname]: row for row in model.objects.values()} for model in models}
    for row in found["ApiKey"].values():
        del row["last_used_at"]
    return found


def test_each_call_with_an_id_of_another_tenant_is_404_and_changes_nothing(api, worlds):
    client, mine = api("admin", tenant="other"), worlds["other"]
    before, wrong = rows(), {}
    for name, call in CALLS.items():
        if name in FOREIGN or not call.parameters or name.startswith("POST /v1/work/"):
            continue
        write = WRITES.get(name)
        body = write.said(worlds["acme"]) if write else CHANGES_NOTHING.get(name, {})
        answer = client.generic(
            call.method, path_of(call, worlds["acme"]), json.dumps(body), content_type="application/json"
        )
        # It answers as for what never was: nobody learns that it is there.
        absent = _with_what_never_was(client, call, body)
        if answer.status_code != 404 or answer.json()["error"] != absent.json()["error"]:
            wrong[name] = (answer.status_code, absent.status_code, answer.content)
        elif rows() != before:
            wrong[name] = "changed something"
    assert wrong == {}
    # The same calls find what is the caller's own.
    for name in ("GET /v1/jobs/{job_key}", "GET /v1/executions/{execution_id}", "GET /v1/calendars/{calendar_id}"):
        assert client.get(path_of(CALLS[name], mine)).status_code == 200


def _with_what_never_was(client, call, body):
    parts = {"job_key": "no:such", "runner_id": "nobody", "name": "nothing", "line_id": "1"}
    ids = {name: ABSENT if name in ("trigger_id", "execution_id", "letter_id") else 2**40 for name in call.parameters}
    return client.generic(call.method, call.path({**ids, **parts}), json.dumps(body), content_type="application/json")


def test_each_other_write_is_tried_with_what_is_another_tenants():
    """Add a new call without an id in its path to `FOREIGN`."""
    assert {name for name in CALLS if name in WRITES and not CALLS[name].parameters} <= set(FOREIGN)


def test_no_body_reaches_what_is_another_tenants(api, worlds):
    client = api("admin", tenant="other")
    before, wrong = rows(), {}
    for name, (body, statuses) in FOREIGN.items():
        if name not in CALLS:
            continue
        call = CALLS[name]
        said = json.dumps(Write(body).said(worlds["acme"]))
        answer = client.generic(call.method, path_of(call, worlds["acme"]), said, content_type="application/json")
        after = rows()
        changed = [
            f"{table} {pk}"
            for table, found in before.items()
            for pk, row in found.items()
            if after[table].get(pk) != row
        ]
        if answer.status_code not in statuses or changed:
            wrong[name] = (answer.status_code, answer.content, changed)
    assert wrong == {}


NAMELESS = {
    "GET /v1/executions/throughput",
    "GET /v1/insights/failures",
    "GET /v1/jobs/{job_key}/stats",
    "GET /v1/system/maintenance",
}
"""Looks whose answers are numbers alone, or the site's."""
SITE = {"GET /metrics", "GET /v1/system/diagnostics", "GET /v1/users", "GET /v1/users/{user_id}"}
"""Looks at the whole site, closed to a key of one tenant."""


def looks() -> list[str]:
    return [name for name in CALLS if name.startswith("GET ") and name not in PUBLIC]


def test_no_look_shows_what_is_another_tenants(api, worlds):
    """Each name in the world of a tenant begins with the tenant's."""
    everybody, theirs, mine = api("admin"), api("admin", tenant="acme"), api("admin", tenant="other")
    wrong = {}
    for name in looks():
        call = CALLS[name]
        path = path_of(call, worlds["other"])
        query = {"jobs": "1"} if name == "GET /v1/dashboard/forecast" else {}
        answer = mine.get(path, query, REMOTE_ADDR="192.0.2.1")
        if name in SITE:
            if answer.status_code != 403 or everybody.get(path).status_code != 200:
                wrong[name] = answer.status_code
            continue
        if answer.status_code != 200 or "acme" in answer.content.decode():
            wrong[name] = answer.content
        if name in NAMELESS:
            continue
        # The look would show it: its own tenant sees it, and so does a key of no tenant.
        own = path_of(call, worlds["acme"])
        if not all("acme" in client.get(own, query).content.decode() for client in (theirs, everybody)):
            wrong[name] = "does not show its own tenant anything"
    assert wrong == {}


FILTERS = {
    "job_key": "job_key",
    "runner_id": "runner_id",
    "client_id": "client_id",
    "tag": "acme-tag",
    "actor_id": "acme-client",
    "target_id": "job_key",
    "tenant": "tenant",
}


def test_no_filter_brings_it_to_light(api, worlds):
    mine, everybody = api("admin", tenant="other"), api("admin")
    tried, wrong = 0, {}
    for name in looks():
        known = getattr(CALLS[name].view.get, "query_names", frozenset())
        for parameter in known & set(FILTERS):
            value = worlds["acme"].parts.get(FILTERS[parameter], FILTERS[parameter])
            path = path_of(CALLS[name], worlds["other"])
            answer = mine.get(path, {parameter: value})
            tried += 1
            if name in SITE:
                continue
            if answer.status_code != 200 or "acme" in answer.content.decode():
                wrong[name, parameter] = answer.content
            assert everybody.get(path, {parameter: value}).status_code == 200, name
    assert wrong == {}
    assert tried >= 5


def test_why_a_run_waits_names_no_run_of_another_tenant(api, now):
    """Both tenants have a group of one name, and in each a run has its only slot."""
    holders, waiting = {}, {}
    for tenant in ("acme", "other"):
        save_group("db", 1, now, ACTOR, tenant)
        fields = {"tenant": tenant, "concurrency_group": "db", "require": [f"{tenant}-gpu"]}
        job, _ = save_job({"job_key": f"{tenant}:job", **fields}, now, ACTOR)
        RunnerFactory(client__tenant=tenant, runner_id=f"{tenant}-runner", capabilities=["acme-only"])
        holder = QueueEntryFactory(job=job, claimed=True)
        SlotFactory(run=holder.run, budget=f"group:{job.concurrency_group_id}")
        waiting[tenant] = QueueEntryFactory(job=job, state=1)
        holders[tenant] = str(holder.run_id)
    # More of the other tenant's, due before it and of a higher priority.
    for _ in range(3):
        QueueEntryFactory(job__tenant="acme", job__lane=LaneFactory(tenant="acme", priority=5))
    answer = api("admin", tenant="other").get(f"/v1/executions/{waiting['other'].run_id}/explain").json()
    (limit,) = (reason for reason in answer["reasons"] if reason["code"] == "group_limit")
    assert limit["execution_ids"] == [holders["other"]]
    assert "acme" not in json.dumps(answer)
    assert holders["acme"] not in json.dumps(answer)


def test_a_key_of_no_tenant_finds_the_things_of_all(api, worlds):
    client = api("admin")
    for world in worlds.values():
        for name in looks():
            assert client.get(path_of(CALLS[name], world)).status_code == 200, name


def test_what_happens_to_a_tenants_runner_is_in_its_audit_and_in_no_others(api, now):
    owner = ApiClientFactory(tenant="acme")
    who = Principal(owner.pk, owner.name, owner.tenant, frozenset({"work:poll"}))
    for instance in ("i1", "i2"):
        admit(PollRequest("acme-runner", instance), who, now)
    query = "/v1/audit?target_type=runner"
    assert [event["action"] for event in api("admin", tenant="acme").get(query).json()] == ["runner.takeover"]
    assert api("admin", tenant="other").get(query).json() == []
