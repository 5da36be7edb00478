"""Bytes of a process to lines of a log: any bytes, bounded memory, nothing lost but what is not text."""

from __future__ import annotations

LINE_BYTES = 64 * 1024
"""The longest line on the wire, in bytes of UTF-8, its mark included; the server cuts longer ones."""

CONTINUED = "… [continues]"
_RAW_BYTES = LINE_BYTES - len(CONTINUED.encode())
_LONGEST_CHARACTER = 4


class LineSplitter:
    """Splits a stream at line feeds; a carriage return before one goes with it.

    A longer line than ``LINE_BYTES`` comes as several, each but the last with the mark ``CONTINUED``. What is not
    UTF-8, and NUL, becomes U+FFFD. Holds at most one line's bytes between two calls.
    """

    def __init__(self) -> None:
        self._rest = bytearray()

    def feed(self, data: bytes) -> list[str]:
        """Take the next bytes and return the lines that are complete now, in order."""
        lines: list[str] = []
        self._rest += data
        start = 0
        while (end := self._rest.find(b"\n", start)) >= 0:
            lines += _pieces(self._rest[start:end].removesuffix(b"\r"))
            start = end + 1
        del self._rest[:start]
        while len(self._rest) > _RAW_BYTES:
            size = _character_boundary(self._rest, _RAW_BYTES)
            lines += [piece + CONTINUED for piece in _fitting(_decoded(self._rest[:size]))]
            del self._rest[:size]
        return lines

    def finish(self) -> list[str]:
        """Return the last line when no line feed ended it; the splitter is empty afterwards."""
        rest, self._rest = self._rest, bytearray()
        return _pieces(rest) if rest else []


def _pieces(raw: bytearray) -> list[str]:
    """Return a whole line as lines that fit the wire."""
    texts: list[str] = []
    while len(raw) > _RAW_BYTES:
        size = _character_boundary(raw, _RAW_BYTES)
        texts += _fitting(_decoded(raw[:size]))
        raw = raw[size:]
    texts += _fitting(_decoded(raw))
    return [text + CONTINUED for text in texts[:-1]] + texts[-1:]


def _decoded(raw: bytearray) -> str:
    return raw.decode("utf-8", errors="replace").replace("\0", "\ufffd")


def _fitting(text: str) -> list[str]:
    """Cut text that replacing has made longer than the wire takes: one bad byte became three."""
    if len(text.encode()) <= _RAW_BYTES:
        return [text]
    size = _RAW_BYTES // _LONGEST_CHARACTER
    return [text[at : at + size] for at in range(0, len(text), size)]


def _character_boundary(raw: bytearray, size: int) -> int:
    """Return the largest cut at or before ``size`` that tears no UTF-8 character, as far as the bytes are UTF-8."""
    for cut in range(size, size - _LONGEST_CHARACTER, -1):
        if raw[cut] & 0b1100_0000 != 0b1000_0000:  # not a continuation byte
            return cut
    return size
