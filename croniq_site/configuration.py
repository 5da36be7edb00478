"""Readers of environment variables that refuse nonsense by the name of the variable."""

from __future__ import annotations

import math
import os
import re
import secrets
import tempfile
from contextlib import suppress
from ipaddress import ip_network
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import environ
from django.core.exceptions import ImproperlyConfigured

from croniq_site.kernel.rates import Rate

_DURATION = re.compile(r"(\d+(?:\.\d+)?)(s|m|h|d)", re.ASCII)
_RATE = re.compile(r"(\d{1,9})/(s|m|h)", re.ASCII)
_HOST = re.compile(r"(?:\*\.)?[a-z0-9_](?:[a-z0-9_-]|\.(?!\.)){0,252}", re.ASCII)
_ADDRESS_V6 = re.compile(r"\[[0-9A-Fa-f:.]{2,45}\]", re.ASCII)
_ORIGIN = re.compile(r"https?://[^/?#@\s]+")
_DATABASE = re.compile(r"(?:sqlite|postgres|postgresql|pgsql|psql)://")
_ADDRESS = re.compile(r"[\w.+-]{1,64}@[A-Za-z0-9.-]{1,190}", re.ASCII)
_SMTP_PORTS = {"smtp": 25, "smtp+tls": 587, "smtps": 465}
# A database host that is gone without a word (power, network, failover) is an outage within 35 s, which is less than a
# watchdog waits. By the system's own settings whoever waits for its answer would do so for two hours.
_NOTICE_THE_DEAD = {
    "connect_timeout": 10,
    "keepalives_idle": 15,
    "keepalives_interval": 5,
    "keepalives_count": 4,
    "tcp_user_timeout": 30_000,
}
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
_TRUE, _FALSE = {"1", "true", "yes", "on"}, {"0", "false", "no", "off"}


def text_of(env: environ.Env, name: str) -> str | None:
    """Return what the variable holds, None where that is nothing.

    As it stands: `environ.Env.str` takes a value that begins with ``$`` for the name of another variable, and a key or
    a password that does so would be none at all, without a word.
    """
    return env.ENVIRON.get(name, "").strip() or None


def secret(env: environ.Env, name: str) -> str | None:
    """Return the variable, else the content of the file that its ``_FILE`` twin names, else None."""
    value, path = text_of(env, name), text_of(env, f"{name}_FILE")
    if value and path:
        raise ImproperlyConfigured(f"{name} and {name}_FILE are both set. Set one of them.")
    if path:
        try:
            value = Path(path).read_text().strip()
        except (OSError, UnicodeDecodeError) as error:
            raise ImproperlyConfigured(f"{name}_FILE: {path} cannot be read ({error}).") from None
        if not value:
            raise ImproperlyConfigured(f"{name}_FILE: {path} is empty.")
    return value


def secret_key_in(data_dir: Path) -> str:
    """Return the key in ``data_dir``, made there if there is none: once, also by processes that start together. Raises
    OSError where that cannot be.

    One that is there is only read: on a disk that is full, commands that make room for others start too.
    """
    path = data_dir / "secret_key"
    if not path.exists():
        data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        # A name of its own: in a container the next process has the number of the one that died at this.
        descriptor, part = tempfile.mkstemp(prefix=".secret_key.", dir=data_dir)
        try:
            with os.fdopen(descriptor, "w") as file:
                file.write(secrets.token_urlsafe(64))
            # The whole key appears at once, and replaces none.
            with suppress(FileExistsError):
                os.link(part, path)
        finally:
            os.unlink(part)
    return path.read_text().strip()


def flag(env: environ.Env, name: str, *, default: bool) -> bool:
    text = text_of(env, name)
    if text is None:
        return default
    if text.lower() in _TRUE:
        return True
    if text.lower() in _FALSE:
        return False
    raise ImproperlyConfigured(f"{name}: {text!r} is neither true nor false.")


def choice(env: environ.Env, name: str, allowed: list[str], *, default: str) -> str:
    text = text_of(env, name) or default
    if text.upper() not in allowed:
        raise ImproperlyConfigured(f"{name}: {text!r} is not one of {', '.join(allowed)}.")
    return text.upper()


