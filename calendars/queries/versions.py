"""Which data decide about zones and holidays here."""

from __future__ import annotations

from importlib.metadata import version


def rule_versions() -> dict[str, str]:
    """The versions of the pinned packages that zones and public holidays come from, by the package's name."""
    return {name: version(name) for name in ("tzdata", "holidays")}
