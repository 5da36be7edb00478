"""What somebody may have meant by a name that there is not."""

from __future__ import annotations

from collections.abc import Collection
from difflib import get_close_matches
from typing import Any

LONGEST = 255


def did_you_mean(name: Any, known: Collection[str]) -> str:
    """A question that names the one that is meant, with a space before it; empty where none is like it."""
    near = get_close_matches(str(name)[:LONGEST], sorted(known), n=1, cutoff=0.7)
    return f" Did you mean {near[0]!r}?" if near else ""
