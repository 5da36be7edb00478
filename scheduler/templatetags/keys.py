"""The table of the keys, for the sheet that shows it."""

from __future__ import annotations

from typing import Any

from django import template

from scheduler.dashboard.shortcuts import JUMPS, KEYS

register = template.Library()


@register.simple_tag
def shortcuts() -> dict[str, Any]:
    """The keys, and the letters after "g". ``keys`` is no method of it in a template: it is looked up first."""
    return {"keys": KEYS, "jumps": JUMPS}
