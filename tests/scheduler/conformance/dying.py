"""Acks whose process dies in the middle: `python -m tests.scheduler.conformance.dying < ACKS`.

A line of ACKS is `RUN ATTEMPT RUNNER_ID NOW`: that attempt failed. A fork takes the n-th of them and kills itself
(SIGKILL) right after its n-th statement; whoever needs fewer does all of it. One line out an ack: how the fork ended.
"""

from __future__ import annotations

import os
import signal
import sys
from datetime import datetime
from uuid import UUID

import django


def say(line: str, kill_after: int) -> None:
    from django.db import connection

    from scheduler.domain.work import Ack, AckStatus
    from scheduler.services.finish import finish

    run_id, attempt, runner_id, now = line.split()
    statements = 0

    def counted(execute, sql, params, many, context):
        nonlocal statements
        answer = execute(sql, params, many, context)
        statements += 1
        if statements == kill_after:
            os.kill(os.getpid(), signal.SIGKILL)
        return answer

    connection.ensure_connection()  # its own statements are none of ours
    with connection.execute_wrapper(counted):
        finish([Ack(UUID(run_id), int(attempt), runner_id, AckStatus.FAILURE, "boom")], datetime.fromisoformat(now))
    connection.close()


def forked(line: str, kill_after: int) -> int:
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            say(line, kill_after)
            code = 0
        finally:
            sys.stderr.flush()
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


if __name__ == "__main__":
    django.setup()
    for number, line in enumerate(sys.stdin, start=1):
        sys.stdout.write(f"{forked(line, number)}\n")
        sys.stdout.flush()
