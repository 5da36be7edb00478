"""The unmodified SDK where two processes want one name, and where nobody serves for a while."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import threading
from collections.abc import Iterator

import pytest
from croniq_runner import PollInstanceConflictError, RunnerOwnershipDeniedError
from django.db import connection, transaction

from runners.models import AuditEvent, Heartbeat, Outage, Runner
from scheduler.models import Attempt, QueueEntry
from tests.e2e.installation import PATIENCE_SECONDS, Installation
from tests.e2e.sdk import running_sdk
from tests.e2e.test_sdk import ends, execution, make_job, trigger
from tests.support.polling import poll_until

pytestmark = [pytest.mark.realtime, pytest.mark.django_db(transaction=True), pytest.mark.timeout(300)]

LEASE_SECONDS = 5
AWAY_SECONDS = 13
"""Longer than a lease and a sweep of the reaper: whoever did not know of the outage would have reaped."""


def options(site: Installation, key: str, runner_id: str = "shared", **more):
    return {"server_url": site.base_url, "api_key": key, "runner_id": runner_id, "poll_retry_delay_ms": 200, **more}


class Handler:
    """Runs until it is released; remembers the attempts it began."""

    def __init__(self) -> None:
        self.attempts: list[int] = []
        self.started, self.release = threading.Event(), threading.Event()

    async def __call__(self, ctx) -> None:
        self.attempts.append(ctx.attempt)
        self.started.set()
        while not self.release.is_set():
            await asyncio.sleep(0.02)


def test_the_process_that_lost_its_name_ends_and_its_run_is_the_others(site, api):
    make_job(api, "sdk:shared")
    key, first, second = site.key(), Handler(), Handler()
    second.release.set()
    with running_sdk(lambda r: r.add_handler("sdk:shared", first), **options(site, key)) as deposed:
        run = trigger(api, "sdk:shared")
        assert first.started.wait(PATIENCE_SECONDS)
        with running_sdk(lambda r: r.add_handler("sdk:shared", second), **options(site, key)) as heir:
            done = ends(api, run, "completed")
            first.release.set()  # what it says of its attempt now comes too late
            assert isinstance(deposed.ended.result(PATIENCE_SECONDS), PollInstanceConflictError)
            assert not heir.ended.done()
    assert (first.attempts, second.attempts) == ([1], [2])
    assert (done["attempts"][0]["attempt"], done["attempts"][0]["outcome"]) == (1, "lost")
    assert Attempt.objects.get().cause == "takeover"
    assert execution(api, run)["attempt"] == 2
    assert Runner.objects.get().takeovers == 1
    assert AuditEvent.objects.filter(action="runner.takeover").count() == 1
    assert not AuditEvent.objects.filter(action="runner.identity_flapping").exists()


def test_a_key_of_another_client_cannot_speak_as_my_runner(site, api):
    make_job(api, "sdk:mine")
    mine, theirs = Handler(), Handler()
    with running_sdk(lambda r: r.add_handler("sdk:mine", mine), **options(site, site.key())) as owner:
        run = trigger(api, "sdk:mine")
        assert mine.started.wait(PATIENCE_SECONDS)
        with running_sdk(lambda r: r.add_handler("sdk:mine", theirs), **options(site, site.key())) as stranger:
            assert isinstance(stranger.ended.result(PATIENCE_SECONDS), RunnerOwnershipDeniedError)
        assert not owner.ended.done()
        mine.release.set()
        ends(api, run, "completed")
    assert (mine.attempts, theirs.attempts) == ([1], [])
    assert AuditEvent.objects.filter(action="runner.identity_rejected").count() >= 1
    # Released by a person, the name is the next one's.
    assert api.delete("/v1/runners/shared").status_code == 204
    theirs.release.set()
    with running_sdk(lambda r: r.add_handler("sdk:mine", theirs), **options(site, site.key())):
        ends(api, trigger(api, "sdk:mine"), "completed")
    assert theirs.attempts == [1]


def test_a_run_goes_to_the_runner_that_can_do_it(site, api):
    make_job(api, "sdk:any")
    make_job(api, "sdk:gpu", require=["gpu"])
    plain, able = Handler(), Handler()
    plain.release.set()
    able.release.set()

    def both(handler):
        return lambda r: [r.add_handler(key, handler) for key in ("sdk:any", "sdk:gpu")]

    with running_sdk(both(plain), **options(site, site.key(), "plain")):
        waiting = trigger(api, "sdk:gpu")
        ends(api, trigger(api, "sdk:any"), "completed")
        assert execution(api, waiting)["state"] == "queued"
        with running_sdk(both(able), **options(site, site.key(), "able", capabilities=["gpu", "python"])):
            assert ends(api, waiting, "completed")["runner_id"] == "able"


@contextlib.contextmanager
def server_away(site: Installation) -> Iterator[None]:
    """Killed, and started again on the same port."""
    server = site.processes[0]
    site.stop(server, signal.SIGKILL)
    yield
    site.processes.remove(server)
    site.start("serve", "--port", site.base_url.rsplit(":", 1)[1])
    site.wait_for_server()


@contextlib.contextmanager
def database_away(site: Installation) -> Iterator[None]:
    """PostgreSQL lets nobody in and ends every session but the test's; SQLite lets nobody write."""
    if connection.vendor == "sqlite":
        with transaction.atomic():  # BEGIN IMMEDIATE
            yield
        return
    name = connection.ops.quote_name(connection.settings_dict["NAME"])
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_backend_pid()")
        (mine,) = cursor.fetchone()
    with connection._nodb_cursor() as cursor:
        cursor.execute(f"ALTER DATABASE {name} ALLOW_CONNECTIONS false")
        cursor.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s AND pid <> %s",
            [connection.settings_dict["NAME"], mine],
        )
        try:
            yield
        finally:
            cursor.execute(f"ALTER DATABASE {name} ALLOW_CONNECTIONS true")


@pytest.mark.parametrize("away", [server_away, database_away])
def test_a_run_outlives_an_outage_longer_than_its_lease(site, api, away):
    make_job(api, "sdk:long", lease=LEASE_SECONDS)
    handler = Handler()
    with running_sdk(lambda r: r.add_handler("sdk:long", handler), **options(site, site.key(), renew_interval_ms=1000)):
        run = trigger(api, "sdk:long")
        assert handler.started.wait(PATIENCE_SECONDS)
        poll_until(lambda: Heartbeat.objects.filter(kind="serve").exists(), PATIENCE_SECONDS)
        with away(site):
            assert not handler.release.wait(AWAY_SECONDS)
            if away is server_away:
                entry = QueueEntry.objects.get(run_id=run)
                assert (entry.state, entry.attempt, entry.losses) == (QueueEntry.State.CLAIMED, 1, 0)
        poll_until(lambda: Outage.objects.exists(), PATIENCE_SECONDS, what="the outage is known")
        before = QueueEntry.objects.get(run_id=run).lease_expires_at
        poll_until(
            lambda: QueueEntry.objects.get(run_id=run).lease_expires_at > before,
            PATIENCE_SECONDS,
            what="it is renewed again",
        )
        handler.release.set()
        done = ends(api, run, "completed")
    assert (done["attempt"], handler.attempts) == (1, [1])
    assert not Attempt.objects.exists()
