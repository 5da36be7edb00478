"""Every model has a factory, and what a factory makes is valid on this database."""

from __future__ import annotations

import pytest
from django.apps import apps
from factory.django import DjangoModelFactory

from tests import factories

OURS = ("scheduler", "runners", "calendars")
ALL = [
    made
    for made in vars(factories).values()
    if isinstance(made, type) and issubclass(made, DjangoModelFactory) and made is not DjangoModelFactory
]


def test_every_model_has_a_factory():
    models = {model for app in OURS for model in apps.get_app_config(app).get_models()}
    assert models == {made._meta.model for made in ALL}


@pytest.mark.django_db
@pytest.mark.parametrize("made", ALL, ids=lambda made: made.__name__)
def test_a_factory_makes_rows_that_the_database_accepts(made):
    first, second = made(), made()
    # A lane is interned: asked twice, it is the same.
    assert (first.pk == second.pk) == (made is factories.LaneFactory)


@pytest.mark.django_db
@pytest.mark.parametrize("trait", ["claimed", "stopping"])
def test_an_entry_that_somebody_holds(trait):
    entry = factories.QueueEntryFactory(**{trait: True})
    assert entry.holder.runner.runner_id
    assert (entry.run.verdict is None) == (trait == "claimed")
