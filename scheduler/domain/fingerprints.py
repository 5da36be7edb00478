"""What errors have in common once what differs from run to run is taken out of them. Pure."""

from __future__ import annotations

import re

MOST_CHARACTERS = 200
_MOST_READ = 4000
"""Characters of an error that are looked at, from its beginning (of a traceback: of its end)."""
_TRACEBACK = "Traceback (most recent call last)"
_RULES = [
    (re.compile(r"\b[a-zA-Z][a-zA-Z0-9+.-]{0,20}://[^\s\"'<>]+"), "<url>"),
    (re.compile(r"\b[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}\b"), "<id>"),
    (re.compile(r"(?<![\w<])(?:[A-Za-z]:)?(?:[\\/][\w.@+~-]+)+[\\/]?|(?<![\w<])[\w.-]+(?:/[\w.@+~-]+){2,}"), "<path>"),
    (re.compile(r"\b0[xX][0-9a-fA-F]+\b|\b(?=[a-fA-F]*[0-9])(?=[0-9]*[a-fA-F])[0-9a-fA-F]{8,}\b"), "<hex>"),
    (re.compile(r"\d+(?:[.,:]\d+)*"), "<n>"),
]


def fingerprint_of(error: str, reason: str) -> str:
    """Return what this error is grouped by: its text without numbers, ids, hexadecimal digits, paths and addresses, in
    one line of at most `MOST_CHARACTERS`. Of a Python traceback it is the last line; of no text the ``reason``."""
    if _TRACEBACK in error[:_MOST_READ]:
        lines = error[-_MOST_READ:].strip().splitlines()
        error = lines[-1] if lines else ""
    text = error[:_MOST_READ]
    for pattern, mark in _RULES:
        text = pattern.sub(mark, text)
    return " ".join(text.split())[:MOST_CHARACTERS].strip() or reason.replace("_", " ")
