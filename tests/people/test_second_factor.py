"""A second factor: turned on by whoever wants it, asked for before he is signed in, and each code opens once."""

from __future__ import annotations

import re

import pytest
from allauth.mfa.models import Authenticator
from allauth.mfa.totp.internal.auth import format_hotp_value, hotp_value, yield_hotp_counters_from_time
from django.contrib.auth.models import User
from django.core.cache import cache
from django.test import Client

from runners.services.sign_in import MOST_PER_ACCOUNT, spend_code
from tests.people.conftest import PASSWORD, person
from tests.scheduler.dashboard.markup import Page

pytestmark = pytest.mark.django_db
PATHS = ["/second-factor", "/second-factor/on", "/second-factor/off", "/second-factor/codes", "/sign-in/code"]


@pytest.fixture(autouse=True)
def on(settings) -> None:
    settings.CRONIQ_TOTP = True
    cache.clear()


@pytest.fixture
def vera(db) -> User:
    return person("vera", "viewer")


def codes_of(secret: str) -> list[str]:
    """The codes that an authenticator app may show about now: before, now, next."""
    return [format_hotp_value(hotp_value(secret, counter)) for counter in yield_hotp_counters_from_time()]


def sign_in(client: Client, password: str = PASSWORD, where: str = ""):
    return client.post("/sign-in", {"username": "vera", "password": password, "next": where})


def turn_on(client: Client) -> str:
    """Turn it on as a person does; return the secret."""
    asked = client.get("/second-factor/on")
    assert asked["Location"].startswith("/confirm/password")
    page = client.post(asked["Location"], {"password": PASSWORD}, follow=True)
    secret = re.search(r"<code>([A-Z2-7]{32})</code>", page.content.decode())[1]
    assert client.post("/second-factor/on", {"code": codes_of(secret)[1]})["Location"] == "/second-factor/codes"
    return secret


def is_signed_in(client: Client) -> bool:
    return "_auth_user_id" in client.session


def test_without_the_setting_there_is_none_of_it(settings, client, vera):
    sign_in(client)
    turn_on(client)
    settings.CRONIQ_TOTP = False
    for path in PATHS:
        assert client.get(path).status_code == 404
    other = Client()
    assert sign_in(other)["Location"] == "/now"
    assert is_signed_in(other)


def test_who_has_none_signs_in_as_before(client, vera):
    assert sign_in(client, where="/runs")["Location"] == "/runs"
    assert is_signed_in(client)
    assert sign_in(Client(), "wrong").status_code == 200


def test_it_is_asked_for_before_anybody_is_signed_in(client, vera):
    sign_in(client)
    secret = turn_on(client)
    other = Client()
    assert sign_in(other, where="/runs")["Location"] == "/sign-in/code"
    assert not is_signed_in(other)
    assert other.get("/jobs")["Location"].startswith("/sign-in")
    assert other.get("/v1/jobs").status_code == 401
    assert b"message-error" in other.post("/sign-in/code", {"code": "000000"}).content
    assert not is_signed_in(other)
    assert other.post("/sign-in/code", {"code": codes_of(secret)[2]})["Location"] == "/runs"
    assert is_signed_in(other)


def test_a_code_opens_once_on_all_servers(client, vera):
    sign_in(client)
    secret = turn_on(client)
    code = codes_of(secret)[2]
    first, second = Client(), Client()
    sign_in(first)
    sign_in(second)
    assert first.post("/sign-in/code", {"code": code}).status_code == 302
    cache.clear()  # another server's memory
    assert second.post("/sign-in/code", {"code": code}).status_code == 200
    assert not is_signed_in(second)


def test_a_code_opens_once_however_it_is_written(client, vera):
    sign_in(client)
    code = codes_of(turn_on(client))[2]
    for written, status in ((code, 302), (f"{code[:3]}-{code[3:]}", 200), (f"{code[:3]} {code[3:]}", 200)):
        cache.clear()  # another server's memory
        other = Client()
        sign_in(other)
        assert other.post("/sign-in/code", {"code": written}).status_code == status


