"""Sentences that services say, and rows keep, in English: in the language of who reads them.

What a service refuses is one sentence with values in it ("There is no job 'x'."). The catalogue has it with names in
their place, ``There is no job {job_key}.``, as `manage.py makemessages` finds it in the source; here the sentence is
told by its fixed parts, and its values go into the translated one.
"""

from __future__ import annotations

import re
from functools import lru_cache

from django.conf import settings
from django.utils.translation import get_language, pgettext
from django.utils.translation.trans_real import translation

CONTEXT = "sentence"
"""Under which the catalogue keeps them (gettext's ``msgctxt``)."""

PLACEHOLDER = re.compile(r"\{([a-z_][a-z0-9_]*)\}")
LONGEST = 2000
_SEPARATOR = "\x04"  # gettext's own, between the context and the text


def said(text: object) -> str:
    """Return ``text`` in the reader's language where it is a sentence of ours; whatever else as it is."""
    english, language = str(text), get_language()
    if not english or language in (None, settings.LANGUAGE_CODE) or len(english) > LONGEST:
        return english
    return _said(language, english)


@lru_cache(maxsize=4096)
def _said(language: str, english: str) -> str:
    whole = pgettext(CONTEXT, english)
    if whole != english:
        return whole
    for template, parts in _templates(language):
        values = _values(parts, english)
        if values is not None:
            return PLACEHOLDER.sub(lambda match, had=values: had[match[1]], pgettext(CONTEXT, template))
    return english


@lru_cache(maxsize=8)
def _templates(language: str) -> list[tuple[str, list[str]]]:
    """The sentences with values in them: text, name, text, …; those with the most text of their own first."""
    start = CONTEXT + _SEPARATOR
    keys = translation(language)._catalog.keys()  # of plural forms they are no texts
    ours = [key.removeprefix(start) for key in keys if isinstance(key, str) and key.startswith(start)]
    found = [(template, PLACEHOLDER.split(template)) for template in ours]
    return sorted(
        ((template, parts) for template, parts in found if len(parts) > 1),
        key=lambda item: -sum(map(len, item[1][::2])),
    )


def _values(parts: list[str], english: str) -> dict[str, str] | None:
    """What stands in the places of the names; None if this is another sentence. One pass from left to right: a value
    that somebody made up to look like many sentences costs no more than another."""
    literals, names = parts[::2], parts[1::2]
    if not (english.startswith(literals[0]) and english.endswith(literals[-1])):
        return None
    at, end = len(literals[0]), len(english) - len(literals[-1])
    values: dict[str, str] = {}
    for name, literal in zip(names, literals[1:], strict=True):
        is_last = len(values) == len(names) - 1
        stop = end if is_last else english.find(literal, at, end)
        if stop < at:
            return None
        values[name] = english[at:stop]
        at = stop + len(literal)
    return values
