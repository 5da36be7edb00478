"""`manage.py materialize` under a clock that a test tells: `python -m tests.scheduler.planning.told_clock FILE SEED`.

FILE holds the instant, as ISO 8601. Before each statement the process waits by chance, for `LONGEST_DELAY_SECONDS` at
most.
"""

from __future__ import annotations

import os
import sys
import threading
from datetime import datetime
from pathlib import Path
from random import Random

import django

LONGEST_DELAY_SECONDS = 0.02


class ToldClock:
    def __init__(self, file: Path) -> None:
        self.file = file

    def now(self) -> datetime:
        return datetime.fromisoformat(self.file.read_text())

    def set(self, now: datetime) -> None:
        new = self.file.with_suffix(".new")
        new.write_text(now.isoformat())
        os.replace(new, self.file)


def main(file: str, seed: str) -> None:
    django.setup()
    from django.core.management import call_command
    from django.db import connection

    from scheduler.workers import process

    process.DatabaseClock = lambda: ToldClock(Path(file))
    chance, pause = Random(seed), threading.Event()

    def delayed(execute, sql, params, many, context):
        pause.wait(chance.uniform(0, LONGEST_DELAY_SECONDS))
        return execute(sql, params, many, context)

    with connection.execute_wrapper(delayed):
        call_command("materialize", interval=0.05)


if __name__ == "__main__":
    main(*sys.argv[1:])
