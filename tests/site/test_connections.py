"""How connections are configured, seen from what they then do."""

from __future__ import annotations

import pytest
from django.db import close_old_connections, connection

from croniq_site.kernel.loop import run_loop
from croniq_site.kernel.stop import StopToken
from runners.models import ApiClient
from tests.support.races import Session


class _Waits(StopToken):
    """Records what the loop wanted to wait, and never waits."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[float] = []

    def wait(self, seconds: float) -> bool:
        self.asked.append(seconds)
        return self.is_set


def _end(pid: int) -> None:
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_terminate_backend(%s, 10000)", [pid])
        assert cursor.fetchone() == (True,)


@pytest.mark.django_db
def test_the_driver_is_told_when_to_take_a_silent_server_for_dead(database):
    if database != "postgresql":
        pytest.skip("SQLite's connections have no other end")
    connection.ensure_connection()
    used = connection.connection.info.get_parameters()
    assert {"connect_timeout", "keepalives_idle", "keepalives_interval", "keepalives_count"} <= set(used)
    assert int(used["tcp_user_timeout"]) < 60_000


@pytest.mark.django_db(transaction=True)
def test_a_connection_that_was_ended_while_nobody_used_it_costs_no_request(database):
    if database != "postgresql":
        pytest.skip("SQLite's connections have no other end")
    with Session() as server:
        assert server.run(ApiClient.objects.count) == 0
        _end(server.backend_pid)
        server.run(close_old_connections)  # as at the beginning of each request
        assert server.run(ApiClient.objects.count) == 0


@pytest.mark.django_db(transaction=True)
def test_a_connection_that_was_ended_between_two_passes_of_a_worker_fails_none_of_them(database):
    if database != "postgresql":
        pytest.skip("SQLite's connections have no other end")
    stop, counted = _Waits(), []

    with Session() as worker, Session() as operator:

        def step() -> float:
            if counted:
                stop.stop()
            counted.append(ApiClient.objects.count())
            with connection.cursor() as cursor:
                cursor.execute("SELECT pg_backend_pid()")
                pid = cursor.fetchone()[0]
            if not stop.is_set:
                operator.run(_end, pid)
            return 7.0

        worker.run(run_loop, "worker", step, stop)
    assert counted == [0, 0]
    assert stop.asked == [7.0, 7.0]
