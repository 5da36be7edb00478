"""`manage.py move_to_postgres`: all of an installation, proved, resumed after SIGKILL, and nothing of it by halves."""

from __future__ import annotations

import itertools
import json
import os
import signal
import subprocess
import sys
from datetime import datetime, timedelta
from io import StringIO
from pathlib import Path
from uuid import UUID

import httpx
import psycopg
import pytest
from django.apps import apps
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import Group, Permission, User
from django.contrib.contenttypes.models import ContentType
from django.contrib.sessions.models import Session as WebSession
from django.core.management import CommandError, call_command
from django.db import connection, transaction
from django.db.models import Model

from croniq_site.kernel.clock import DatabaseClock
from croniq_site.kernel.ids import uuid7
from croniq_site.kernel.migrated import UNFINISHED_MOVE
from runners.models import Heartbeat
from runners.services.clients import create_client, issue_key
from scheduler.models import Job, Maintenance, Run, RunLog, Tally
from scheduler.services.move import moving
from scheduler.services.move.tables import all_tables, digest, plain_of_postgresql, plain_of_sqlite
from scheduler.services.move.target import Target
from tests.e2e.installation import free_port
from tests.factories import HeartbeatFactory, JobFactory, RunFactory, RunLogFactory, TriggerFactory
from tests.schema.test_factories import ALL
from tests.support.database import database_url
from tests.support.polling import poll_until
from tests.support.postgres import private_postgres
from tests.support.races import Session

ROOT = Path(__file__).resolve().parents[3]
DAY = timedelta(days=1)
FOREIGN_KEYS = "SELECT conname, pg_get_constraintdef(oid) FROM pg_constraint WHERE contype = 'f' ORDER BY 1"
_numbers = itertools.count()


@pytest.mark.django_db
def test_every_table_of_the_database_is_moved():
    """Who adds a table adds a model, or says here why it stays."""
    stays = {"django_migrations", "sqlite_sequence"}
    assert {table.name for table in all_tables()} == set(connection.introspection.table_names()) - stays


@pytest.mark.django_db
def test_every_column_of_a_table_is_moved_and_its_key_comes_first():
    with connection.cursor() as cursor:
        for table in all_tables():
            cursor.execute(f'SELECT * FROM "{table.name}" LIMIT 0')
            assert {column.name for column in table.columns} == {column[0] for column in cursor.description}
            assert table.key.name == connection.introspection.get_primary_key_column(cursor, table.name)


@pytest.mark.django_db(transaction=True)
def test_an_installation_on_postgresql_is_not_moved_and_one_that_is_being_filled_does_not_start(database):
    if database == "sqlite":
        pytest.skip("of PostgreSQL")
    with pytest.raises(CommandError, match="on PostgreSQL already"):
        call_command("move_to_postgres", to="postgres://localhost/x")
    with connection.cursor() as cursor:
        cursor.execute(f"CREATE TABLE {UNFINISHED_MOVE} (source text)")
        try:
            for command in ("materialize", "reap", "serve"):
                with pytest.raises(CommandError, match="a move that is not finished"):
                    call_command(command, **({} if command == "serve" else {"once": True}))
        finally:
            cursor.execute(f"DROP TABLE {UNFINISHED_MOVE}")


realtime = pytest.mark.realtime


@pytest.fixture(scope="module")
def template(tmp_path_factory):
    """A server with a migrated, empty database that others are made from: (its URL, how to name another database)."""
    with private_postgres() as server:
        name = f"move_template_{os.getpid()}"
        _sql(server.url, f"CREATE DATABASE {name}")
        _manage("migrate", "--verbosity", "0", DATABASE_URL=server.url_for(name))
        yield server, name
        _sql(server.url, f"DROP DATABASE {name} WITH (FORCE)")


@pytest.fixture
def target(database, request):
    """The URL of an empty, migrated PostgreSQL database of this test's own."""
    if database != "sqlite":
        pytest.skip("from SQLite")
    server, model = request.getfixturevalue("template")
    name = f"move_{os.getpid()}_{next(_numbers)}"
    _sql(server.url, f"CREATE DATABASE {name} TEMPLATE {model}")
    yield server.url_for(name)
    _sql(server.url, f"DROP DATABASE {name} WITH (FORCE)")


def _sql(url: str, query: str, *parameters: object) -> list[tuple]:
    with psycopg.connect(url, autocommit=True) as other:
        answer = other.execute(query, parameters or None)
        return answer.fetchall() if answer.description else []