def folder(env: environ.Env, name: str, *, default: Path) -> Path:
    """Return a directory by its whole path: a relative one would be another in every directory that a command is
    started in."""
    text = text_of(env, name)
    path = default if text is None else Path(text).expanduser()
    if not path.is_absolute():
        raise ImproperlyConfigured(f"{name}: {text!r} is not a whole path such as /var/lib/croniq.")
    return path


def names(env: environ.Env, name: str, *, default: list[str]) -> list[str]:
    """Return a comma-separated list without blanks."""
    text = text_of(env, name)
    return default if text is None else [part.strip() for part in text.split(",") if part.strip()]


def duration_seconds(env: environ.Env, name: str, *, default: str, least: float, most: float) -> float:
    """Return a duration such as ``90s`` or ``1.5h`` in seconds, within [least, most]."""
    text = text_of(env, name) or default
    match = _DURATION.fullmatch(text)
    seconds = float(match[1]) * _SECONDS[match[2]] if match else math.nan
    if not least <= seconds <= most:
        such_as = "30d, 90d or 365d" if least >= _SECONDS["d"] else "90s, 5m or 1.5h"
        raise ImproperlyConfigured(
            f"{name}: {text!r} is not a duration from {_words(least)} to {_words(most)}, such as {such_as}."
        )
    return seconds


def _words(seconds: float) -> str:
    """Return whole seconds in the largest unit that they are a multiple of, as they are written in a variable."""
    return next(f"{seconds / one:g}{unit}" for unit, one in reversed(_SECONDS.items()) if seconds % one == 0)


def retention_seconds(env: environ.Env, name: str, *, default: str, least: float) -> float:
    """Return how long something is kept, in seconds: 0 (for ever) or a duration of at least ``least``."""
    if (text_of(env, name) or default) in ("0", "0s", "0d"):
        return 0.0
    try:
        return duration_seconds(env, name, default=default, least=least, most=3650 * 86_400)
    except ImproperlyConfigured as refused:
        raise ImproperlyConfigured(f"{refused} 0 keeps it for ever.") from None


def networks(env: environ.Env, name: str, *, default: list[str]) -> list[str]:
    """Return a comma-separated list of addresses and networks, such as ``10.0.0.0/8``; of ``none`` an empty one."""
    found: list[str] = []
    if (text_of(env, name) or "").lower() == "none":
        return found
    for text in names(env, name, default=default):
        try:
            found.append(str(ip_network(text, strict=False)))
        except ValueError:
            raise ImproperlyConfigured(f"{name}: {text!r} is not a network such as 10.0.0.0/8.") from None
    return found


def served_names(env: environ.Env, name: str, *, default: list[str]) -> list[str]:
    """Return a comma-separated list of names that requests may ask for, without scheme and port: host names, addresses
    (IPv6 in brackets), ``.example.org`` for all below it too, ``*`` for any."""
    found = names(env, name, default=default)
    for text in found:
        name_of_host = text.lower().removeprefix(".")
        is_name = _HOST.fullmatch(name_of_host) and "*" not in name_of_host
        if not (text == "*" or is_name or _ADDRESS_V6.fullmatch(text)):
            raise ImproperlyConfigured(f"{name}: {text!r} is not a host name such as croniq.example, without a port.")
    return found


def hosts(env: environ.Env, name: str) -> list[str]:
    """Return a comma-separated list of host names, ``*.example.org`` and networks."""
    found = names(env, name, default=[])
    for text in found:
        if not _HOST.fullmatch(text.lower()):
            try:
                ip_network(text)
            except ValueError:
                raise ImproperlyConfigured(f"{name}: {text!r} is neither a host name nor a network.") from None
    return found


def mail_address(env: environ.Env, name: str, *, default: str) -> str:
    text = text_of(env, name) or default
    if not _ADDRESS.fullmatch(text):
        raise ImproperlyConfigured(f"{name}: {text!r} is not an address such as croniq@example.org.")
    return text


