"""Two servers, two materializers, two reapers and four runners, one of which is killed every two seconds.

The suite makes 1,500 runs in 45 s; `CHAOS=full` makes 10,000 in three minutes. `CHAOS_SEED` repeats the choice of
victims, jobs and servers (not the moments, which are the machine's). On a slow machine it takes longer and ends well
all the same: what is waited for is progress.
"""

from __future__ import annotations

import contextlib
import logging
import os
import sys
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from random import Random

import httpx
import pytest
from django.db.models import Sum

from croniq_site.kernel.clock import DatabaseClock
from scheduler.models import Attempt, QueueEntry, Run, Trigger
from tests.e2e.chaos import verdict
from tests.e2e.chaos.load import Producers, make_jobs
from tests.e2e.chaos.supervisor import Supervisor
from tests.e2e.installation import Installation, free_port, installation
from tests.support.polling import poll_until

IS_FULL = os.environ.get("CHAOS") == "full"
TRIGGERED, SECONDS = (8000, 180) if IS_FULL else (1050, 45)
"""The schedules make about ten more a second."""
KILL_EVERY_SECONDS, LEAST_BETWEEN_KILLS = 2.0, 5
"""On a slow machine the next one waits until so many runs have ended since: whatever takes ten seconds to start would
be killed before it has done anything, for ever."""
STALLED_AFTER_SECONDS = 180
"""Leases last 8 s, a retry waits for less than one; but where forty processes want two cores, both servers once took
more than a minute to start."""
LONGEST_SECONDS = 3000 if IS_FULL else 900
RUNNER = str(Path(__file__).with_name("chaos") / "runner.py")


@pytest.mark.realtime
@pytest.mark.django_db(transaction=True)
@pytest.mark.timeout(LONGEST_SECONDS)
def test_every_run_ends_once_whoever_is_killed(database, tmp_path, caplog):
    caplog.set_level(logging.WARNING, "httpx")  # ten thousand lines
    if database != "postgresql":
        pytest.skip("SQLite has one server")
    seed = int(os.environ.get("CHAOS_SEED") or time.time_ns() % 1_000_000)
    print(f"CHAOS_SEED={seed}")  # noqa: T201 - shown with a failure
    began_at = time.monotonic()
    with installation((), serve=False) as site, _clients(site, (free_port(), free_port())) as clients:
        supervisor = Supervisor(site, Random(seed))
        _start_servers(supervisor, clients)
        make_jobs(clients[0], (DatabaseClock().now() + timedelta(seconds=SECONDS)).isoformat())
        _start_others(supervisor, clients, tmp_path)
        producers = Producers(clients, TRIGGERED, SECONDS, seed)
        producers.start()
        try:
            _storm(supervisor, producers, began_at)
        finally:
            producers.stop()
        storm_over_at = time.monotonic()
        _while_it_moves(supervisor, producers, lambda: _is_over() and producers.are_done)
        settled_at = time.monotonic()
        _nobody_complained(site)
    journals = verdict.read_journals(tmp_path.glob("*.journal"))
    fires = verdict.every_fire_is_one_run()
    verdict.every_key_is_one_run(producers)
    verdict.every_run_ended_within_its_starts(journals)
    verdict.every_completion_is_one(journals)
    verdict.no_limit_was_broken(journals)
    trouble = verdict.rows_tell_the_same()
    print(  # noqa: T201 - the figures of docs/testing.md
        f"{Run.objects.count()} runs ({fires} fires), {sum(journals.beginnings.values())} starts, "
        f"storm {storm_over_at - began_at:.0f} s, settled in {settled_at - storm_over_at:.0f} s, "
        f"killed {dict(supervisor.kills)}, deposed {supervisor.deposed}, answers {dict(producers.said)}, {trouble}, "
        f"longest from due to end {verdict.delay_of_ends()}"
    )
    assert sum(supervisor.kills.values()) >= 10
    assert trouble["takeovers"] > 0
    assert supervisor.deposed <= 2


