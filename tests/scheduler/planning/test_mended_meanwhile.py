"""A trigger that is edited while a pass finds it broken is not broken by that pass."""

from __future__ import annotations

from datetime import timedelta

import pytest

from runners.models import AuditEvent
from scheduler.models import Trigger
from scheduler.services import materialize as module
from scheduler.services.materialize import materialize
from tests.factories import TriggerFactory

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize("is_edited", [True, False])
def test_what_was_mended_since_it_was_looked_at_stays_mended(now, monkeypatch, is_edited):
    trigger = TriggerFactory()
    plan = module._batch

    def breaks(at, room, only=None):
        if not Trigger.objects.filter(pk=trigger.pk, next_materialize_at__lte=at).exists():
            return plan(at, room, only)
        if only is not None and is_edited:  # the edit commits after the pass has failed with what was there
            Trigger.objects.filter(pk=only).update(next_materialize_at=now + timedelta(seconds=1))
        raise ValueError("a row that cannot be read")

    monkeypatch.setattr(module, "_batch", breaks)
    materialize(now)
    trigger.refresh_from_db()
    assert trigger.config_error == ("" if is_edited else "ValueError: a row that cannot be read")
    assert AuditEvent.objects.filter(action="trigger.broken").count() == (0 if is_edited else 1)
    assert trigger.next_materialize_at == now + (timedelta(seconds=1) if is_edited else module.RETRY_BROKEN)