def test_two_people_may_have_the_same_code(now):
    assert [spend_code(name, "123456", now) for name in ("vera", "otto", "vera")] == [True, True, False]


def test_codes_are_guessed_so_often_and_no_more(client, vera):
    sign_in(client)
    secret = turn_on(client)
    other = Client()
    sign_in(other)
    for _ in range(MOST_PER_ACCOUNT):
        assert other.post("/sign-in/code", {"code": "000000"}).status_code == 200
    refused = other.post("/sign-in/code", {"code": codes_of(secret)[2]})
    assert refused.status_code == 429
    assert 0 < int(refused["Retry-After"]) <= 900
    assert not is_signed_in(other)


def test_a_right_code_forgives_the_wrong_ones(client, vera):
    sign_in(client)
    secret = turn_on(client)
    other = Client()
    sign_in(other)
    for _ in range(MOST_PER_ACCOUNT - 1):
        other.post("/sign-in/code", {"code": "000000"})
    assert other.post("/sign-in/code", {"code": codes_of(secret)[2]}).status_code == 302
    again = Client()
    sign_in(again)
    assert [again.post("/sign-in/code", {"code": "000000"}).status_code for _ in range(2)] == [200, 200]


def test_a_recovery_code_opens_once(client, vera):
    sign_in(client)
    turn_on(client)
    text = re.search(r"<pre>(.*?)</pre>", client.get("/second-factor/codes").content.decode(), re.DOTALL)[1]
    code = text.split()[0]
    for status in (302, 200):
        other = Client()
        sign_in(other)
        assert other.post("/sign-in/code", {"code": code}).status_code == status


def test_secrets_are_not_in_the_database(client, vera):
    sign_in(client)
    secret = turn_on(client)
    assert secret not in str(list(Authenticator.objects.values()))


def test_who_has_not_said_who_he_is_lately_is_asked_before_it_is_turned_off(client, vera):
    sign_in(client)
    turn_on(client)
    client.cookies.clear()
    client.force_login(vera)  # a session that is old, or stolen
    answer = client.post("/second-factor/off")
    assert answer.status_code == 302
    assert answer["Location"].startswith("/confirm/password")
    assert Authenticator.objects.exists()
    assert b"message-error" in client.post(answer["Location"], {"password": "wrong"}).content
    client.post(answer["Location"], {"password": PASSWORD})
    client.post("/second-factor/off")
    assert not Authenticator.objects.exists()


def test_its_pages_are_in_our_dress(client, vera):
    sign_in(client)
    assert "/second-factor" in Page(client.get("/password")).links("/second")
    for path in ("/second-factor", "/confirm/password?next=/second-factor/on"):
        page = Page(client.get(path))
        assert page.refused == []
        assert "Croniq" in page.text
    code = Page(client.post(path, {"password": PASSWORD}, follow=True))
    assert [refused.partition(";")[0] for refused in set(code.refused)] == ["img src=data:image/svg+xml"]  # CSP has it
    secret = re.search(r"[A-Z2-7]{32}", code.text)[0]
    client.post("/second-factor/on", {"code": codes_of(secret)[1]})
    for path in ("/second-factor", "/second-factor/codes", "/second-factor/codes/new", "/second-factor/off"):
        page = Page(client.get(path))
        assert page.refused == []
        assert "Croniq" in page.text


def test_with_another_secret_key_no_code_is_right_and_the_log_says_why(client, vera, settings, caplog):
    sign_in(client)
    secret = turn_on(client)
    recovery = re.search(r"<pre>\s*(\d+)", client.get("/second-factor/codes").content.decode())[1]
    settings.SECRET_KEY = "another" * 8
    other = Client()
    sign_in(other)
    for code in (codes_of(secret)[2], recovery):
        assert b"message-error" in other.post("/sign-in/code", {"code": code}).content
        assert not is_signed_in(other)
        assert caplog.messages.pop() == "The second factor of vera is of another CRONIQ_SECRET_KEY."
