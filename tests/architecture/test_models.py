"""Every model is in the admin, every migration is written, every name in the schema is meant and tested."""

from __future__ import annotations

import re

import pytest
from django.apps import apps
from django.contrib import admin
from django.core.management import call_command
from django.db import models

from tests.architecture.tree import APPS, ROOT, files

MODELS = [model for app in APPS for model in apps.get_app_config(app).get_models()]
# What the core consists of; further models are welcome, none of these may get lost.
CORE = {
    "scheduler": {
        "Job",
        "Trigger",
        "Lane",
        "Run",
        "QueueEntry",
        "Attempt",
        "Slot",
        "ConcurrencyGroup",
        "SkippedSpan",
        "IdempotencyKey",
        "DeadLetter",
        "RunLog",
    },
    "calendars": {"Calendar", "CalendarRule"},
    "runners": {"ApiClient", "ApiKey", "Runner", "RunnerInstance", "AuditEvent", "Heartbeat"},
}
NAMED = [(model.__name__, item.name) for model in MODELS for item in (*model._meta.constraints, *model._meta.indexes)]


def test_the_models_of_the_core_are_there():
    for app, names in CORE.items():
        assert names <= {model.__name__ for model in apps.get_app_config(app).get_models()}


def test_each_model_is_registered_in_the_admin():
    admin.autodiscover()
    assert [model._meta.label for model in MODELS if not admin.site.is_registered(model)] == []


def test_each_model_is_named_as_a_person_names_it():
    names = [str(name) for model in MODELS for name in (model._meta.verbose_name, model._meta.verbose_name_plural)]
    assert [name for name in names if re.search(r"[^aeiou]ys$|\bapi\b|tenances$", name)] == []


def test_no_field_reads_the_clock_by_itself():
    dated = [field for model in MODELS for field in model._meta.fields if isinstance(field, models.DateField)]
    assert len(dated) > 20
    assert [str(field) for field in dated if field.auto_now or field.auto_now_add or field.has_default()] == []


@pytest.mark.django_db
def test_the_migrations_are_complete():
    call_command("makemigrations", check=True, dry_run=True, verbosity=0)


@pytest.mark.parametrize("app", APPS)
def test_migrations_are_numbered_in_a_row_and_named_for_what_they_do(app):
    found = sorted(path.stem for path in (ROOT / app / "migrations").glob("[0-9]*.py"))
    assert found[0] == "0001_initial"
    assert [name[:5] for name in found] == [f"{number:04}_" for number in range(1, len(found) + 1)]
    assert not [name for name in found if "_auto_" in name]


def test_each_constraint_and_index_is_named_for_what_it_says():
    assert len(NAMED) > 30
    assert len({name for _, name in NAMED}) == len(NAMED)
    # Django's own names end in a hash and what kind of thing it is.
    assert not [name for _, name in NAMED if re.search(r"_[0-9a-f]{6,8}(_(idx|uniq|like|fk\w*))?$", name)]
    assert not [model._meta.label for model in MODELS if model._meta.unique_together]


def test_each_constraint_and_index_has_a_schema_test():
    text = "\n".join(path.read_text(encoding="utf-8") for path in files(".py", within=("tests/schema",)))
    assert [f"{model}: {name}" for model, name in NAMED if not re.search(rf"\b{re.escape(name)}\b", text)] == []
