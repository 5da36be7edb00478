"""What the variables of the OpenID provider say, and what is refused by name."""

from __future__ import annotations

import environ
import pytest
from django.core.exceptions import ImproperlyConfigured

from croniq_site.people.configuration import Oidc, oidc_from

GOOD = {"ISSUER": "https://id.example.org/", "CLIENT_ID": "croniq", "CLIENT_SECRET": "hush"}


def read(**variables: str) -> Oidc | None:
    env = environ.Env()
    env.ENVIRON = {f"CRONIQ_OIDC_{name}": value for name, value in variables.items()}
    return oidc_from(env)


def test_nothing_set_is_no_provider():
    assert read() is None
    assert read(ISSUER=" ") is None


def test_a_provider_with_its_groups(tmp_path):
    (tmp_path / "secret").write_text("hush\n")
    oidc = read(**GOOD | {"CLIENT_SECRET": "", "CLIENT_SECRET_FILE": str(tmp_path / "secret")}, ADMINS="chiefs, root")
    assert (oidc.issuer, oidc.client_secret, oidc.groups_claim) == ("https://id.example.org", "hush", "")
    assert oidc.roles_of(["root", "operator", "x"]) == {"admin", "operator"}
    assert oidc.roles_of("viewer") == {"viewer"}
    assert oidc.roles_of(None) == oidc.roles_of(7) == set()


@pytest.mark.parametrize(
    ("variables", "named"),
    [
        ({"ISSUER": "http://id.example.org"}, "ISSUER"),
        ({"ISSUER": "id.example.org"}, "ISSUER"),
        ({"ISSUER": ""}, "ISSUER"),
        ({"CLIENT_ID": ""}, "CLIENT_ID"),
        ({"CLIENT_SECRET": ""}, "CLIENT_SECRET"),
        ({"CLIENT_SECRET_FILE": "/nothing"}, "CLIENT_SECRET"),
    ],
)
def test_half_a_provider_is_refused_by_name(variables, named):
    with pytest.raises(ImproperlyConfigured) as refused:
        read(**GOOD | variables)
    assert str(refused.value).startswith(f"CRONIQ_OIDC_{named}")
    assert "hush" not in str(refused.value)
