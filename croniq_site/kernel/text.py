"""Rules for text from outside, the same for every door."""

from __future__ import annotations

import re
import unicodedata

_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")

# Controls but tabs and new lines; what turns the direction of a text around; what ends a line for some readers.
_UNSEEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")

CUT_MARK = "… [cut by Croniq]"


def cleaned(text: str, most_bytes: int) -> str:
    """Return ``text`` as both databases can store it: NUL and lone surrogates become U+FFFD, over ``most_bytes`` of
    UTF-8 it is cut, with a mark at the end. Never fails: a run can always end, whatever its error says."""
    text = _UNSTORABLE.sub("\ufffd", text)
    # len() first: most texts are short, and encoding a big one only to count it is the cost to avoid.
    if len(text) <= most_bytes // 4:
        return text
    data = text.encode()
    if len(data) <= most_bytes:
        return text
    room = most_bytes - len(CUT_MARK.encode())
    return data[:room].decode(errors="ignore") + CUT_MARK


def with_signs(text: str) -> str:
    """Return a text in which nothing is hidden and nothing hides or turns around what stands beside it: each control
    and each mark of direction has a sign of its own ("␛", "\\u202e")."""
    return _UNSEEN.sub(_sign, text)


def _sign(match: re.Match[str]) -> str:
    code = ord(match[0])
    if code < 0x20:
        return chr(0x2400 + code)
    return "\u2421" if code == 0x7F else f"\\u{code:04x}"


def is_printable_name(text: str, most: int = 255) -> bool:
    """True for 1 to ``most`` printable characters without a space at either end (design §11)."""
    if not 0 < len(text) <= most or text != text.strip():
        return False
    return text.isprintable() if text.isascii() else all(map(_is_printable, text))


def _is_printable(character: str) -> bool:
    # Categories: C* are controls, formats, surrogates, private use and unassigned; Zl and Zp break lines.
    category = unicodedata.category(character)
    return not category.startswith("C") and category not in ("Zl", "Zp")
