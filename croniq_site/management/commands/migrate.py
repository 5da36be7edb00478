"""`manage.py migrate`, as Django has it, one at a time and beside those who are at work."""

from __future__ import annotations

from typing import Any

from django.core.management.commands import migrate
from django.db import connections

from croniq_site.kernel.migrating import alone, patiently


class Command(migrate.Command):
    help = f"{migrate.Command.help} Waits while another process migrates, and never long for a table that is in use."

    def handle(self, *args: Any, **options: Any) -> None:
        connection = connections[options["database"]]
        with alone(connection, self._say):
            patiently(connection, lambda: super(Command, self).handle(*args, **options), self._say)

    def _say(self, line: str) -> None:
        self.stdout.write(line)
        self.stdout.flush()
