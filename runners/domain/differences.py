"""Before and after, as the audit keeps them: field by field, without secrets. Pure.

A secret is kept as a seal: `***` and a few digits that say whether it is the same one as another time, and nothing
else. So a change of a password shows, and an edit beside it can be taken back.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from croniq_site.kernel.errors import Conflict

Seal = Callable[[str], str]

_WORDS = (
    "password|passwd|passphrase|secret|token|credential|authorization|cookie|private|api[_-]?key|access[_-]?key"
    r"|(?<=[a-z0-9][_-])(?:key|pwd)(?![\w-])"
)
_IS_SECRET_NAME = re.compile(rf"{_WORDS}|^(?:key|auth|dsn)$", re.IGNORECASE)
# NAME=value, --name value, "Name: value", each up to the end of the word or the quotes around it; the second word of
# "Bearer x"; the password in an address. Bounded, so that no text takes longer than its length.
_IN_TEXT = re.compile(
    rf"""((?<![\w.-])-{{0,2}}[\w.]?[\w.-]{{0,40}}(?:{_WORDS})[\w.-]{{0,40}}["']?(?:\s{{0,4}}[=:]\s{{0,4}}|\s{{1,4}})["']?"""
    r"""(?:(?:bearer|basic|apikey)\s)?)([^\s"'&;|]+)"""
    r"""|(\b(?:bearer|basic|apikey)\s)([\w.~+/=-]{6,})|(://[^\s:/@]{0,100}:)([^\s/@]{1,200})(?=@)""",
    re.IGNORECASE,
)
_SEALED = re.compile(r"\*\*\*[0-9a-f]{8}")
_REFERENCE = {"secret", "prefix"}
WITH_SECRETS = frozenset({"action", "metadata"})
"""Fields in which whoever writes them may have written a secret."""


def history_of(kind: str, pk: int) -> str:
    """Name the history of a row: one of another row with the same name is another history."""
    return f"{kind}/{pk}"


def sides(diff: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The fields of a difference as they were before and as they were after; what explains it is left out."""
    pairs = {name: pair for name, pair in diff.items() if isinstance(pair, list) and len(pair) == 2}
    return {name: pair[0] for name, pair in pairs.items()}, {name: pair[1] for name, pair in pairs.items()}


def difference(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, list[Any]]:
    """The fields that are not the same in both, as ``[before, after]``; one that is missing is None."""
    names = sorted({*before, *after})
    pairs = ((name, [before.get(name), after.get(name)]) for name in names)
    return {name: pair for name, pair in pairs if pair[0] != pair[1]}


def without_secrets(diff: Mapping[str, Any], seal: Seal) -> dict[str, Any]:
    """The difference as it may be kept and shown."""
    return {name: masked(value, seal) if name in WITH_SECRETS else value for name, value in diff.items()}


def masked(value: Any, seal: Seal) -> Any:
    """``value`` with a seal for each text that has the name of a secret, at whatever depth, and for what looks like
    one within a text. A reference, ``{"secret": NAME}``, is none: the runner alone knows what it stands for."""
    if isinstance(value, str):
        return _IN_TEXT.sub(lambda found: _sealed_part(found, seal), value)
    if isinstance(value, Mapping):
        if "secret" in value and value.keys() <= _REFERENCE:
            return dict(value)
        return {
            name: _sealed(item, seal) if _IS_SECRET_NAME.search(name) else masked(item, seal)
            for name, item in value.items()
        }
    if isinstance(value, list | tuple):
        return _masked_words(list(value), seal)
    return value


def _masked_words(words: list[Any], seal: Seal) -> list[Any]:
    """A list; the word after an option that has the name of a secret is one: ``["--password", "x"]``."""
    kept, is_named = [], False
    for word in words:
        kept.append(seal(word) if is_named and isinstance(word, str) else masked(word, seal))
        is_named = isinstance(word, str) and word.startswith("-") and bool(_IS_SECRET_NAME.search(word.lstrip("-")))
    return kept


def _sealed(value: Any, seal: Seal) -> Any:
    if isinstance(value, Mapping):
        return masked(value, seal)
    if isinstance(value, list | tuple):
        return [_sealed(item, seal) for item in value]
    # An empty value hides nothing; it shows that none was set.
    return value if value in (None, "") or isinstance(value, bool) else seal(str(value))


def _sealed_part(found: re.Match[str], seal: Seal) -> str:
    head, secret = next((found[n], found[n + 1]) for n in (1, 3, 5) if found[n + 1] is not None)
    return head + (secret if secret.startswith(("$", "{", "***")) else seal(secret))


def unmasked(kept: Any, current: Any, seal: Seal, field: str) -> Any:
    """``kept``, a value out of a difference, with its secrets again: those that ``current`` has at the same place and
    whose seal is the same. Conflict ``secret_not_kept`` where one is another by now: the audit does not have it."""
    return _unmasked(kept, current, masked(current, seal), field)


def _unmasked(kept: Any, current: Any, current_masked: Any, field: str) -> Any:
    if kept == current_masked:
        return current
    if isinstance(kept, Mapping):
        is_same = isinstance(current, Mapping)
        return {
            name: _unmasked(
                item,
                current.get(name) if is_same else None,
                current_masked.get(name) if is_same else None,
                f"{field}.{name}",
            )
            for name, item in kept.items()
        }
    if isinstance(kept, list):
        pairs = list(zip(current, current_masked, strict=True)) if isinstance(current, list) else []
        return [
            _unmasked(item, *(pairs[place] if place < len(pairs) else (None, None)), f"{field}.{place}")
            for place, item in enumerate(kept)
        ]
    if isinstance(kept, str) and _SEALED.search(kept):
        raise Conflict(
            f"{field} held a secret that is another one by now; the audit does not keep secrets. Edit it instead.",
            code="secret_not_kept",
        )
    return kept
