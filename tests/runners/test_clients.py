"""What the services of API clients refuse, whoever calls them: a command and a form look before, others may not."""

from __future__ import annotations

import pytest

from croniq_site.kernel.errors import InvalidInput
from runners.models import ApiClient, AuditEvent
from runners.services.clients import create_client, edit_client

pytestmark = pytest.mark.django_db

REFUSED = [
    ("billing", ["jobs:everything"], "scopes"),
    ("billing", ["jobs:read", "Admin"], "scopes"),
    ("billing", [], "scopes"),
    ("", ["jobs:read"], "name"),
    ("a\nb", ["jobs:read"], "name"),
    ("x" * 256, ["jobs:read"], "name"),
]


@pytest.mark.parametrize(("name", "scopes", "field"), REFUSED)
def test_a_client_is_not_made_with_what_nobody_has(now, name, scopes, field):
    with pytest.raises(InvalidInput) as refusal:
        create_client(name, scopes, now)
    assert list(refusal.value.fields) == [field]
    assert not ApiClient.objects.exists()
    assert not AuditEvent.objects.exists()


@pytest.mark.parametrize(("name", "scopes", "field"), REFUSED)
def test_nor_does_an_edit_give_it(now, name, scopes, field):
    client = create_client("billing", ["jobs:read"], now)
    with pytest.raises(InvalidInput) as refusal:
        edit_client(client.pk, now, name=name, scopes=scopes, is_active=True)
    assert list(refusal.value.fields) == [field]
    assert ApiClient.objects.values_list("name", "scopes").get() == ("billing", ["jobs:read"])
