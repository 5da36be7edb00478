"""Who may open which page and press which button: every path of the pages, for everybody.

`TABLE` says it; a path that is not in it fails, so that a new page cannot be forgotten.
"""

from __future__ import annotations

from collections.abc import Callable
from uuid import UUID

import pytest
from django.http import HttpResponse
from django.test import Client
from django.urls import URLPattern, reverse

from scheduler.dashboard.urls import urlpatterns
from tests.factories import JobFactory

PAGE = "page"  # whoever has a role looks; nobody posts
ACTION = "action"  # operators and admins post; nobody gets
FORM = "form"  # operators and admins see it and send it
ADMIN_PAGE, ADMIN_ACTION, ADMIN_FORM = "admins' page", "admins' action", "admins' form"  # the same, for admins alone
SIGNED_IN = "signed in"  # whoever is signed in, with a role or without
OPEN = "open"  # for strangers too

TABLE = {
    "start": OPEN,  # leads to now
    "jobs": PAGE,
    "now": PAGE,
    "job": PAGE,
    "jobs-confirm": PAGE,
    "jobs-bulk": ACTION,
    "job-new": FORM,
    "job-preview": PAGE,
    "job-edit": FORM,
    "skip-next": ACTION,
    "backfill": FORM,
    "job-delete": ACTION,
    "run-now": ACTION,
    "pause": ACTION,
    "resume": ACTION,
    "revert": ACTION,
    "runs": PAGE,
    "runs-confirm": PAGE,
    "runs-bulk": ACTION,
    "planned": PAGE,
    "run": PAGE,
    "log": PAGE,
    "log-stream": PAGE,
    "log-raw": PAGE,
    "cancel": ACTION,
    "rerun": ACTION,
    "next": PAGE,
    "overlap": PAGE,
    "letters": PAGE,
    "letters-confirm": PAGE,
    "letters-replay": ACTION,
    "letters-discard": ACTION,
    "letter": PAGE,
    "letter-replay": ACTION,
    "letter-discard": ACTION,
    "letter-note": ACTION,
    "missed": PAGE,
    "missed-job": PAGE,
    "missed-run": ACTION,
    "missed-dismiss": ACTION,
    "budgets": PAGE,
    "alerts": PAGE,
    "alert-exemption-new": FORM,
    "alert-exemption-end": ACTION,
    "alert-rule-new": ADMIN_FORM,
    "alert-rule-edit": ADMIN_FORM,
    "alert-rule-delete": ADMIN_ACTION,
    "alert-channel-new": ADMIN_FORM,
    "alert-channel-test": ADMIN_ACTION,
    "alert-channel-delete": ADMIN_ACTION,
    "audit": PAGE,
    "calendars": PAGE,
    "calendar": PAGE,
    "calendar-year": PAGE,
    "runners": PAGE,
    "runner-named": PAGE,
    "runner": PAGE,
    "runner-drain": ACTION,
    "runner-resume": ACTION,
    "runner-release": ACTION,
    "settings": SIGNED_IN,
    "settings-clients": ADMIN_FORM,
    "settings-client": ADMIN_FORM,
    "settings-key-new": ADMIN_ACTION,
    "settings-key-rotate": ADMIN_ACTION,
    "settings-key-revoke": ADMIN_ACTION,
    "settings-users": ADMIN_FORM,
    "settings-user": ADMIN_FORM,
    "settings-user-password": ADMIN_ACTION,
    "settings-user-delete": ADMIN_ACTION,
    "settings-tenants": PAGE,
    "settings-doctor": ADMIN_PAGE,
    "palette": PAGE,
    "banner": PAGE,
    "time-zone": SIGNED_IN,
    "login": OPEN,
    "logout": OPEN,
    "password": SIGNED_IN,
    # Paths without a name: they lead elsewhere.
    "/jobs": OPEN,
    "/favicon.ico": OPEN,
}

VALUES = {"str": "ops:backup", "uuid": UUID("0195f9a0-0000-7000-8000-000000000000"), "int": 7}
ROLES = {"stranger": None, "nobody": (), "viewer": ("viewer",), "operator": ("operator",), "admin": ("admin",)}


def paths() -> dict[str, str]:
    """Every path of the pages with values in it, by its name."""
    found = {}
    for pattern in urlpatterns:
        assert isinstance(pattern, URLPattern)
        parts = {
            name: next(value for kind, value in VALUES.items() if kind in type(converter).__name__.lower())
            for name, converter in pattern.pattern.converters.items()
        }
        path = reverse(pattern.name, kwargs=parts or None) if pattern.name else f"/{pattern.pattern}"
        found[pattern.name or path] = path
    return found


PATHS = paths()


def outcome(answer: HttpResponse) -> str:
    if answer.status_code == 302 and answer["Location"].startswith("/sign-in"):
        return "sign in"
    names = {403: "refused", 405: "no such method"}
    return names.get(answer.status_code, "let in" if answer.status_code < 500 else "a fault")


def expected(kind: str, method: str, who: str) -> str:
    if (kind in (PAGE, ADMIN_PAGE) and method == "POST") or (kind in (ACTION, ADMIN_ACTION) and method == "GET"):
        return "no such method"
    if who == "stranger":
        return "sign in"
    if kind == SIGNED_IN:
        return "let in"
    allowed = {PAGE: ("viewer", "operator", "admin"), ACTION: ("operator", "admin"), FORM: ("operator", "admin")}
    return "let in" if who in allowed.get(kind, ("admin",)) else "refused"


def test_every_path_is_in_the_table():
    assert len(PATHS) > 20
    assert sorted(set(PATHS) - set(TABLE)) == [], "say in TABLE who may open it"


@pytest.mark.django_db
@pytest.mark.parametrize("who", ROLES)
def test_everybody_may_what_the_table_says_and_nothing_else(client_as: Callable[..., Client], who):
    roles = ROLES[who]
    client = Client() if roles is None else client_as(*roles)
    JobFactory(job_key="ops:backup")
    wrong = {}
    for name, path in PATHS.items():
        for method in ("GET", "POST"):
            if TABLE.get(name, OPEN) != OPEN:
                found = outcome(client.generic(method, path))
                if found != expected(TABLE[name], method, who):
                    wrong[method, path] = found
    assert wrong == {}


@pytest.mark.django_db
def test_strangers_may_open_what_is_open(client):
    assert client.get("/sign-in").status_code == 200
    assert client.get("/")["Location"] == "/now"
    assert client.get("/favicon.ico")["Location"].startswith("/static/")


@pytest.mark.django_db
def test_no_action_is_done_by_a_form_of_another_site(client_as):
    client = client_as("admin", enforce_csrf_checks=True)
    JobFactory(job_key="ops:backup")
    acting = [name for name, kind in TABLE.items() if kind not in (PAGE, ADMIN_PAGE, OPEN) and name in PATHS]
    assert len(acting) > 4
    done = [name for name in [*acting, "login", "logout"] if client.post(PATHS[name]).status_code != 403]
    assert done == []


@pytest.mark.django_db
def test_nobodys_page_says_what_he_lacks(client_as):
    answer = client_as().get("/jobs")
    assert answer.status_code == 403
    assert b"an administrator gives it" in answer.content
