"""Materializers as processes of their own, one of which dies: `python -m tests.scheduler.planning.materializers …`.

`… INSTANT ROUNDS` plans at INSTANT and each hour after it. In each round four processes plan what is due, at the
same moment; the first kills itself (SIGKILL) right after the statement whose number is that of the round. It writes a
line of JSON a round: how the four ended. Triggers are made due before each round.
"""

from __future__ import annotations

import json
import logging
import os
import signal
import sys
import threading
import time
from datetime import datetime, timedelta

import django

SURVIVORS = 3
DEADLINE_SECONDS = 30
NOT_DONE, LOUD = 3, 4


class Loud(logging.Handler):
    """Keeps whatever is said above debug: a lost race is none of anybody's business."""

    def __init__(self) -> None:
        super().__init__(logging.DEBUG + 1)
        self.records: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.records.append(record.getMessage())


def plan_all(now: datetime, kill_after: int | None, begun: int) -> int:
    """Plan until nothing is due any more, also what others had in hand; return the exit code."""
    from django.db import connection

    from scheduler.services import materialize
    from scheduler.services.materialize import next_due_at
    from scheduler.sql.planned import BatchSize
    from scheduler.workers import materializer

    # Many batches, so that there are many places to die at.
    materialize.batch_size = lambda: BatchSize(20, 20)

    loud = Loud()
    logging.getLogger().addHandler(loud)
    statements = 0

    def counted(execute, sql, params, many, context):
        nonlocal statements
        answer = execute(sql, params, many, context)
        statements += 1
        if statements == 1:
            os.write(begun, b".")
        if statements == kill_after:
            os.kill(os.getpid(), signal.SIGKILL)
        return answer

    pause, ends_at = threading.Event(), time.monotonic() + DEADLINE_SECONDS
    with connection.execute_wrapper(counted):
        while True:
            materializer.run_once(now)
            due = next_due_at()
            if due is None or due > now:
                break
            if time.monotonic() > ends_at:
                return NOT_DONE
            pause.wait(0.01)
    connection.close()
    if loud.records:
        sys.stderr.write("\n".join(loud.records) + "\n")
        return LOUD
    return 0


def forked(now: datetime, kill_after: int | None, begun: int) -> int:
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            code = plan_all(now, kill_after, begun)
        finally:
            sys.stderr.flush()
            os._exit(code)
    return pid


def play(now: datetime, kill_after: int) -> list[int]:
    """One round; return how the four ended: exit codes, or minus the signal."""
    heard, begun = os.pipe()
    victim = forked(now, kill_after, begun)
    os.read(heard, 1)
    pids = [victim, *(forked(now, None, begun) for _ in range(SURVIVORS))]
    os.close(heard)
    os.close(begun)
    return [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in pids]


def main(start: str, rounds: str) -> None:
    django.setup()
    from django.db import connection

    from scheduler.models import Trigger

    now = datetime.fromisoformat(start)
    for number in range(int(rounds)):
        Trigger.objects.update(next_materialize_at=now)
        connection.close()  # no fork inherits it
        sys.stdout.write(json.dumps(play(now, number + 1)) + "\n")
        sys.stdout.flush()
        now += timedelta(hours=1)


if __name__ == "__main__":
    main(*sys.argv[1:])
