"""Whatever is changed over the API, in the admin, on a page, by a command or by a worker leaves an event that says what
changed, by whom and with which request. The doors are read from the code: a new one that is in no table fails here."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from django.db import transaction

from runners.models import AuditEvent
from tests.scheduler.api.calls import CHANGES_NOTHING, WORK, WRITES, World, all_calls, build_world, path_of

CALLS = {call.name: call for call in all_calls()}


@contextmanager
def undone() -> Iterator[None]:
    """What is done within it never was: each call meets the same world."""
    with transaction.atomic():
        yield
        transaction.set_rollback(True)


def newest() -> int:
    return AuditEvent.objects.order_by("-pk").values_list("pk", flat=True).first() or 0


@pytest.fixture
def world(db, now) -> World:
    return build_world("acme", now)


def test_each_call_that_is_no_look_is_in_one_table():
    """Add a new call to `WRITES` with what the audit calls it, or say why it leaves nothing there."""
    assert {name for name in CALLS if not name.startswith("GET ")} <= {*WRITES, *CHANGES_NOTHING, *WORK}


def test_each_write_of_the_api_leaves_an_event_with_what_changed(api, world):
    clients = {None: api("admin"), "acme": api("admin", tenant="acme")}
    wrong = {}
    for name, write in WRITES.items():
        if name not in CALLS:
            continue
        client = clients[None if CALLS[name].scope == "admin" else "acme"]
        with undone():
            if write.before is not None:
                write.before(world)
            last = newest()
            answer = client.generic(
                CALLS[name].method,
                path_of(CALLS[name], world),
                headers={"X-Request-ID": "rq-1"},
                **_json(client, write.said(world)),
            )
            events = list(AuditEvent.objects.filter(pk__gt=last))
            if problem := _problem_of(name, answer, events, client.owner):
                wrong[name] = problem
    assert wrong == {}


def _json(client, body):
    data, content_type = client._encode_data(body, format="json", content_type=None)
    return {"data": data, "content_type": content_type}


def _problem_of(name, answer, events, owner) -> str:
    if answer.status_code >= 300:
        return f"{answer.status_code}: {answer.content.decode()}"
    said = [event for event in events if event.action == WRITES[name].action]
    if not said:
        return f"no {WRITES[name].action} but {[event.action for event in events]}"
    for event in events:
        if not event.diff:
            return f"{event.action} says nothing"
        if event.request_id != "rq-1":
            return f"{event.action} has the request {event.request_id!r}"
        if event.tenant != (owner.tenant or ""):
            return f"{event.action} is of the tenant {event.tenant!r}"
    if any((event.actor_type, event.actor_id) != ("api_client", owner.name) for event in said):
        return f"{said[0].action} is of {said[0].actor_type} {said[0].actor_id!r}"
    return ""


def test_no_look_leaves_an_event(api, world):
    client, last = api("admin"), newest()
    wrong = {}
    for name in [*(name for name in CALLS if name.startswith("GET ")), *CHANGES_NOTHING]:
        answer = client.generic(
            CALLS[name].method, path_of(CALLS[name], world), **_json(client, CHANGES_NOTHING.get(name))
        )
        if answer.status_code >= 300:
            wrong[name] = answer.status_code
    assert wrong == {}
    assert newest() == last
