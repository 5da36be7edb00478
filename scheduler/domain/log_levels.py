"""What handlers call the level of a line, and what it counts as. Pure."""

from __future__ import annotations

LEVELS = ("debug", "info", "warning", "error")
"""By which a log is filtered, least first: a line of this level or a graver one."""

_KNOWN = {
    "trace": "debug",
    "debug": "debug",
    "info": "info",
    "warn": "warning",
    "warning": "warning",
    "err": "error",
    "error": "error",
    "fatal": "critical",
    "critical": "critical",
}
_ORDER = (*LEVELS, "critical")


def level_name(level: str) -> str:
    """Return debug, info, warning, error or critical, whatever a handler calls it; what nobody knows is info."""
    return _KNOWN.get(level.strip().lower(), "info")


def is_at_least(level: str, least: str) -> bool:
    """Say whether a line of ``level`` is as grave as ``least``, one of `LEVELS`."""
    return _ORDER.index(level_name(level)) >= _ORDER.index(least)
