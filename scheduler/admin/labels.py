"""What the admin calls models, columns and choices, in the language of who looks.

Said here and not in the models: a label is nothing of the schema, and would be a migration there. The English is
Django's own, made of the names.
"""

from __future__ import annotations

from collections.abc import Iterator

from django.apps import apps
from django.db.models import Field, Model
from django.utils.functional import Promise
from django.utils.translation import pgettext_lazy

CONTEXT = "label"
APPS = ("scheduler", "calendars", "runners", "mfa")
"""The last one's are allauth's, whose models have no names of their own in any language."""


def models() -> Iterator[type[Model]]:
    for name in APPS:
        yield from apps.get_app_config(name).get_models()


def label_models() -> None:
    """Give every model of ours, its columns, their choices and hints labels that are translated."""
    for app in APPS:
        config = apps.get_app_config(app)
        config.verbose_name = _label(config.verbose_name)
    for model in models():
        # Of those that name none Django makes the plural when it is shown.
        plural = str(model._meta.verbose_name_plural)
        model._meta.verbose_name = _label(model._meta.verbose_name)
        model._meta.verbose_name_plural = _label(plural)
        for field in model._meta.get_fields():
            if isinstance(field, Field):
                field.verbose_name = _label(field.verbose_name)
                if field.help_text:
                    field.help_text = _label(field.help_text)
                if field.choices:
                    field.choices = [(value, _label(label)) for value, label in field.flatchoices]


def labels() -> set[str]:
    """Every label in English, for `makemessages`. Needs English to be the language."""
    found = {str(apps.get_app_config(app).verbose_name) for app in APPS}
    for model in models():
        found |= {str(model._meta.verbose_name), str(model._meta.verbose_name_plural)}
        for field in model._meta.get_fields():
            if isinstance(field, Field):
                found |= {str(field.verbose_name), str(field.help_text)}
                found |= {str(label) for _, label in field.flatchoices or ()}
    return found - {""}


def _label(english: str | Promise) -> str | Promise:
    return english if isinstance(english, Promise) else pgettext_lazy(CONTEXT, english)
