"""What a key looks like, and what of it is kept. Pure."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass

KEY_START = "croniq_"
PREFIX_LENGTH = 12
LEAST_CHOSEN = 40
"""Characters of a key that somebody chose: `croniq_` and 33 more, which no chance finds if chance made them."""

_CHOSEN = re.compile(r"croniq_[A-Za-z0-9._~+/=-]+", re.ASCII)


@dataclass(frozen=True)
class DeclaredKey:
    """A key that the environment declares: how to recognise it, never itself."""

    prefix: str
    digest: str


@dataclass(frozen=True)
class DeclaredClient:
    """An API client that the environment declares; ``variable`` is the beginning of the names of its variables."""

    variable: str
    name: str
    scopes: tuple[str, ...]
    tenant: str | None
    keys: tuple[DeclaredKey, ...]


def digest_of(raw_key: str) -> str:
    """SHA-256, hexadecimal. A key is 256 random bits: there is nothing for a slow hash to slow down."""
    return hashlib.sha256(raw_key.encode("utf-8", "surrogatepass")).hexdigest()


def fault_of_chosen(raw_key: str) -> str | None:
    """Return why ``raw_key`` can be no key, in a sentence that does not repeat it; None: it can."""
    if not _CHOSEN.fullmatch(raw_key):
        return f"a key begins with {KEY_START} and goes on with letters, digits and ._~+/=- alone."
    if not LEAST_CHOSEN <= len(raw_key) <= 255:
        return f"a key has {LEAST_CHOSEN} to 255 characters; a shorter one can be guessed."
    return None


def declared_key(raw_key: str) -> DeclaredKey:
    return DeclaredKey(raw_key[:PREFIX_LENGTH], digest_of(raw_key))
