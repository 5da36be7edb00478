"""Names of the secrets that jobs refer to: one rule for server and runner. Only the runner knows the values."""

from __future__ import annotations

import re

VARIABLE = "CRONIQ_SECRET_"
"""The secret NAME is in the runner's variable ``CRONIQ_SECRET_NAME``, or in the file ``CRONIQ_SECRET_NAME_FILE``."""

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,99}", re.ASCII)

RULE = (
    "A secret's name is up to 100 letters, digits and _, not beginning with a digit; it is not KEY and does not end "
    "with _FILE, which are Croniq's own."
)


def is_secret_name(name: object) -> bool:
    """Whether a job may refer to it. ``KEY`` would be the server's own ``CRONIQ_SECRET_KEY``, and a name that ends with
    ``_FILE`` the variable that says where another secret lies."""
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        return False
    return name.upper() not in ("KEY", "KEY_FILE") and not name.upper().endswith("_FILE")
