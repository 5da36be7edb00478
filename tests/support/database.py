"""Which database this test run is on, and how a child process reaches the very same one."""

from __future__ import annotations

from urllib.parse import quote, urlencode

from django.db import connection


def database_url() -> str:
    """Return the URL of the current *test* database, for DATABASE_URL of a process that a test starts.

    The test needs `transaction=True`, or the child sees nothing of what it wrote.
    """
    settings = connection.settings_dict
    if connection.vendor == "sqlite":
        return f"sqlite:///{quote(str(settings['NAME']))}"
    address = quote(settings["USER"] or "")
    if settings["PASSWORD"]:
        address += ":" + quote(settings["PASSWORD"], safe="")
    if settings["USER"]:
        address += "@"
    address += settings["HOST"] or ""
    if settings["PORT"]:
        address += f":{settings['PORT']}"
    # Only where the server is: everything else of OPTIONS is set by the child's own settings file.
    options = {name: value for name, value in (settings.get("OPTIONS") or {}).items() if name in ("host", "port")}
    query = "?" + urlencode(options, safe="/") if options else ""
    return f"postgres://{address}/{quote(settings['NAME'])}{query}"
