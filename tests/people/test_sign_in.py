"""Signing in: how often it may be tried, whoever counts; and one way in for the pages and the admin."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.contrib.auth import hashers
from django.contrib.auth.models import User
from django.db import DatabaseError
from django.test import Client

from croniq_site.kernel.clock import ManualClock
from croniq_site.kernel.errors import TooManyRequests
from runners.models import AuditEvent, SignInCount
from runners.services import sign_in as service
from runners.services.sign_in import MOST_PER_ACCOUNT, MOST_PER_ADDRESS, WINDOW, begin_sign_in, end_sign_in
from tests.people.conftest import PASSWORD, person
from tests.support.races import together

pytestmark = pytest.mark.django_db
HOME, AWAY = "192.0.2.1", "192.0.2.2"


@pytest.fixture
def clock(monkeypatch, now) -> ManualClock:
    clock = ManualClock(now)
    monkeypatch.setattr("croniq_site.sign_in.DatabaseClock", lambda: clock)
    return clock


def try_once(client: Client, name: str, password: str = "wrong", address: str = HOME):
    return client.post("/sign-in", {"username": name, "password": password}, REMOTE_ADDR=address)


@pytest.mark.parametrize("name", ["vera", "nobody"])
def test_a_name_is_tried_so_often_and_no_more_whether_anybody_has_it_or_not(client, clock, name):
    person("vera", "viewer")
    for number in range(MOST_PER_ACCOUNT):
        assert try_once(client, name, address=f"192.0.2.{number}").status_code == 200
    refused = try_once(client, name.upper(), PASSWORD, address="198.51.100.1")
    assert (refused.status_code, refused["Retry-After"]) == (429, "900")
    assert b"Too many attempts to sign in" in refused.content
    assert "_auth_user_id" not in client.session
    clock.tick(WINDOW)
    assert try_once(client, name).status_code == 200


def test_an_address_is_tried_so_often_and_no_more(client, clock, monkeypatch):
    monkeypatch.setattr(service, "MOST_PER_ADDRESS", 3)
    person("vera", "viewer")
    for number in range(3):
        assert try_once(client, f"name{number}").status_code == 200
    assert try_once(client, "vera", PASSWORD).status_code == 429
    assert try_once(client, "vera", PASSWORD, AWAY).status_code == 302


def test_a_refusal_prolongs_nothing_and_is_audited_once(now):
    for _ in range(MOST_PER_ACCOUNT):
        begin_sign_in(HOME, "vera", now)
    for minutes in (1, 5, 14):
        with pytest.raises(TooManyRequests) as refused:
            begin_sign_in(HOME, "vera", now + timedelta(minutes=minutes))
        assert refused.value.retry_after_seconds == (15 - minutes) * 60
    event = AuditEvent.objects.get(action="sign_in.refused")
    assert event.target_type == "account"
    assert "vera" not in event.target_id
    begin_sign_in(HOME, "vera", now + WINDOW)


def test_who_gets_in_begins_anew_and_does_not_use_up_his_address(now):
    for _ in range(MOST_PER_ADDRESS * 2):
        begin_sign_in(HOME, "vera", now)
        end_sign_in(HOME, "vera")
    assert set(SignInCount.objects.values_list("attempts", flat=True)) == {0}


def test_who_gets_in_after_his_count_was_begun_anew_is_no_error(now):
    begin_sign_in(HOME, "vera", now)
    for _ in range(2):
        end_sign_in(HOME, "vera")
    assert SignInCount.objects.get().attempts == 0


def test_who_signs_in_often_is_let_in(clock):
    person("vera", "viewer")
    for _ in range(MOST_PER_ACCOUNT + 2):
        assert try_once(Client(), "vera", PASSWORD).status_code == 302


@pytest.mark.django_db(transaction=True)
def test_guesses_at_one_moment_are_all_counted(now):
    def guess() -> bool:
        try:
            begin_sign_in(HOME, "vera", now)
        except TooManyRequests:
            return False
        return True

    for _ in range(MOST_PER_ACCOUNT - 2):
        begin_sign_in(HOME, "vera", now)
    assert sum(together([guess] * 5)) == 2


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("2001:db8:1:2::1", "2001:db8:1:2:ffff::9", True),
        ("2001:db8:1:2::1", "2001:db8:1:3::1", False),
        ("192.0.2.1", "::ffff:192.0.2.1", True),
        ("192.0.2.1", "192.0.2.2", False),
        ("", "nonsense", True),
    ],
)
def test_what_is_one_address(now, one, other, same):
    begin_sign_in(one, "a", now)
    begin_sign_in(other, "b", now)
    assert SignInCount.objects.filter(key__startswith="address:").count() == (1 if same else 2)


def test_names_that_look_alike_are_counted_together(now):
    for name in ("Vera", "vera", "VERA", "ｖｅｒａ"):
        begin_sign_in(HOME, name, now)
    assert SignInCount.objects.get(key__startswith="account:").attempts == 4


def test_counts_that_are_over_are_forgotten(now):
    for number in range(5):
        begin_sign_in(HOME, f"name{number}", now)
    begin_sign_in(AWAY, "other", now + 2 * WINDOW)
    assert SignInCount.objects.count() == 2


def test_a_name_that_nobody_has_costs_the_same_work(client, clock, monkeypatch):
    person("vera", "viewer")
    person("asleep", "viewer", is_active=False)
    work: list[str] = []
    hasher = type(hashers.get_hasher())

    def counted(self, password, salt, original=hasher.encode):
        work.append(password)
        return original(self, password, salt)

    monkeypatch.setattr(hasher, "encode", counted)
    answers = [try_once(client, name) for name in ("vera", "nobody", "asleep")]
    assert work == ["wrong"] * 3
    # What is said is said above the form, which holds the name again.
    assert len({answer.content.split(b"csrfmiddlewaretoken")[0] for answer in answers}) == 1


def test_a_count_that_cannot_be_written_lets_nobody_in(client, clock, monkeypatch):
    person("vera", "viewer")

    def fail(*_, **__):
        raise DatabaseError("read-only")

    monkeypatch.setattr("croniq_site.sign_in.begin_sign_in", fail)
    with pytest.raises(DatabaseError):
        try_once(client, "vera", PASSWORD)


def test_the_admin_has_no_way_in_of_its_own(client, client_as, clock):
    answer = client.post("/admin/login/?next=/admin/", {"username": "root", "password": "x"})
    assert (answer.status_code, answer["Location"]) == (302, "/sign-in?next=%2Fadmin%2F")
    assert client_as("viewer").get("/admin/", follow=True).status_code == 403
    User.objects.create_superuser("root", password=PASSWORD)
    signed_in = client.post("/sign-in", {"username": "root", "password": PASSWORD, "next": "/admin/"})
    assert signed_in["Location"] == "/admin/"
    assert client.get("/admin/").status_code == 200


def test_a_password_is_changed_and_other_sessions_end(client, clock):
    vera = person("vera", "viewer")
    other = Client()
    other.force_login(vera)
    client.force_login(vera)
    wrong = {"old_password": "x", "new_password1": "another secret", "new_password2": "another secret"}
    assert b"message-error" in client.post("/password", wrong).content
    short = {"old_password": PASSWORD, "new_password1": "short", "new_password2": "short"}
    assert b"message-error" in client.post("/password", short).content
    assert client.post("/password", wrong | {"old_password": PASSWORD})["Location"] == "/now"
    assert client.get("/jobs").status_code == 200
    assert other.get("/jobs").status_code == 302
    assert try_once(Client(), "vera", "another secret").status_code == 302
