"""Which URLs of apprise a channel may have. Pure; whether the service takes it is known when it is sent."""

from __future__ import annotations

import re
from typing import Any

from croniq_site.kernel.errors import InvalidInput

URL_MOST = 4096
_URL = re.compile(r"([a-z][a-z0-9+.-]{1,31})://[!-~]+", re.ASCII)
OF_THIS_MACHINE = frozenset(
    {"blink1", "dbus", "gio", "glib", "gnome", "kde", "qt", "macosx", "windows", "syslog", "file", "memory", "growl"}
)
"""Schemes that do something on the server itself, or read from it."""
TOLD_OTHERWISE = {"http": "webhook", "https": "webhook", "mailto": "email", "mailtos": "email"}


def apprise_url(field: str, value: Any) -> str:
    """A URL such as ``tgram://TOKEN/CHAT``: a scheme and printable ASCII. Refused by field: what is told to this
    machine, and what a channel of another kind does better."""
    match = _URL.fullmatch(value) if isinstance(value, str) and len(value) <= URL_MOST else None
    if match is None:
        raise InvalidInput.of(field, "The URL of apprise is of the form service://…, printable ASCII without spaces.")
    scheme = match[1]
    if scheme in TOLD_OTHERWISE:
        raise InvalidInput.of(field, f"For {scheme}:// make a channel of the kind {TOLD_OTHERWISE[scheme]}.")
    if scheme in OF_THIS_MACHINE:
        raise InvalidInput.of(field, f"{scheme}:// would tell this machine, not somebody.")
    return str(value)
