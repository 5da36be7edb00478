"""`manage.py apply_api_clients`: the API clients that the environment declares; `serve` does it when it starts."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError

from croniq_site.kernel.clock import DatabaseClock
from croniq_site.kernel.errors import Conflict
from croniq_site.kernel.migrated import require_migrated
from runners.services.declared import apply_declared


class Command(BaseCommand):
    help = "Make the API clients and keys what the variables CRONIQ_API_CLIENT_NAME_KEY, _SCOPES and _TENANT declare."

    def handle(self, *args: Any, **options: Any) -> None:
        require_migrated()
        try:
            changes = apply_declared(settings.CRONIQ_API_CLIENTS, DatabaseClock().now())
        except Conflict as refusal:
            raise CommandError(refusal.message) from None
        for change in changes:
            self.stdout.write(change)
        self.stdout.write(f"{len(settings.CRONIQ_API_CLIENTS)} declared, {len(changes) or 'no'} changes.")