def _manage(*arguments: str, ok: bool = True, **env: str) -> str:
    command = [sys.executable, *(("manage.py",) if arguments[0] != "-m" else ()), *arguments]
    done = subprocess.run(
        command, cwd=ROOT, env={**os.environ, **env}, capture_output=True, text=True, check=False, timeout=300
    )
    assert (done.returncode == 0) == ok, done.stdout + done.stderr
    return done.stdout if ok else done.stderr


def _told(url: str, now: datetime, key: str) -> dict:
    """What a process on that database tells of it."""
    return json.loads(_manage("-m", "tests.scheduler.upkeep.moved", now.isoformat(), key, DATABASE_URL=url))


def _move(url: str, **options: int) -> str:
    out = StringIO()
    call_command("move_to_postgres", to=url, stdout=out, **options)
    return out.getvalue()


def any_row(model: type[Model], now: datetime) -> Model:
    """The first row of a model, made of nothing in particular where there is none: for other people's apps."""
    found = model._base_manager.first()
    if found is not None:
        return found
    values: dict[str, object] = {}
    for column in model._meta.concrete_fields:
        if column.primary_key or column.null or column.has_default():
            continue
        if column.is_relation:
            values[column.name] = any_row(column.related_model, now)
        else:
            kinds = {"DateTimeField": now, "JSONField": {"a": 1}, "BooleanField": True, "IntegerField": 1}
            values[column.name] = kinds.get(column.get_internal_type(), "any")
    return model._base_manager.bulk_create([model(**values)])[0]


def fill(now, each: int = 40) -> str:
    """Rows in every table, thousands in those that grow, with values that the two databases keep differently. Returns
    a key that opens the installation."""
    with transaction.atomic():
        for made in ALL:
            made.create_batch(each)
        job = JobFactory(job_key="demo:moved", metadata={"ü": [1, 1.0, 1e22, 10**30, None, "\\u0000"], "": {}})
        for every in (timedelta(microseconds=1_500_001), timedelta(days=3, hours=5)):
            TriggerFactory(job=job, every=every, anchor_at=now + timedelta(microseconds=123_456))
        TriggerFactory(job=job, kind="cron", every=None, anchor_at=None, cron_expression="*/7 3 * * MON", timezone="")
        runs = [
            Run(
                id=uuid7(now),
                job=job,
                kind="triggered",
                scheduled_for=now - n * timedelta(microseconds=1),
                occurrence_at=now,
                created_at=now,
                error="ein\tTab\\ und\neine Zeile, 日本 \\N",
                metadata=None if n % 2 else {},
                verdict="completed",
                finished_at=now,
                duration_ms=n,
            )
            for n in range(3_000)
        ]
        Run.objects.bulk_create(runs, batch_size=500)
        RunLog.objects.bulk_create(
            [RunLog(run=run, attempt=1, logged_at=now, level="info", message="ü" * 50) for run in runs], batch_size=500
        )
        Tally.objects.bulk_create([Tally(kind="lost", label="lease", count=n) for n in range(1, 1_001)])
        RunLogFactory(run=runs[0]).delete()  # the highest number that was ever given out is nobody's now
        users = [User.objects.create_user(f"user-{n}", password=None) for n in range(each)]
        group = Group.objects.create(name="operators")
        group.permissions.set(Permission.objects.all()[:each])
        kind = ContentType.objects.get_for_model(Job)
        for n, user in enumerate(users):
            user.groups.add(group)
            user.user_permissions.set(Permission.objects.all()[:2])
            LogEntry.objects.create(user=user, content_type=kind, action_flag=1, action_time=now, object_repr=str(n))
            # In an order that a locale has and bytes have not.
            name = f"{'aB_c-'[n % 5]}{n}" + "x" * 20
            WebSession.objects.create(session_key=name, session_data="", expire_date=now + DAY)
        for model in apps.get_models():
            any_row(model, now)
        # Before what it repeats, in the order of keys.
        RunFactory(id=UUID(int=1), job=job, kind="replay", replay_of=runs[9])
    real = DatabaseClock().now()
    return issue_key(create_client("moves-along", ["admin"], real), real)