def smtp_server(env: environ.Env, name: str) -> dict[str, Any] | None:
    """Return what Django's mail backend is given for ``smtp://USER:PASSWORD@HOST:PORT`` (``smtp+tls`` begins TLS,
    ``smtps`` is TLS from the start), None where it is not set. The message of a refusal has no password in it."""
    text = secret(env, name)
    if text is None:
        return None
    try:
        parts = urlsplit(text)
        port, scheme, host = parts.port, parts.scheme, parts.hostname
    except ValueError:
        port, scheme, host = None, "", None
    if scheme not in _SMTP_PORTS or not host or parts.path.strip("/") or parts.query:
        raise ImproperlyConfigured(f"{name} is not of the form smtp://USER:PASSWORD@HOST:PORT (or smtp+tls, smtps).")
    return {
        "host": host,
        "port": port or _SMTP_PORTS[scheme],
        "username": unquote(parts.username or ""),
        "password": unquote(parts.password or ""),
        "use_tls": scheme == "smtp+tls",
        "use_ssl": scheme == "smtps",
    }


def rate(env: environ.Env, name: str, *, default: str) -> Rate | None:
    """Return a rate such as ``100/s`` or ``600/m``, None for ``0``: no limit."""
    text = text_of(env, name) or default
    if text == "0":
        return None
    match = _RATE.fullmatch(text)
    if match is None or not 1 <= int(match[1]) <= 1_000_000:
        raise ImproperlyConfigured(f"{name}: {text!r} is not a rate such as 100/s, 600/m or 5000/h, nor 0.")
    return Rate(int(match[1]), _SECONDS[match[2]])


def origins(env: environ.Env, name: str) -> list[str]:
    """Return a comma-separated list of origins, such as ``https://croniq.example``: what a browser calls them, which
    ends with no slash."""
    texts = names(env, name, default=[])
    for text in texts:
        if not _ORIGIN.fullmatch(text):
            raise ImproperlyConfigured(f"{name}: {text!r} is not an origin such as https://croniq.example.")
    return texts


def limit(env: environ.Env, name: str, *, most: int = 1_000_000) -> int | None:
    """Return a whole number from 1 to ``most``, None where it is not set."""
    text = text_of(env, name)
    if text is None:
        return None
    if not text.isascii() or not text.isdigit() or not 1 <= int(text[:10]) <= most:
        raise ImproperlyConfigured(f"{name}: {text!r} is not a whole number from 1 to {most}.")
    return int(text)


def zone_name(env: environ.Env, name: str, *, default: str) -> str:
    text = text_of(env, name) or default
    try:
        ZoneInfo(text)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise ImproperlyConfigured(f"{name}: {text!r} is not a time zone such as Europe/Vienna.") from None
    return text


def database_from_url(env: environ.Env, *, default_path: Path) -> dict[str, Any]:
    """Return the settings of the one database: SQLite at ``default_path`` unless ``DATABASE_URL`` says otherwise."""
    url = secret(env, "DATABASE_URL") or f"sqlite:///{default_path}"
    if url.startswith("sqlite:") and not url.startswith("sqlite:////"):
        # A relative path would be another database in every directory that a command is started in.
        raise ImproperlyConfigured("DATABASE_URL: name a SQLite file by its whole path, sqlite:////var/croniq.db.")
    try:
        # Of any other, a URL in quotes for one, the reader would warn with all that is in it.
        settings = env.db_url_config(url) if _DATABASE.match(url) else {}
    except Exception:
        settings = {}
    if not settings.get("NAME"):
        settings = {}  # Django would say so much later, and not by the name of this variable
    engine = settings.get("ENGINE", "")
    if engine.endswith("sqlite3"):
        settings["OPTIONS"] = {
            # IMMEDIATE: a transaction that reads and then writes must not find the file taken in between.
            "transaction_mode": "IMMEDIATE",
            "timeout": 20,
            "init_command": (
                "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL; PRAGMA foreign_keys=ON; "
                "PRAGMA wal_autocheckpoint=4000; PRAGMA cache_size=-65536;"
            ),
        }
    elif engine.endswith("postgresql"):
        settings["CONN_HEALTH_CHECKS"] = True
        settings["OPTIONS"] = {**_NOTICE_THE_DEAD, **settings.get("OPTIONS", {})}
    else:
        # The URL itself may hold a password: it is not repeated.
        raise ImproperlyConfigured(
            "DATABASE_URL: this is neither sqlite:///PATH nor postgres://USER:PASSWORD@HOST/NAME."
        )
    settings["CONN_MAX_AGE"] = None
    return settings
