"""`manage.py test`: the suite on SQLite and on a PostgreSQL that it starts itself."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser


class Command(BaseCommand):
    help = (
        "Run the tests on SQLite and on PostgreSQL, side by side. "
        "What stands after -- goes to pytest: manage.py test tests/scheduler -- -x -k claim"
    )
    requires_system_checks = []
    requires_migrations_checks = False

    def run_from_argv(self, argv: list[str]) -> None:
        # Split here: argparse would hand a `-x` behind a path to this command.
        place = argv.index("--") if "--" in argv else len(argv)
        self.pytest_options = argv[place + 1 :]
        super().run_from_argv(argv[:place])

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("paths", nargs="*", help="files, folders or test ids; all tests unless given")
        parser.add_argument("--all", action="store_true", help="also the realtime tier (waits for real seconds)")
        parser.add_argument("--database", choices=["sqlite", "postgresql"], help="only on this database")

    def handle(self, *, paths: list[str], database: str | None, **options: Any) -> None:
        from tests.support.postgres import PostgresUnavailable
        from tests.support.suite import DATABASES, TIERS, run_suite

        databases = (database,) if database else DATABASES
        tiers = tuple(TIERS) if options["all"] else ("fast",)
        try:
            counts = run_suite(databases, tiers, [*paths, *getattr(self, "pytest_options", [])])
        except PostgresUnavailable as error:
            raise CommandError(str(error)) from None
        except KeyboardInterrupt:
            raise CommandError("Interrupted.", returncode=130) from None
        if counts.failed or counts.is_empty:
            raise SystemExit(1)