@contextlib.contextmanager
def _clients(site: Installation, ports: tuple[int, int]) -> Iterator[list[httpx.Client]]:
    """One client a server, with a key that may do everything."""
    headers = {"Authorization": f"ApiKey {site.key()}"}
    with contextlib.ExitStack() as stack:
        yield [
            stack.enter_context(httpx.Client(base_url=f"http://127.0.0.1:{port}", headers=headers, timeout=10))
            for port in ports
        ]


def _start_servers(supervisor: Supervisor, clients: list[httpx.Client]) -> None:
    site = supervisor.site
    for number, client in enumerate(clients):
        port = str(client.base_url.port)
        supervisor.add(f"server-{number}", lambda _, port=port: site.start("serve", "--port", port))
    for client in clients:
        site.wait_for_server(str(client.base_url).rstrip("/"))


def _start_others(supervisor: Supervisor, clients: list[httpx.Client], folder: Path) -> None:
    """Runners come back under their old name, which is a takeover, or under a new one: then their leases run out."""
    site, random = supervisor.site, supervisor.random
    for command in ("materialize", "reap") * 2:
        supervisor.add(command, lambda _, command=command: site.start(command, CRONIQ_HORIZON="1m"))
    key = site.key()
    for number in range(4):
        names = [f"runner-{number}"]

        def start(process: int, number: int = number, names: list[str] = names):
            if process and random.random() < 0.5:
                names.append(f"runner-{number}-{process}")
            url = str(random.choice(clients).base_url).rstrip("/")
            journal = folder / f"{number}-{process}.journal"
            capabilities = ["gpu"] if number < 2 else []
            return site.start(sys.executable, RUNNER, url, key, names[-1], str(journal), *capabilities)

        supervisor.add(f"runner-{number}", start)


def _storm(supervisor: Supervisor, producers: Producers, began_at: float) -> None:
    killed_at, ended_before = time.monotonic(), 0

    def strike() -> bool:
        nonlocal killed_at, ended_before
        ended = Run.objects.filter(verdict__isnull=False).count()
        is_time = time.monotonic() - killed_at >= KILL_EVERY_SECONDS
        if is_time and ended - ended_before >= LEAST_BETWEEN_KILLS:
            killed_at, ended_before = time.monotonic(), ended
            supervisor.kill_one()
        return producers.are_done and time.monotonic() - began_at >= SECONDS

    _while_it_moves(supervisor, producers, strike)


def _while_it_moves(supervisor: Supervisor, producers: Producers, is_over: Callable[[], bool]) -> None:
    """Ask until it is over; fail once nothing has changed for three minutes."""
    seen: object = None
    moved_at = time.monotonic()

    def look() -> bool:
        nonlocal seen, moved_at
        supervisor.check()
        state = (
            len(producers.answers),
            Run.objects.filter(verdict__isnull=False).count(),
            Attempt.objects.count(),
            QueueEntry.objects.aggregate(n=Sum("attempt"))["n"],
        )
        if state != seen:
            seen, moved_at = state, time.monotonic()
        waiting = list(QueueEntry.objects.values("job__job_key", "state", "attempt", "losses", "available_at")[:20])
        assert time.monotonic() - moved_at < STALLED_AFTER_SECONDS, f"nothing moves any more: {state}, {waiting}"
        return is_over()

    poll_until(look, LONGEST_SECONDS, what="all of it is over", interval_s=0.2)


def _nobody_complained(site: Installation) -> None:
    """The death of a neighbour is no error of those who live."""
    for process in site.processes:
        if "manage.py" in " ".join(process.args):
            log = site.log_of(process)
            assert " ERROR " not in log, log
            assert "Traceback" not in log, log


def _is_over() -> bool:
    return not Trigger.objects.filter(next_materialize_at__isnull=False).exists() and not QueueEntry.objects.exists()
