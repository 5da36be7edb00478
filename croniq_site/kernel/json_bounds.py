"""How deep and how large JSON is, told from its bytes: cheaper than reading it, and without any recursion."""

from __future__ import annotations

import re

_MARKS = (b"[", b"{", b",")
_TEXT = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"', re.DOTALL)
_BRACKET = re.compile(rb"[\[\]{}]")


def has_more_values(body: bytes, most: int) -> bool:
    """Say whether JSON holds more than ``most`` values, by their marks outside of texts."""
    if sum(map(body.count, _MARKS)) <= most:
        return False
    # A text may hold any number of marks. Without escapes every other piece between quotes is outside of the texts.
    plain = body.replace(rb"\\", b"").replace(rb"\"", b"")
    if plain.count(b'"') > 4 * (most + 1):  # each value has at most a name's two quotes and its own two
        return True
    return sum(part.count(mark) for part in plain.split(b'"')[::2] for mark in _MARKS) > most


def is_deeper_than(body: bytes, most: int) -> bool:
    """Say whether JSON nests more than ``most`` levels; of what is no JSON, anything."""
    if body.count(b"[") + body.count(b"{") <= most:
        return False
    depth = 0
    for bracket in _BRACKET.finditer(_TEXT.sub(b"", body)):
        depth += 1 if bracket[0] in b"[{" else -1
        if depth > most:
            return True
    return False
