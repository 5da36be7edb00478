"""Jobs as an import wants them, whatever they come from. Pure."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

SLUG_MOST = 40
DESCRIPTION_MOST_BYTES = 1000

_NOT_IN_SLUG = re.compile(r"[^a-z0-9._]+")


class NotTaken(Exception):
    """It cannot be made a job; the text is the reason."""


@dataclass(frozen=True, slots=True)
class Remark:
    """What could not be taken and why, or what is worth saying about what was. ``where`` it stands: "line 3"; ``what``
    it is, as its source has it, "" where that is clear."""

    where: str
    what: str
    reason: str


@dataclass(frozen=True, slots=True)
class Draft:
    """A job and its one schedule, in fields of the wire.

    ``fields`` and ``schedule`` are set by every import. ``first`` and ``first_schedule`` only by the one that makes the
    job and its schedule: what is edited there stays.
    """

    job_key: str
    where: str
    what: str
    fields: Mapping[str, Any]
    schedule: Mapping[str, Any]
    first: Mapping[str, Any] = field(default_factory=dict)
    first_schedule: Mapping[str, Any] = field(default_factory=dict)


def slug_of(text: str, most: int = SLUG_MOST) -> str:
    """A part of a job key that says what ``text`` says; "" where that has no letter and no digit."""
    return _NOT_IN_SLUG.sub("-", text.lower()).strip("-._")[:most].strip("-._")


def digest_of(*parts: str) -> str:
    """Eight hexadecimal digits, which tell apart what has the same slug."""
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:8]