@realtime
@pytest.mark.django_db(transaction=True)
@pytest.mark.timeout(400)
def test_a_move_that_is_killed_goes_on_and_ends_in_the_same_installation(target, now):
    key = fill(now)
    before, keys = _told(database_url(), now, key), _sql(target, FOREIGN_KEYS)
    assert [name for name, rows in before["rows"].items() if not rows] == []
    middle = sorted(Tally.objects.values_list("pk", flat=True))[700]
    with psycopg.connect(target) as other:
        # Uncommitted: the batch with this number in it waits for us, the ones before are there.
        other.execute("INSERT INTO scheduler_tally (id, kind, label, count) VALUES (%s, 'lost', '', 1)", [middle])
        process = subprocess.Popen(
            [sys.executable, "manage.py", "move_to_postgres", "--to", target, "--batch", "100"],
            cwd=ROOT,
            env={**os.environ, "DATABASE_URL": database_url()},
            stdout=subprocess.DEVNULL,
        )
        waits = "SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND wait_event = 'transactionid'"
        try:
            poll_until(lambda: process.poll() is not None or _sql(target, waits), 120, what="it waits for us")
            assert process.poll() is None
        finally:
            process.send_signal(signal.SIGKILL)
            process.wait()
        other.rollback()
    ((there,),) = _sql(target, "SELECT count(*) FROM scheduler_tally")
    assert 0 < there < Tally.objects.count()
    assert "a move that is not finished" in _manage("materialize", "--once", ok=False, DATABASE_URL=target)

    said = _manage("move_to_postgres", "--to", target, "--batch", "500", DATABASE_URL=database_url())
    assert "Going on where the last move was interrupted." in said
    assert "scheduler_run: 0 rows copied" in said
    assert f"scheduler_tally: {Tally.objects.count() - there} rows copied" in said
    after = _told(target, now, key)
    assert after == before
    assert after["key"] == "moves-along"
    assert len(after["fires"]["demo:moved"]) == 5
    assert _sql(target, FOREIGN_KEYS) == keys
    ((number,),) = _sql(target, "SELECT nextval(pg_get_serial_sequence('scheduler_runlog', 'id'))")
    with connection.cursor() as cursor:
        cursor.execute("SELECT seq FROM sqlite_sequence WHERE name = 'scheduler_runlog'")
        assert number == cursor.fetchone()[0] + 1
    # What still runs on the old one hands out nothing; the new one does.
    assert Maintenance.objects.get(is_on=True).reason == moving.MOVED
    assert _sql(target, "SELECT 1 FROM scheduler_maintenance WHERE reason = %s", moving.MOVED) == []
    _a_runner_comes_back(target, key)


