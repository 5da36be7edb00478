"""Somebody always stays who may administer the installation, whichever way the last one would go."""

from __future__ import annotations

import pytest
from django.contrib.auth.models import Group, User
from django.test import Client
from django.urls import reverse

from croniq_site.kernel.errors import Conflict, CroniqError, InvalidInput
from runners.models import AuditEvent
from runners.services.people import delete_person, edit_person, has_admin
from tests.people.conftest import PASSWORD, person
from tests.support.polling import poll_until
from tests.support.races import DEADLINE_SECONDS, Session, is_waiting_for_lock, together

pytestmark = pytest.mark.django_db


@pytest.fixture
def ada(db) -> User:
    return person("ada", "admin")


WAYS = {
    "switched off": lambda user, now: edit_person(user.pk, now, is_active=False),
    "demoted": lambda user, now: edit_person(user.pk, now, roles=["operator"]),
    "deleted": lambda user, now: delete_person(user.pk, now),
}


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
def test_the_last_admin_stays(ada, now, way):
    person("olga", "operator")
    person("asleep", "admin", is_active=False)
    with pytest.raises(Conflict) as refused:
        way(ada, now)
    assert refused.value.code == "last_admin"
    assert has_admin()
    assert not AuditEvent.objects.filter(action__startswith="user.").exists()
    User.objects.create_superuser("root")
    way(ada, now)
    assert AuditEvent.objects.filter(action__startswith="user.", target_id="ada").exists()


def test_a_last_superuser_may_become_an_admin_by_role(now):
    root = User.objects.create_superuser("root")
    with pytest.raises(Conflict):
        edit_person(root.pk, now, is_superuser=False)
    edit_person(root.pk, now, is_superuser=False, roles=["admin"])
    assert User.objects.get().is_staff
    assert has_admin()


def test_who_is_no_admin_any_more_has_no_admin_site(ada, now):
    person("bea", "admin")
    assert edit_person(ada.pk, now, roles=["admin", "viewer"]).is_staff
    edit_person(ada.pk, now, roles=["viewer"])
    assert not User.objects.get(username="ada").is_staff


def test_where_there_was_none_there_need_be_none(now):
    olga = person("olga", "operator")
    assert edit_person(olga.pk, now, is_active=False).is_active is False


def test_a_role_is_one_of_three_and_other_groups_stay(ada, now):
    ada.groups.add(Group.objects.create(name="auditors"))
    with pytest.raises(InvalidInput):
        edit_person(ada.pk, now, roles=["king"])
    edit_person(ada.pk, now, roles=["admin", "viewer"])
    assert set(ada.groups.values_list("name", flat=True)) == {"admin", "viewer", "auditors"}


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
def test_two_admins_who_end_each_other_at_once_are_one_afterwards(now, way):
    both = [person("ada", "admin"), person("bea", "admin")]

    def end(user: User) -> CroniqError | None:
        try:
            way(user, now)
        except CroniqError as refused:
            return refused
        return None

    outcomes = together([lambda user=user: end(user) for user in both])
    assert sorted(outcome.code for outcome in outcomes if outcome) == ["last_admin"]
    assert has_admin()


@pytest.mark.django_db(transaction=True)
def test_the_second_of_two_admins_waits_for_what_the_first_does(now, database):
    if database != "postgresql":
        pytest.skip("SQLite has one writer: the second begins when the first has ended")
    ada, bea = person("ada", "admin"), person("bea", "admin")
    with Session() as first, Session() as second:
        first.begin()
        first.run(edit_person, ada.pk, now, is_active=False)
        pid = second.backend_pid
        answer = second.start(edit_person, bea.pk, now, is_active=False)
        poll_until(lambda: is_waiting_for_lock(pid) or answer.done(), what="the second waits")
        first.commit()
        assert isinstance(answer.exception(DEADLINE_SECONDS), Conflict)
    assert has_admin()


# In the admin


@pytest.fixture
def root(db) -> Client:
    client = Client()
    client.force_login(User.objects.create_superuser("root", password=PASSWORD))
    return client


def form_of(user: User, **changes: object) -> dict[str, object]:
    fields = {"username": user.username, "is_active": "on", "is_staff": "on", "is_superuser": "on"}
    fields |= {"date_joined_0": "2026-01-01", "date_joined_1": "00:00:00"}
    return {name: value for name, value in (fields | changes).items() if value}


def refused(answer) -> bool:
    return b"Nobody would be left" in answer.content


@pytest.mark.parametrize("changes", [{"is_active": ""}, {"is_superuser": ""}], ids=["switched off", "demoted"])
def test_the_admin_keeps_the_last_one(root, changes):
    user = User.objects.get()
    path = reverse("admin:auth_user_change", args=[user.pk])
    assert refused(root.post(path, form_of(user, **changes), follow=True))
    user.refresh_from_db()
    assert (user.is_active, user.is_superuser) == (True, True)
    person("ada", "admin")
    root.post(path, form_of(user, **changes))
    user.refresh_from_db()
    assert (user.is_active, user.is_superuser) != (True, True)


def test_the_admin_deletes_the_last_one_in_no_way(root):
    user = User.objects.get()
    page = reverse("admin:auth_user_delete", args=[user.pk])
    assert refused(root.post(page, {"post": "yes"}, follow=True))
    chosen = {"action": "delete_selected", "_selected_action": [user.pk], "post": "yes"}
    assert refused(root.post(reverse("admin:auth_user_changelist"), chosen, follow=True))
    assert User.objects.exists()


def test_the_groups_of_the_roles_are_fixed(root):
    group = Group.objects.get(name="admin")
    for name, form in (("change", {"name": "mine"}), ("delete", {"post": "yes"})):
        assert root.post(reverse(f"admin:auth_group_{name}", args=[group.pk]), form).status_code == 403
    chosen = {"action": "delete_selected", "_selected_action": [group.pk], "post": "yes"}
    root.post(reverse("admin:auth_group_changelist"), chosen)
    assert Group.objects.filter(name="admin").exists()
    other = Group.objects.create(name="auditors")
    assert root.post(reverse("admin:auth_group_delete", args=[other.pk]), {"post": "yes"}).status_code == 302
