"""`manage.py create_api_key`."""

from __future__ import annotations

from datetime import timedelta
from io import StringIO

import pytest
from django.core.management import CommandError, call_command

from croniq_site.kernel.clock import DatabaseClock
from runners.models import ApiClient, ApiKey
from runners.queries.principals import principal_of

pytestmark = pytest.mark.django_db


def create(*arguments: str) -> tuple[str, str]:
    out, notes = StringIO(), StringIO()
    call_command("create_api_key", *arguments, stdout=out, stderr=notes)
    return out.getvalue(), notes.getvalue()


def test_the_key_is_printed_alone_and_works():
    out, notes = create("deploys", "--scopes", "jobs:write, jobs:read", "--tenant", "acme")
    assert out == out.strip() + "\n"
    principal = principal_of(out.strip(), DatabaseClock().now())
    assert principal is not None
    assert (principal.name, principal.tenant) == ("deploys", "acme")
    assert principal.scopes == {"jobs:read", "jobs:write"}
    assert "cannot be shown again" in notes
    assert out.strip() not in notes
    assert not ApiKey.objects.filter(digest=out.strip()).exists()


def test_an_existing_client_gets_one_more_key_and_the_old_one_goes_on_working():
    first, _ = create("deploys", "--scopes", "jobs:read")
    second, notes = create("deploys", "--scopes", "jobs:read")
    assert first != second
    assert "One more key" in notes
    assert ApiClient.objects.count() == 1
    now = DatabaseClock().now()
    assert principal_of(first.strip(), now) == principal_of(second.strip(), now) is not None


def test_a_key_that_expires_stops_working_then():
    out, _ = create("deploys", "--scopes", "jobs:read", "--expires", "1.5h")
    now = DatabaseClock().now()
    assert principal_of(out.strip(), now + timedelta(minutes=89)) is not None
    assert principal_of(out.strip(), now + timedelta(minutes=91)) is None


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["x", "--scopes", "job:read"], "did you mean jobs:read?"),
        (["x", "--scopes", "nonsense,admin"], "'nonsense'"),
        (["x", "--scopes", " , "], "at least one"),
        (["", "--scopes", "admin"], "1 to 255 printable"),
        (["a\x00b", "--scopes", "admin"], "1 to 255 printable"),
        (["x", "--scopes", "admin", "--tenant", "No Such"], "--tenant"),
        (["x", "--scopes", "admin", "--tenant", ""], "--tenant"),
        (["x", "--scopes", "admin", "--expires", "soon"], "--expires"),
        (["x", "--scopes", "admin", "--expires", "0d"], "--expires"),
        (["x", "--scopes", "admin", "--expires", "999999999d"], "--expires"),
    ],
)
def test_nonsense_is_refused_with_a_sentence_and_makes_nothing(arguments, said):
    with pytest.raises(CommandError, match=said.replace("?", r"\?")):
        create(*arguments)
    assert not ApiClient.objects.exists()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["taken", "--scopes", "admin"], "scopes jobs:read"),
        (["taken", "--scopes", "jobs:read", "--tenant", "other"], "all tenants"),
    ],
)
def test_a_further_key_cannot_change_what_a_client_may_do(arguments, said):
    create("taken", "--scopes", "jobs:read")
    with pytest.raises(CommandError, match=said):
        create(*arguments)
    assert ApiKey.objects.count() == 1
    assert ApiClient.objects.get().scopes == ["jobs:read"]


def test_a_client_that_was_switched_off_gets_no_key():
    create("taken", "--scopes", "jobs:read")
    ApiClient.objects.update(is_active=False)
    with pytest.raises(CommandError, match="not active"):
        create("taken", "--scopes", "jobs:read")