def _a_runner_comes_back(url: str, key: str) -> None:
    """With the key that it had, to a server on the new database."""
    _sql(url, "UPDATE scheduler_maintenance SET is_on = false, ended_at = began_at WHERE is_on")
    port = free_port()
    server = subprocess.Popen(
        [sys.executable, "manage.py", "serve", "--port", str(port)],
        cwd=ROOT,
        env={**os.environ, "DATABASE_URL": url, "CRONIQ_HTTPS": "false"},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    try:
        assert server.stdout.readline().startswith("Croniq serves")
        body = {"runner_id": "comes-back", "capabilities": [], "max_inflight": 5}
        answer = httpx.post(
            f"http://127.0.0.1:{port}/v1/work/poll",
            json=body,
            headers={"Authorization": f"ApiKey {key}"},
            timeout=60,
        )
        assert answer.status_code == 200, answer.text
        assert answer.json()["work"]
    finally:
        server.kill()
        server.wait()
        server.stdout.close()


@realtime
@pytest.mark.django_db(transaction=True)
def test_what_was_written_since_an_interrupted_move_is_found_and_the_target_stays_shut(target, now, monkeypatch):
    run = RunFactory(completed=True)
    RunFactory(job=run.job)

    def dies(*_):
        raise psycopg.OperationalError("the server went away")

    with monkeypatch.context() as patch:
        patch.setattr(Target, "finish", dies)
        with pytest.raises(CommandError, match="Ask for it again"):
            _move(target)
    Run.objects.filter(pk=run.pk).update(duration_ms=77)
    with pytest.raises(CommandError, match="scheduler_run is not the same on both sides"):
        _move(target)
    assert _sql(target, "SELECT to_regclass(%s) IS NOT NULL", UNFINISHED_MOVE) == [(True,)]
    Run.objects.filter(pk=run.pk).update(duration_ms=0)
    digests = Target.digest
    with monkeypatch.context() as patch, Session() as worker:

        def meanwhile(self, table):
            if table.name == "scheduler_run":
                worker.run(HeartbeatFactory)
            return digests(self, table)

        patch.setattr(Target, "digest", meanwhile)
        with pytest.raises(CommandError, match="has written to this database since the move began"):
            _move(target)
    assert _sql(target, "SELECT to_regclass(%s) IS NOT NULL", UNFINISHED_MOVE) == [(True,)]
    assert "Moved: " in _move(target)
    assert _sql(target, "SELECT count(*) FROM runners_heartbeat") == [(Heartbeat.objects.count(),)]
    assert not Maintenance.objects.exclude(reason=moving.MOVED).exists()
    with pytest.raises(CommandError, match="moved already"):
        _move(target)


@realtime
@pytest.mark.django_db(transaction=True)
def test_a_row_that_refers_to_nothing_opens_no_target(target):
    with connection.cursor() as cursor:
        cursor.execute("PRAGMA foreign_keys=OFF")
        cursor.execute(
            "INSERT INTO scheduler_runlog (run_id, attempt, logged_at, level, message, fields) "
            "VALUES ('00000000000000000000000000000000', 1, '2026-01-01 00:00:00', 'info', '', '{}')"
        )
        try:
            with pytest.raises(CommandError, match="refers to nothing"):
                _move(target)
            assert _sql(target, "SELECT to_regclass(%s) IS NOT NULL", UNFINISHED_MOVE) == [(True,)]
        finally:
            cursor.execute("DELETE FROM scheduler_runlog")
            cursor.execute("PRAGMA foreign_keys=ON")


@realtime
@pytest.mark.django_db(transaction=True)
def test_nothing_is_moved_where_it_should_not_be(target, request):
    refused, keys = pytest.raises(CommandError), _sql(target, FOREIGN_KEYS)
    JobFactory()
    for url, part in [
        ("sqlite:////tmp/x", "--to is a URL"),
        ("postgres://[", "--to is a URL"),
        ("postgres://croniq:p@ss@localhost/x", "%40"),  # the driver would tell what it takes for the host
        ("postgres://nobody@/nowhere?host=/nonexistent", "cannot be opened"),
        (request.getfixturevalue("template")[0].url_for("postgres"), "other migrations"),
    ]:
        with refused as refusal:
            _move(url)
        assert part in str(refusal.value)
    with refused as refusal:
        _move(target, batch=0)
    assert "--batch" in str(refusal.value)
    # Somebody is at work here, or there.
    beat = HeartbeatFactory(kind="reap", beat_at=DatabaseClock().now())
    with refused as refusal:
        _move(target)
    assert "reap (process 1 on test)" in str(refusal.value)
    beat.delete()
    with psycopg.connect(target, autocommit=True) as other:
        other.execute(
            "INSERT INTO scheduler_lane (tenant, route, require, prefer, priority) VALUES ('', '', '[]', '[]', 0)"
        )
        with refused as refusal:
            _move(target)
        assert "not empty: scheduler_lane" in str(refusal.value)
        # It is as it was: its foreign keys too.
        assert other.execute("SELECT to_regclass(%s) IS NULL", [UNFINISHED_MOVE]).fetchone() == (True,)
        assert _sql(target, FOREIGN_KEYS) == keys
        other.execute("DELETE FROM scheduler_lane")
        other.execute(f"CREATE TABLE {UNFINISHED_MOVE} (source text, began_at timestamptz, foreign_keys jsonb)")
        other.execute(f"INSERT INTO {UNFINISHED_MOVE} VALUES ('/another/place', now(), '[]')")
    with refused as refusal:
        _move(target)
    assert "being filled from /another/place" in str(refusal.value)


@pytest.mark.parametrize(
    ("kind", "sqlite", "postgresql"),
    [
        ("JSONField", '{"b": 1e22, "a": [1, 1.0]}', '{"a": [1, 1.0], "b": 10000000000000000000000}'),
        ("FloatField", 60, 60.0),
        ("DurationField", 90_000_001, timedelta(seconds=90, microseconds=1)),
        ("BooleanField", 1, True),
        ("TextField", "ü", "ü"),
    ],
)
def test_equal_values_are_equal_however_they_are_kept_and_others_are_not(kind, sqlite, postgresql):
    assert plain_of_sqlite(kind, sqlite) == plain_of_postgresql(kind, postgresql)
    other = {"JSONField": '{"b": 2}', "FloatField": 61, "DurationField": 1, "BooleanField": 0, "TextField": "u"}[kind]
    assert plain_of_sqlite(kind, other) != plain_of_postgresql(kind, postgresql)


@pytest.mark.django_db
def test_a_digest_tells_rows_from_other_rows():
    (table,) = [table for table in all_tables() if table.name == "scheduler_tally"]
    rows = [(1, "lost", "", None, 2), (2, "lost", "lease", None, 1)]
    ways = [rows, rows[:1], rows[::-1], [rows[0], (2, "lost", "leas", None, 1)], [rows[0], (2, "lost", "lease", 0, 1)]]
    assert len({digest(table.columns, way, plain_of_sqlite) for way in ways}) == len(ways)
