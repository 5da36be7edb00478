"""Sessions in the database, looked for only under a key that could be one."""

from __future__ import annotations

import re

from django.contrib.sessions.backends import db

_KEY = re.compile("[a-z0-9]{32}")


class SessionStore(db.SessionStore):
    """Django asks for 8 characters of any kind; a cookie with a NUL among them is an error of PostgreSQL's."""

    def _validate_session_key(self, key: str | None) -> bool:
        return key is not None and _KEY.fullmatch(key) is not None
