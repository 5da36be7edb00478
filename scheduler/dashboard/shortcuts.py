"""The keys of the pages, and the pages to which keys and the palette lead: one table that the sheet shows and
`croniq-keys.js` reads."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django.urls import reverse
from django.utils.translation import gettext_lazy as _


@dataclass(frozen=True)
class Jump:
    """A page; ``key`` is the letter after "g"."""

    key: str
    name: str
    words: Any

    @property
    def url(self) -> str:
        return reverse(self.name)


@dataclass(frozen=True)
class Key:
    """A key, and what it does: a name in the table `does` of croniq-keys.js."""

    key: str
    does: str
    words: Any


JUMPS = (
    Jump("n", "now", _("Now")),
    Jump("j", "jobs", _("Jobs")),
    Jump("r", "runs", _("Runs")),
    Jump("x", "next", _("Next")),
    Jump("o", "overlap", _("Overlap")),
    Jump("d", "letters", _("Dead letters")),
    Jump("m", "missed", _("Missed")),
    Jump("c", "calendars", _("Calendars")),
    Jump("b", "budgets", _("Budgets")),
    Jump("u", "runners", _("Runners")),
    Jump("l", "alerts", _("Alerts")),
    Jump("a", "audit", _("Audit")),
    Jump("s", "settings", _("Settings")),
    Jump("t", "time-zone", _("Your time zone")),
)
KEYS = (
    Key("/", "search", _("Search on this page")),
    Key("g", "jump", _("Go to a page: then one of the letters below")),
    Key("j", "down", _("The next row")),
    Key("k", "up", _("The row before")),
    Key("x", "tick", _("Tick the row, or untick it")),
    Key("?", "sheet", _("This sheet")),
)
