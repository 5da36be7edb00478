"""Whoever is locked out: strangers keep nobody out of a browser that he works with, and a command is the way in."""

from __future__ import annotations

import getpass
from collections.abc import Callable

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError
from django.test import Client

from croniq_site.kernel.clock import ManualClock
from croniq_site.kernel.errors import TooManyRequests
from runners.models import AuditEvent, SignInCount
from runners.services import sign_in
from runners.services.people import renew_password
from runners.services.sign_in import (
    KNOWN_FOR,
    MARK_COOKIE,
    MOST_PER_ACCOUNT,
    WINDOW,
    Way,
    begin_sign_in,
    is_mark_of,
    mark_of,
)
from tests.people.conftest import PASSWORD, person
from tests.people.test_sign_in import AWAY, HOME, try_once

pytestmark = pytest.mark.django_db
NEW = "quite another secret"


@pytest.fixture
def clock(monkeypatch, now) -> ManualClock:
    clock = ManualClock(now)
    for module in ("croniq_site.sign_in", "scheduler.dashboard.people"):
        monkeypatch.setattr(f"{module}.DatabaseClock", lambda: clock)
    return clock


@pytest.fixture
def typed(monkeypatch) -> Callable[..., None]:
    """What somebody types at the prompts, one after the other."""

    def make(*texts: str) -> None:
        lines = iter(texts)
        monkeypatch.setattr(getpass, "getpass", lambda prompt: next(lines))

    return make


def lock_out(name: str = "vera", address: str = AWAY) -> None:
    """A stranger guesses until the name is refused."""
    for _ in range(MOST_PER_ACCOUNT):
        assert try_once(Client(), name, address=address).status_code == 200
    assert try_once(Client(), name, PASSWORD, address).status_code == 429


def try_again(client: Client, password: str, address: str = HOME):
    """In a browser whose session is over."""
    client.cookies.pop("sessionid", None)
    return try_once(client, "vera", password, address)


# The command


def test_the_command_lets_in_who_is_locked_out_is_audited_and_ends_the_sessions(client, clock, typed):
    vera = person("vera", "viewer")
    client.force_login(vera)
    begin_sign_in(HOME, "vera", clock.now(), Way.CODE)
    begin_sign_in(HOME, "vera", clock.now(), Way.KNOWN)
    lock_out("Vera")
    begin_sign_in(HOME, "otto", clock.now())
    last = AuditEvent.objects.order_by("-pk").first().pk
    typed(NEW, NEW)
    call_command("changepassword", "vera")
    assert SignInCount.objects.filter(key__startswith="account:").count() == 1  # Otto's
    assert client.get("/jobs").status_code == 302
    assert try_once(Client(), "vera", PASSWORD).status_code == 200
    assert try_once(Client(), "vera", NEW).status_code == 302
    (event,) = AuditEvent.objects.filter(pk__gt=last)
    assert (event.action, event.target_id, event.diff) == ("user.updated", "vera", {"password": "changed"})
    assert (event.actor_type, event.actor_id) == ("system", "changepassword")


@pytest.mark.parametrize(
    ("name", "texts", "said"),
    [
        ("vera", [NEW, "x", "short", "short", "", ""], "aborted"),
        ("vera", [NEW, "x"] * 3, "Nothing is changed after 3 tries."),
        ("vera", ["short", "short"] * 3, "Nothing is changed after 3 tries."),
        ("vara", [], "There is no user named 'vara'. Did you mean 'vera'?"),
    ],
)
def test_what_is_no_password_or_nobodys_name_changes_nothing(clock, typed, name, texts, said):
    vera = person("vera", "viewer")
    begin_sign_in(HOME, "vera", clock.now())
    typed(*texts)
    with pytest.raises(CommandError) as refused:
        call_command("changepassword", name)
    assert str(refused.value) == said
    before = vera.password
    vera.refresh_from_db()
    assert (vera.password, AuditEvent.objects.count()) == (before, 0)
    assert SignInCount.objects.filter(key__startswith="account:").exists()


def test_a_password_that_an_administrator_makes_anew_lets_in_too(clock):
    vera = person("vera", "viewer")
    lock_out()
    _, password = renew_password(vera.pk, clock.now())
    assert try_once(Client(), "vera", password).status_code == 302


# Browsers that are known


def test_a_stranger_keeps_nobody_out_of_a_browser_in_which_he_has_signed_in(client, clock, monkeypatch):
    person("vera", "viewer")
    assert try_again(client, PASSWORD).status_code == 302
    cookie = client.cookies[MARK_COOKIE]
    assert (cookie["path"], cookie["httponly"], cookie["samesite"]) == ("/sign-in", True, "Strict")
    lock_out()
    with monkeypatch.context() as fewer:  # nor does one of the same address
        fewer.setattr(sign_in, "MOST_PER_ADDRESS", 1)
        begin_sign_in(HOME, "otto", clock.now())
        assert try_again(client, PASSWORD, HOME).status_code == 302
    assert try_once(Client(), "vera", PASSWORD, "192.0.2.77").status_code == 429  # which does not help the stranger
    clock.tick(KNOWN_FOR - WINDOW / 2)
    lock_out()
    assert try_again(client, PASSWORD).status_code == 302
    clock.tick(KNOWN_FOR)
    lock_out()
    assert try_again(client, PASSWORD).status_code == 429


def test_a_browser_that_is_known_guesses_so_often_and_no_more(client, clock):
    person("vera", "viewer")
    try_again(client, PASSWORD)
    for _ in range(MOST_PER_ACCOUNT):
        assert try_again(client, "wrong").status_code == 200
    assert try_again(client, PASSWORD).status_code == 429
    assert try_once(Client(), "vera", PASSWORD).status_code == 302
    clock.tick(WINDOW)
    assert try_again(client, PASSWORD).status_code == 302


def test_a_right_password_with_a_second_factor_still_to_come_makes_a_browser_known(client, clock, settings):
    settings.CRONIQ_TOTP = True
    person("vera", "viewer")
    assert try_again(client, PASSWORD).status_code == 302
    assert is_mark_of(client.cookies[MARK_COOKIE].value, "vera", clock.now())


def test_a_mark_is_of_one_name_and_of_this_site(now, settings):
    mark = mark_of("Vera", now)
    assert is_mark_of(mark, "vera", now)
    assert not is_mark_of(mark, "otto", now)
    assert not is_mark_of(mark, "vera", now + KNOWN_FOR)
    text, _, seal = mark.rpartition(":")
    for other in ("", "x", "\udc80", f"{text}:{seal[:-1]}", f"x{text}:{seal}", f"é{mark}", "x" * 10_000):
        assert not is_mark_of(other, "vera", now)
    settings.SECRET_KEY = "another key of this site"
    assert not is_mark_of(mark, "vera", now)


def test_codes_of_second_factors_are_not_counted_by_a_name_that_somebody_may_type(now):
    """A stranger typed "code of vera" for a name, and her codes were refused."""
    for name in ("code of vera", "code-vera", "known-vera", "vera"):
        for _ in range(MOST_PER_ACCOUNT):
            begin_sign_in(HOME, name, now)
    for way in (Way.CODE, Way.KNOWN):
        begin_sign_in(AWAY, "vera", now, way)
    with pytest.raises(TooManyRequests):
        begin_sign_in(AWAY, "vera", now)
