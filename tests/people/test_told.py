"""What the audit keeps of people whom Django's admin makes and deletes: never what opens something."""

from __future__ import annotations

import pytest
from allauth.mfa.models import Authenticator
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse

from runners.models import AuditEvent, Preferences, SignInCount
from runners.services.sign_in import begin_sign_in
from tests.people.conftest import PASSWORD

pytestmark = pytest.mark.django_db


def test_what_the_admin_saves_of_people_is_told_without_their_secrets(admin_client: Client):
    form = {"username": "vera", "password1": PASSWORD, "password2": PASSWORD, "usable_password": "true"}
    assert admin_client.post(reverse("admin:auth_user_add"), form).status_code == 302
    vera = User.objects.get(username="vera")
    assert Preferences.objects.get().must_change_password  # an administrator has typed it
    factor = Authenticator.objects.create(user=vera, type=Authenticator.Type.TOTP, data={"secret": "JBSWY3DP"})
    for page, pk in (("mfa_authenticator", factor.pk), ("auth_user", vera.pk)):
        assert admin_client.post(reverse(f"admin:{page}_delete", args=[pk]), {"post": "yes"}).status_code == 302
    events = AuditEvent.objects.order_by("pk")
    actions = ["user.created", "mfa_authenticator.deleted", "user.deleted"]
    assert list(events.values_list("action", flat=True)) == actions
    told = str(list(events.values_list("diff", flat=True)))
    assert "'vera'" in told
    assert vera.password not in told
    assert "JBSWY3DP" not in told


def test_a_password_that_the_admin_types_for_another_is_changed_before_anything_opens(admin_client: Client):
    vera, ada = User.objects.create_user("vera"), User.objects.get(is_superuser=True)

    def typed(user: User, again: str) -> int:
        form = {"password1": PASSWORD, "password2": again, "usable_password": "true"}
        return admin_client.post(reverse("admin:auth_user_password_change", args=[user.pk]), form).status_code

    assert (typed(vera, "another"), Preferences.objects.filter(must_change_password=True).count()) == (200, 0)
    assert (typed(vera, PASSWORD), typed(ada, PASSWORD)) == (302, 302)
    assert list(Preferences.objects.filter(must_change_password=True).values_list("user", flat=True)) == [vera.pk]


def test_a_password_that_the_admin_types_lets_in_who_is_locked_out(admin_client: Client, now):
    vera = User.objects.create_user("vera")
    begin_sign_in("192.0.2.1", "vera", now)
    form = {"password1": PASSWORD, "password2": PASSWORD, "usable_password": "true"}
    assert admin_client.post(reverse("admin:auth_user_password_change", args=[vera.pk]), form).status_code == 302
    assert not SignInCount.objects.filter(key__startswith="account:").exists()
