"""Croniq's tasks in the test's own process: a real client, the real API behind it, no socket between."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator

import httpx
import pytest
from croniq_tasks.backend import CroniqBackend
from croniq_tasks.schedules import declared
from django.test import Client, modify_settings, override_settings
from django_tasks import task_backends

from croniq_site.kernel.clock import DatabaseClock
from runners.services.clients import create_client, issue_key

SCOPES = ("jobs:trigger", "jobs:read", "jobs:write", "jobs:register", "executions:read", "schedules:write")


class Wire(httpx.BaseTransport):
    """The API in this process. ``faults``: what the next requests have instead, an exception, a status, an answer."""

    def __init__(self) -> None:
        self.faults: list[Exception | int | dict] = []
        self.paths: list[str] = []
        self.bodies: list[bytes] = []
        self.timeouts: list[float] = []
        self._server = Client()

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        self.paths.append(f"{request.method} {request.url.path}")
        self.bodies.append(request.read())
        self.timeouts.append(request.extensions["timeout"]["read"])
        if self.faults:
            fault = self.faults.pop(0)
            if isinstance(fault, Exception):
                raise fault
            return httpx.Response(fault, json={}) if isinstance(fault, int) else httpx.Response(200, json=fault)
        head = {name: request.headers[name] for name in ("Authorization", "Content-Type") if name in request.headers}
        answer = self._server.generic(request.method, request.url.raw_path.decode(), request.read(), headers=head)
        return httpx.Response(answer.status_code, content=answer.content)


Depot = Callable[..., CroniqBackend]


@pytest.fixture
def wire() -> Wire:
    return Wire()


@pytest.fixture
def depot(db, database, wire) -> Iterator[Depot]:
    """Make the backend ``default`` (and ``other``) with a key of these scopes."""
    if database != "sqlite":
        pytest.skip("the client knows HTTP alone; what the server's database is it cannot tell")

    def make(*scopes: str, **options: object) -> CroniqBackend:
        now = DatabaseClock().now()
        key = issue_key(create_client(f"depot-{len(made)}", scopes or SCOPES, now), now)
        given = {"url": "http://testserver", "api_key": key, "prefix": "depot", **options}
        backend = {"BACKEND": "croniq_tasks.backend.CroniqBackend", "QUEUES": ["default", "mail"], "OPTIONS": given}
        stack = override_settings(TASKS={"default": backend, "other": backend})
        stack.enable()
        made.append(stack)
        for alias in ("default", "other"):
            api = task_backends[alias].api
            client = httpx.Client(base_url="http://testserver", headers=api._http().headers, transport=wire)
            api._client = os.getpid(), client
        return task_backends["default"]

    made: list[override_settings] = []
    with modify_settings(INSTALLED_APPS={"append": "tests.clients"}):
        yield make
        for stack in reversed(made):
            stack.disable()
    declared.clear()
