"""Durations as they are written on the wire: one number, one unit."""

from __future__ import annotations

import re
from datetime import timedelta
from fractions import Fraction

from calendars.domain.errors import InvalidField

LONGEST = timedelta(days=3653)
"""Ten years: no duration anywhere is longer."""

_UNIT_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
_TEXT = re.compile(r"\s*(\d{1,12}(?:\.\d{1,9})?)\s*([smhd]?)\s*", re.ASCII)


def parse_duration(text: str, *, field: str = "duration", bare_seconds: bool = False) -> timedelta:
    """Read "90s", "1.5h", "2d"; with ``bare_seconds`` also "300".

    Refuses, naming ``field``, what is not of that form, zero, and more than ten years. Rounded to a microsecond.
    """
    match = _TEXT.fullmatch(text) if isinstance(text, str) and len(text) <= 64 else None
    if match is None or not (match[2] or bare_seconds):
        shown = repr(text if len(text) <= 64 else text[:61] + "…") if isinstance(text, str) else type(text).__name__
        raise InvalidField(
            field, f"A duration is one number and one of s, m, h, d, such as '90s' or '1.5h'; not {shown}."
        )
    return checked_duration(_from_seconds(Fraction(match[1]) * _UNIT_SECONDS[match[2] or "s"]), field=field)


def checked_duration(value: timedelta, *, field: str = "duration", least: timedelta | None = None) -> timedelta:
    """The value itself if it is > 0, at least ``least`` and at most ten years; else a refusal that names ``field``."""
    if value <= timedelta(0):
        raise InvalidField(field, "A duration must be longer than zero.")
    if least is not None and value < least:
        raise InvalidField(field, f"The shortest possible value is {format_duration(least)}.")
    if value > LONGEST:
        raise InvalidField(field, "A duration may be ten years at most.")
    return value


def format_duration(value: timedelta) -> str:
    """Write it as one number and one unit that `parse_duration` and the SDKs read back to the same value.

    The largest unit that divides it exactly, but seconds below two minutes: "90s", "5m", "36h", "0.5s".
    """
    microseconds = value // timedelta(microseconds=1)
    if microseconds % 1_000_000:
        seconds, rest = divmod(microseconds, 1_000_000)
        return f"{seconds}.{rest:06d}".rstrip("0") + "s"
    seconds = microseconds // 1_000_000
    for unit, size in (("d", 86_400), ("h", 3600), ("m", 60)):
        if seconds >= 2 * size and seconds % size == 0:
            return f"{seconds // size}{unit}"
    return f"{seconds}s"


def _from_seconds(seconds: Fraction) -> timedelta:
    microseconds = round(seconds * 1_000_000)
    if microseconds > 10**18:  # beyond what a timedelta holds; refused above as too long
        return LONGEST + timedelta(days=1)
    return timedelta(microseconds=microseconds)
