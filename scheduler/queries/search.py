"""Text that contains a text, whatever the case of its letters: one verdict on both databases, whose own ways differ in
which letters they know (SQLite's those of ASCII alone, PostgreSQL's those of the server's locale)."""

from __future__ import annotations

from django.db.models import Q


def contains(column: str, text: str) -> Q:
    """The condition that the column contains ``text``. A letter equals its other case where that is one letter too."""
    return Q(**{f"{column}__regex": pattern_of(text)})


def pattern_of(text: str) -> str:
    """The regular expression of `contains`, for Python too."""
    return "".join(map(_any_case, text))


def _any_case(character: str) -> str:
    """A pattern that both databases read alike; nothing that a person writes is one."""
    cases = {case for case in (character, character.lower(), character.upper(), character.title()) if len(case) == 1}
    if len(cases) > 1:
        return f"[{''.join(sorted(cases))}]"
    return f"\\{character}" if character.isascii() and not character.isalnum() else character
