"""Every call × every scope, and every way of having no key: allowed exactly where docs/scopes.md says so."""

from __future__ import annotations

import json
import re
from datetime import timedelta

import pytest
from rest_framework.test import APIClient, APIRequestFactory, force_authenticate

from croniq_site.kernel.clock import DatabaseClock
from runners.domain.scopes import ADMIN, SCOPES, Principal
from runners.services.clients import edit_client, issue_key, revoke_keys
from tests.architecture.tree import ROOT
from tests.factories import ApiClientFactory
from tests.scheduler.api.calls import CHANGES_NOTHING, WORK, WRITES, all_calls, build_world, path_of
from tests.support.server import live_edge

CALLS = {call.name: call for call in all_calls()}
ROW = re.compile(r"\| `?([\w:-]+)`? \| (`[A-Z]+ /.*`) \|")


def documented() -> dict[str, str]:
    """Which scope each call needs, by the page; "none" for those that need no key."""
    text = (ROOT / "docs" / "scopes.md").read_text(encoding="utf-8")
    return {call: row[1] for row in ROW.finditer(text) for call in re.findall(r"`([^`]+)`", row[2])}


DOCUMENTED = documented()
GUARDED = sorted(name for name, scope in DOCUMENTED.items() if scope != "none")


def test_the_page_names_every_call_once_with_a_scope_that_exists():
    assert sorted(DOCUMENTED) == sorted(CALLS)
    assert set(DOCUMENTED.values()) <= {*SCOPES, "none"}
    assert len(GUARDED) > 50


def test_every_call_is_open_to_its_scope_and_to_admin_and_to_no_other(db, clock, now):
    """The rest framework's views, asked as somebody with one scope alone."""
    world, factory = build_world("acme", now), APIRequestFactory(REMOTE_ADDR="192.0.2.1")
    wrong = {}
    for name in GUARDED:
        call = CALLS[name]
        view = call.view.as_view()
        parts = {parameter: str(world.parts[parameter]) for parameter in call.parameters}
        for scope in sorted(SCOPES):
            # With nothing in it, what is allowed is refused for what it lacks, or has nothing to do.
            request = factory.generic(call.method, path_of(call, world), "{}", content_type="application/json")
            allowed = scope in (DOCUMENTED[name], ADMIN)
            if allowed and (call.method == "DELETE" or name in WORK):
                continue  # below, where it is really done
            force_authenticate(request, Principal(0, "somebody", None, frozenset({scope})))
            status = view(request, **parts).status_code
            if (status == 403) == allowed or status in (401, *range(500, 600)):
                wrong[name, scope] = status
    assert wrong == {}


def test_a_call_that_changes_something_is_let_through_with_its_scope_alone(api, now):
    """Through the whole stack, with real keys: the one scope is enough, all others together are not."""
    world, wrong = build_world("acme", now), {}
    for name in GUARDED:
        call, scope = CALLS[name], DOCUMENTED[name]
        if name in WORK:
            continue
        write = WRITES.get(name)
        body = json.dumps(write.said(world) if write else CHANGES_NOTHING.get(name, {}))
        path = path_of(call, world)
        statuses = [
            client.generic(
                call.method, path, body, content_type="application/json", REMOTE_ADDR="192.0.2.1"
            ).status_code
            for client in (api(*(SCOPES - {scope, ADMIN})), api(scope))
        ]
        # What earlier calls have deleted is 404 or 409 by now: that is past the door.
        if statuses[0] != 403 or statuses[1] in (401, 403) or statuses[1] >= 500:
            wrong[name] = statuses
    assert wrong == {}


def bad_keys(clock) -> dict[str, str | None]:
    """Headers that open nothing."""
    owner, off = ApiClientFactory(), ApiClientFactory()
    expired = issue_key(owner, clock.now(), expires_at=clock.now() + timedelta(seconds=1))
    revoked, of_off = issue_key(owner, clock.now()), issue_key(off, clock.now())
    key = owner.keys.order_by("-pk").first()
    revoke_keys([key.pk], clock.now())
    edit_client(off.pk, clock.now(), is_active=False)
    return {
        "none": None,
        "unknown": "ApiKey croniq_nobodyhasthiskey",
        "no scheme": "croniq_nobodyhasthiskey",
        "basic": "Basic YWRtaW46YWRtaW4=",
        "expired": f"ApiKey {expired}",
        "revoked": f"ApiKey {revoked}",
        "client is off": f"Bearer {of_off}",
    }


def test_without_a_key_that_opens_anything_every_call_is_401(db, clock, now):
    world = build_world("acme", now)
    headers = bad_keys(clock)
    clock.tick(timedelta(seconds=1))
    client, wrong = APIClient(REMOTE_ADDR="192.0.2.1"), {}
    for name in GUARDED:
        for why, header in headers.items():
            more = {} if header is None else {"HTTP_AUTHORIZATION": header}
            answer = client.generic(
                CALLS[name].method, path_of(CALLS[name], world), "{}", content_type="application/json", **more
            )
            if answer.status_code != 401 or not answer["WWW-Authenticate"].startswith("ApiKey"):
                wrong[name, why] = answer.status_code
    assert wrong == {}


def test_what_needs_no_key_is_open_to_all(db, clock):
    for name in sorted(set(DOCUMENTED) - set(GUARDED)):
        answer = APIClient(REMOTE_ADDR="192.0.2.1").get(CALLS[name].path({}))
        assert answer.status_code in (200, 503), name


@pytest.mark.django_db(transaction=True)
def test_the_work_protocol_of_the_server_is_open_to_its_scopes_and_to_no_other():
    """The plain ASGI application behind real HTTP, which answers these calls before Django sees them."""
    path = {
        name: name.partition(" ")[2].replace("{execution_id}", "018f4e9c-8a1b-7c3d-9e2f-0123456789ab") for name in WORK
    }
    wrong = {}
    with live_edge(hold_seconds=1) as server:
        keys = {scope: server.key(scope) for scope in sorted(SCOPES)}
        for name in sorted(WORK):
            for scope, key in keys.items():
                status = server.post(path[name], content=b"nonsense", key=key).status_code
                if status != (400 if scope in (DOCUMENTED[name], ADMIN) else 403):
                    wrong[name, scope] = status
            for why, header in bad_keys(DatabaseClock()).items():
                sent = {} if header is None else {"authorization": header}
                answer = server.http.post(path[name], content=b"nonsense", headers=sent)
                if why != "expired" and answer.status_code != 401:
                    wrong[name, why] = answer.status_code
    assert wrong == {}
