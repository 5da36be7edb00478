"""The fields of every body that the API takes, read from its own document: a new one is tested by being there."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from itertools import count
from typing import Any

from rest_framework.test import APIClient

from runners.services.clients import create_client
from scheduler.api.views.site import openapi_document
from scheduler.models import Job
from tests.factories import (
    NOW,
    AlertChannelFactory,
    AlertExemptionFactory,
    AlertRuleFactory,
    ApiKeyFactory,
    DeadLetterFactory,
)

DURATION = "A number and one of s, m, h, d"


_numbers = count()


@dataclass(frozen=True)
class Leaf:
    """A value in a body: where it is (`[]` stands for the items of a list) and what the document says of it."""

    path: tuple[str, ...]
    kind: str
    most: int | None = None

    @property
    def name(self) -> str:
        return next(part for part in reversed(self.path) if part != "[]")

    def __str__(self) -> str:
        return ".".join(self.path)

    def within(self, body: dict[str, Any], value: Any) -> dict[str, Any]:
        """``body`` with this value."""
        made: Any = value
        if self.path[0] in ONE_OF:
            body = {name: given for name, given in body.items() if name not in ONE_OF}
        for depth in range(len(self.path) - 1, 0, -1):
            around = BASES.get(".".join(self.path[:depth]), {})
            made = [made] if self.path[depth] == "[]" else {**around, self.path[depth]: made}
        return {**body, self.path[0]: made}


@dataclass(frozen=True)
class Operation:
    method: str
    route: str
    schema: str
    leaves: tuple[Leaf, ...]

    def __str__(self) -> str:
        return f"{self.method} {self.route}"

    @property
    def has_base(self) -> bool:
        """Whether a body is known that is taken as it is; else what is refused may be what it lacks."""
        return self.schema in BASES

    def base(self, filled: dict[str, str]) -> dict[str, Any]:
        body = BASES.get(self.schema, {})
        if self.schema == "ApiKeyBody":
            body = {"client_id": int(filled["{client_id}"])}
        if "name" in body:  # of what is made with it there is one already, the next time
            body = {**body, "name": f"{body['name']}-{next(_numbers)}"}
        return {name: value for name, value in body.items() if self.method == "POST" or name != "job_key"}


ONE_OF = ("cron_expression", "every", "run_at")
"""A schedule has one of them."""
BASES: dict[str, dict[str, Any]] = {
    "ApiKeyBody": {},
    "RotateBody": {},
    "PauseBody": {},
    "MaintenanceBody": {},
    "ReplayBody": {},
    "BulkDeleteBody": {"ids": []},
    "JobBody": {"job_key": "host:ile"},
    "ScheduleBody": {"job_key": "test:job", "every": "1h"},
    "CalendarBody": {"name": "hostile", "timezone": "UTC"},
    "rules.[]": {"effect": "include"},
    "retry": {},
    "window": {"start": "09:00", "end": "17:00"},
    "ApiClientBody": {"name": "hostile", "scopes": ["jobs:read"]},
    "GroupBody": {"max_concurrent": 5},
    "AlertChannelBody": {"name": "hostile", "kind": "email", "target": "ops@example.org"},
    "AlertRuleBody": {"name": "hostile", "kind": "failed", "channels": ["hostile-channel"]},
    "AlertExemptionBody": {"effect": "snooze", "duration": "1h", "note": "hostile"},
    "RegisterBody": {"job_key": "host:ile", "schedule": "5m"},
    "TriggerBody": {"job_key": "test:job"},
    "BackfillBody": {"from": "2026-03-01T12:00:00Z", "until": "2026-03-02T11:00:00Z", "dry_run": True},
}


@cache
def operations() -> tuple[Operation, ...]:
    """Every operation with a JSON body."""
    document = openapi_document()
    found = []
    for route, methods in document["paths"].items():
        for method, told in methods.items():
            content = told.get("requestBody", {}).get("content", {}) if isinstance(told, dict) else {}
            schema = content.get("application/json", {}).get("schema", {})
            if schema.get("type") == "array":
                continue  # of log lines: they have tests of their own
            if schema:
                name = schema.get("$ref", "").rpartition("/")[2]
                leaves = tuple(_leaves(schema, document, ()))
                found.append(Operation(method.upper(), route, name, leaves))
    return tuple(found)


def _leaves(schema: dict[str, Any], document: dict[str, Any], path: tuple[str, ...]) -> Iterator[Leaf]:
    description = schema.get("description", "")
    for key in ("allOf", "oneOf", "anyOf"):
        if key in schema:
            schema = next(part for part in schema[key] if part.get("type") != "null")
    if "$ref" in schema:
        schema = document["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
    kind = schema.get("type")
    if isinstance(kind, list):
        kind = next(one for one in kind if one != "null")
    if len(path) > 5:
        return
    if kind == "object" and "properties" in schema:
        for name, inner in schema["properties"].items():
            yield from _leaves(inner, document, (*path, name))
    elif kind == "array":
        yield from _leaves(schema["items"], document, (*path, "[]"))
    elif kind == "string" and schema.get("format") in ("date-time", "date"):
        yield Leaf(path, "instant")
    elif kind == "string":
        yield Leaf(path, "duration" if description.startswith(DURATION) else "text", schema.get("maxLength"))
    elif kind in ("integer", "number"):
        yield Leaf(path, "number")
    elif kind == "boolean":
        yield Leaf(path, "flag")
    elif path:
        yield Leaf(path, "json")


def paths(everything: dict[str, Any]) -> dict[str, str]:
    """What stands in a path, of things that are there."""
    job: Job = everything["job"]
    Job.objects.filter(pk=job.pk).update(job_key="test:job")
    trigger = job.triggers.get()
    trigger.calendar.rules.update(weekdays=[1, 2, 3, 4, 5])
    key = ApiKeyFactory(client=create_client("hostile-key", ["jobs:read"], NOW))
    told = AlertChannelFactory(name="hostile-channel")
    letter = job.dead_letters.first() or DeadLetterFactory(job=job)
    return {
        "{job_key}": "test:job",
        "{trigger_id}": str(trigger.pk),
        "{calendar_id}": str(trigger.calendar_id),
        "{execution_id}": str(everything["run_with_log"].pk),
        "{letter_id}": str(letter.pk),
        "{client_id}": str(key.client_id),
        "{key_id}": str(key.pk),
        "{name}": "some-group",
        "{channel_id}": str(told.pk),
        "{exemption_id}": str(AlertExemptionFactory().pk),
        "{rule_id}": str(AlertRuleFactory(channel=told).pk),
    }


def send(client: APIClient, operation: Operation, filled: dict[str, str], body: Any) -> Any:
    """Send a body; of any JSON, lone surrogates escaped."""
    route = operation.route
    for name, value in filled.items():
        route = route.replace(name, value)
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    return client.generic(operation.method, route, raw, content_type="application/json")


def answered(answer: Any, leaf: Leaf) -> Any:
    """What an answer says this value is now; None where it says nothing of it."""
    found = answer.json()
    for part in leaf.path:
        if part == "[]":
            found = found[0] if isinstance(found, list) and found else None
        else:
            found = found.get(part) if isinstance(found, dict) else None
    return found
