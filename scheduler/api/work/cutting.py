"""Texts of any length cost no more than what is kept of them: an error of 50 MB is cut while it arrives."""

from __future__ import annotations

import re

# Possessive: what was matched is not remembered for another try, however long it is.
_WHOLE = re.compile(rb'[^"]*+(?:"[^"\\]*+(?:\\.[^"\\]*+)*+"[^"]*+)*+', re.DOTALL)
"""All up to a text that does not end here."""
_INSIDE = re.compile(rb'[^"\\]*+(?:\\(?:u[0-9a-fA-F]{4}|[^u])[^"\\]*+)*+', re.DOTALL)
"""All up to the end of a text or an escape that does not end here."""
_LONGEST_ESCAPE = len(b"\\u0000")
_LONGEST_CHARACTER = 4


class Cutter:
    """Takes JSON in pieces and gives it back with the texts that reach over a piece cut after about ``most`` bytes, at
    the end of a character and of an escape. What is no JSON stays none."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._is_inside = self._is_cut = False
        self._kept = 0
        self._held = b""

    def feed(self, piece: bytes) -> bytes:
        data, self._held = self._held + piece, b""
        given: list[bytes] = []
        at = 0
        while at < len(data):
            if not self._is_inside:
                end = _WHOLE.match(data, at).end()
                given.append(data[at : end + 1])  # with the quote that begins a text
                self._is_inside, self._is_cut, self._kept = end < len(data), False, 0
                at = end + 1
                continue
            end = _INSIDE.match(data, at).end()
            given.append(self._within(data, at, end))
            at = end
            if end == len(data):
                break
            if data[end] == ord('"'):
                given.append(b'"')
                self._is_inside, at = False, end + 1
            elif len(data) - end < _LONGEST_ESCAPE:
                self._held = data[end:]
                break
            else:  # no escape that JSON has: the reader will say so
                given.append(data[end : end + 1])
                at = end + 1
        return b"".join(given)

    def rest(self) -> bytes:
        """What was held back for a piece that did not come."""
        return self._held

    def _within(self, data: bytes, at: int, end: int) -> bytes:
        if self._is_cut:
            return b""
        room = self._most - self._kept
        if end - at <= room:
            self._kept += end - at
            return data[at:end]
        cut = _INSIDE.match(data, at, at + max(0, room)).end()
        for _ in range(_LONGEST_CHARACTER - 1):  # to the end of a character that has begun
            if cut < end and 0x80 <= data[cut] < 0xC0:
                cut += 1
        if cut < end:
            self._is_cut = True
        self._kept += cut - at
        return data[at:cut]
