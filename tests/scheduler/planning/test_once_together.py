"""Triggers that fire once are as many queries as one of them."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from scheduler.models import Run, Trigger
from scheduler.services.materialize import materialize
from tests.factories import TriggerFactory

pytestmark = pytest.mark.django_db


def test_the_number_of_queries_does_not_depend_on_that_of_triggers_that_fire_once(now):
    def planned(number: int) -> int:
        for _ in range(number):
            TriggerFactory(kind="once", every=None, anchor_at=None, run_at=now + timedelta(minutes=5))
        with CaptureQueriesContext(connection) as asked:
            materialize(now)
        return len(asked)

    planned(1)
    few = planned(2)
    assert planned(20) == few
    assert Run.objects.count() == Trigger.objects.count() == 23
