"""`manage.py create_api_key`: an API client and a key for it, or one more key for a client that exists."""

from __future__ import annotations

import re
from argparse import ArgumentParser
from datetime import datetime, timedelta
from difflib import get_close_matches
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from croniq_site.kernel.clock import DatabaseClock
from croniq_site.kernel.database import write_transaction
from croniq_site.kernel.errors import CroniqError
from croniq_site.kernel.migrated import require_migrated
from croniq_site.kernel.text import is_printable_name
from runners.domain.scopes import SCOPES, unknown_scopes
from runners.models import ApiClient
from runners.services.clients import create_client, issue_key

_DURATION = re.compile(r"(\d{1,9}(?:\.\d{1,6})?)([smhd])", re.ASCII)
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
_LONGEST = timedelta(days=3653)
_SLUG = re.compile(r"[a-z0-9](?:[a-z0-9_-]{0,61}[a-z0-9])?", re.ASCII)


class Command(BaseCommand):
    help = (
        "Create an API client and print its key, alone, on stdout; the key is shown this once. "
        "For a client that exists with the same scopes, one more key: the way to change keys without a pause."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("name", metavar="NAME", help="the client: who will use the key")
        parser.add_argument("--scopes", required=True, metavar="A,B", help=f"of {', '.join(sorted(SCOPES))}")
        parser.add_argument(
            "--tenant", metavar="T", help="the one tenant that it serves and sees; without: all of them"
        )
        parser.add_argument("--expires", metavar="DURATION", help="after how long the key stops working, such as 90d")

    def handle(self, *args: Any, **options: Any) -> None:
        require_migrated()
        now = DatabaseClock().now()
        scopes = _scopes(options["scopes"])
        tenant = _tenant(options["tenant"])
        expires_at = _expiry(options["expires"], now)
        name = options["name"]
        if not is_printable_name(
            name
        ):  # before any look-up: a name with NUL is one that PostgreSQL cannot be asked for
            raise CommandError("NAME: a name has 1 to 255 printable characters.")
        try:
            with write_transaction():
                client = ApiClient.objects.filter(name=name).first()
                is_new = client is None
                if client is None:
                    client = create_client(name, scopes, now, tenant=tenant)
                else:
                    _refuse_another(client, scopes, tenant)
                raw_key = issue_key(client, now, expires_at=expires_at)
        except CroniqError as error:
            raise CommandError(error.message) from None
        what = "A new API client" if is_new else "One more key for the API client"
        until = f", until {expires_at.isoformat(timespec='seconds')}" if expires_at else ""
        self.stderr.write(
            f"{what} {name!r} ({', '.join(scopes)}; {_whose(tenant)}){until}. Keep the key: it cannot be shown again."
        )
        self.stdout.write(raw_key)


def _scopes(text: str) -> list[str]:
    scopes = sorted({part.strip() for part in text.split(",") if part.strip()})
    unknown = unknown_scopes(scopes)
    if unknown:
        near = {scope: get_close_matches(scope, SCOPES, n=1, cutoff=0.5) for scope in unknown}
        said = "; ".join(
            f"{scope!r}" + (f" (did you mean {near[scope][0]}?)" if near[scope] else "") for scope in unknown
        )
        raise CommandError(f"--scopes: unknown: {said}. The scopes are {', '.join(sorted(SCOPES))}.")
    if not scopes:
        raise CommandError(f"--scopes: name at least one of {', '.join(sorted(SCOPES))}.")
    return scopes


def _tenant(text: str | None) -> str | None:
    if text is not None and not _SLUG.fullmatch(text):
        raise CommandError(f"--tenant: {text!r} is not 1 to 63 of a-z, 0-9, - and _, such as 'default'.")
    return text


def _expiry(text: str | None, now: datetime) -> datetime | None:
    if text is None:
        return None
    match = _DURATION.fullmatch(text.strip())
    lifetime = timedelta(seconds=float(match[1]) * _SECONDS[match[2]]) if match else timedelta(0)
    if not timedelta(0) < lifetime <= _LONGEST:
        raise CommandError(f"--expires: {text!r} is not a duration up to ten years, such as 90d or 12h.")
    return now + lifetime


def _refuse_another(client: ApiClient, scopes: list[str], tenant: str | None) -> None:
    """A further key must not change what the client may do: somebody else's keys would change with it."""
    if not client.is_active:
        raise CommandError(f"The API client {client.name!r} is not active: its keys do not work. Choose another name.")
    if sorted(client.scopes) != scopes:
        raise CommandError(
            f"The API client {client.name!r} exists with the scopes {','.join(sorted(client.scopes))}. "
            "Give the same ones to make one more key for it, or choose another name."
        )
    if client.tenant != tenant:
        raise CommandError(
            f"The API client {client.name!r} exists for {_whose(client.tenant)}. "
            "Give the same --tenant to make one more key for it, or choose another name."
        )


def _whose(tenant: str | None) -> str:
    return "all tenants" if tenant is None else f"the tenant {tenant}"
