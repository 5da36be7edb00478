"""No other site gets at the pages through a frame, a form or a base; no password is a short one."""

from __future__ import annotations

import pytest
from django.contrib.auth.password_validation import validate_password
from django.core.exceptions import ValidationError

pytestmark = pytest.mark.django_db


def test_no_page_is_shown_in_a_frame_nor_sends_its_forms_elsewhere(operator, client):
    for answer in [operator.get("/jobs"), operator.get("/runs"), client.get("/sign-in"), operator.get("/admin/")]:
        directives = {name: values for name, *values in map(str.split, answer["Content-Security-Policy"].split(";"))}
        # None of the three falls back on default-src.
        assert directives["frame-ancestors"] == ["'none'"]
        assert directives["form-action"] == ["'self'"]
        assert directives["base-uri"] == ["'none'"]
        assert answer["X-Frame-Options"] == "DENY"
        assert answer["Referrer-Policy"] == "same-origin"


@pytest.mark.parametrize("password", ["nineteen9", "password1234", "operator-1"])
def test_a_password_that_is_short_common_or_the_users_name_is_refused(django_user_model, password):
    with pytest.raises(ValidationError):
        validate_password(password, django_user_model(username="operator-1"))


def test_a_password_of_ten_characters_is_not():
    validate_password("k7-fjord-9")
