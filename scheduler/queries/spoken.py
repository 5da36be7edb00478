"""Words of the pure rules in the language of whoever is answered: a page's, or English (API, commands)."""

from __future__ import annotations

from django.utils.translation import gettext


def say(text: str, **values: object) -> str:
    return gettext(text).format(**values)
