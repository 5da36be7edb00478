"""Which permissions the roles have, and what they are in the API."""

from __future__ import annotations

import pytest
from django.contrib.auth.models import Group, Permission, User

from runners.api.sessions import person_of
from runners.domain.roles import ADMIN, OPERATOR, ROLES, SCOPE_PERMISSIONS, VIEWER, has_role_permission
from runners.domain.scopes import SCOPES
from runners.services.roles import ensure_roles
from tests.architecture.tree import ROOT
from tests.people.conftest import person

pytestmark = pytest.mark.django_db


def permissions_of(role: str) -> set[str]:
    rows = Group.objects.get(name=role).permissions.values_list("content_type__app_label", "codename")
    return {f"{app}.{codename}" for app, codename in rows}


def test_every_role_may_what_the_one_before_it_may():
    viewer, operator, admin = map(permissions_of, ROLES)
    assert viewer < operator < admin
    assert all(".view_" in permission for permission in viewer)
    assert {"scheduler.change_job", "scheduler.add_run", "calendars.change_calendar"} <= operator
    beyond = {"scheduler.exec_job", "runners.change_apikey", "runners.view_apikey", "auth.change_user"}
    assert beyond <= admin
    assert not beyond & operator
    # What a permission is is no administrator's business.
    assert {name.split("_")[1] for name in admin if name.startswith("auth.")} == {"user", "group"}


def test_the_scopes_of_each_role():
    scopes = {role: person_of(person(role, role)).scopes for role in ROLES}
    reading = {"jobs:read", "schedules:read", "calendars:read", "executions:read", "dead-letters:read", "runners:read"}
    assert scopes[VIEWER] == reading | {"alerts:read", "audit:read", "metrics:read"}
    acting = {"jobs:write", "jobs:register", "jobs:trigger", "schedules:write", "calendars:write", "executions:cancel"}
    assert scopes[OPERATOR] == scopes[VIEWER] | acting | {"dead-letters:write", "runners:write", "alerts:snooze"}
    assert scopes[ADMIN] == {scope for scope in SCOPES if not scope.startswith("work:")}
    assert person_of(person("nobody")).scopes == frozenset()
    assert person_of(User.objects.create_superuser("root")).scopes == scopes[ADMIN]


def test_no_person_is_a_runner():
    admin = person_of(person("admin", ADMIN))
    assert admin.has("jobs:exec")
    assert not any(admin.has(scope) for scope in SCOPES if scope.startswith("work:"))


def test_every_scope_has_a_permission_that_there_is_or_is_a_runners():
    assert set(SCOPE_PERMISSIONS) == {scope for scope in SCOPES if not scope.startswith("work:")}
    rows = Permission.objects.values_list("content_type__app_label", "codename")
    assert set(SCOPE_PERMISSIONS.values()) <= {f"{app}.{codename}" for app, codename in rows}


def test_what_was_changed_by_hand_is_set_right(django_assert_max_num_queries):
    before = {role: permissions_of(role) for role in ROLES}
    viewer = Group.objects.get(name=VIEWER)
    viewer.permissions.set(Permission.objects.filter(codename__in=["change_user", "view_job"]))
    Group.objects.get(name=ADMIN).delete()
    ensure_roles()
    assert {role: permissions_of(role) for role in ROLES} == before
    with django_assert_max_num_queries(7):
        ensure_roles()


def test_members_stay():
    vera = person("vera", VIEWER)
    ensure_roles()
    assert vera.groups.get().name == VIEWER


def test_the_documented_table_is_what_the_roles_have():
    rows = [
        [f"`{scope}`", f"`{permission}`", *("yes" if has_role_permission(role, permission) else "" for role in ROLES)]
        for scope, permission in SCOPE_PERMISSIONS.items()
    ]
    text = (ROOT / "docs/scopes.md").read_text(encoding="utf-8")
    said = [
        [cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if line.startswith("| `")
    ]
    assert [row for row in said if len(row) == 5] == rows
