"""`manage.py import_celery_beat` from real tables, on SQLite and on PostgreSQL."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from uuid import uuid4

import psycopg
import pytest
from django.core.management.base import CommandError

from croniq_site.kernel.errors import InvalidInput
from runners.models import AuditEvent
from scheduler.models import Job, Trigger
from scheduler.queries import celery_tables
from scheduler.queries.celery_tables import read_celery_tables
from tests.scheduler.imports.support import run, snapshot
from tests.support.database import database_url

pytestmark = pytest.mark.django_db

CASES = Path(__file__).parents[1] / "cases" / "celery_beat"


@pytest.fixture
def application(database: str, tmp_path: Path) -> Iterator[SimpleNamespace]:
    """Another application's database of the kind of this run, with the tables of django-celery-beat 2.9 in it.

    ``url`` of it, and ``execute`` a statement as its owner.
    """
    if database == "sqlite":
        path = tmp_path / "app db.sqlite3"
        with closing(sqlite3.connect(path)) as connection:
            connection.executescript((CASES / "sqlite.sql").read_text())

        def execute(statement: str) -> None:
            with closing(sqlite3.connect(path, isolation_level=None)) as connection:
                connection.execute(statement)

        yield SimpleNamespace(url=f"sqlite:///{path}", execute=execute, path=path)
        return
    name = f"app_{uuid4().hex[:12]}"
    before, _, query = database_url().partition("?")
    url = f"{before.rpartition('/')[0]}/{name}" + (f"?{query}" if query else "")
    with psycopg.connect(database_url(), autocommit=True) as owner:
        owner.execute(f"CREATE DATABASE {name}")

        def execute(statement: str) -> None:
            with psycopg.connect(url, autocommit=True) as connection:
                connection.execute(statement)

        try:
            execute((CASES / "postgresql.sql").read_text())
            yield SimpleNamespace(url=url, execute=execute)
        finally:
            owner.execute(f"DROP DATABASE {name} WITH (FORCE)")


def test_the_tasks_of_a_real_application_become_jobs_and_again_changes_nothing(application) -> None:
    out = run("import_celery_beat", "--database-url", application.url, "--queues", "--require", "python")
    assert "5 tasks taken (5 created, 0 changed, 0 unchanged), 5 not taken." in out
    for name, why in {
        "friday-13": "both have to match in Celery",
        "sunrise": "it follows the sun",
        "long ago": "no instant left in the future",
        "once done": "it was to run once, and has run",
        "celery.backend_cleanup": "cleans up Celery's own results",
    }.items():
        (line,) = (n for n, text in enumerate(out.splitlines()) if f": {name}" in text)
        assert why in out.splitlines()[line + 1]
    jobs = {job.job_key: job for job in Job.objects.all()}
    assert sorted(jobs) == [
        "celery:first-monday-d0b3cd3a",
        "celery:new-year-b1f75b2e",
        "celery:once-soon-c18ed227",
        "celery:poll",
        "celery:reports.daily",
    ]
    report = jobs["celery:reports.daily"]
    assert report.metadata == {
        "task": "app.tasks.report",
        "args": ["monthly", 2],
        "kwargs": {"to": "team@example.org"},
    }
    assert (report.action, report.require, report.queue_ttl_seconds) == ({}, ["python", "reports"], 600)
    assert (report.timeout_seconds, report.max_retries, report.max_losses, report.catch_up) == (86_400, 0, 0, "latest")
    triggers = {trigger.job.job_key: trigger for trigger in Trigger.objects.select_related("job")}
    every_two = triggers["celery:reports.daily"]
    assert (every_two.cron_expression, every_two.timezone) == ("0 */2 * * *", "Europe/Vienna")
    monday = triggers["celery:first-monday-d0b3cd3a"]
    assert (monday.cron_expression, monday.not_after) == ("30 4 * * 1#1", datetime(2098, 1, 1, tzinfo=UTC))
    assert jobs["celery:first-monday-d0b3cd3a"].is_active is False
    poll = triggers["celery:poll"]
    assert (poll.every, poll.anchor_at) == (timedelta(minutes=10), datetime(2026, 1, 1, 0, 7, 30, tzinfo=UTC))
    assert triggers["celery:new-year-b1f75b2e"].run_at == datetime(2099, 1, 2, 3, 4, tzinfo=UTC)
    # 02:00 in Vienna's summer is 00:00 of UTC; the start is at 01:00.
    assert triggers["celery:once-soon-c18ed227"].run_at == datetime(2098, 5, 1, 2, 0, tzinfo=UTC)
    before = snapshot()
    out = run("import_celery_beat", "--database-url", application.url, "--queues", "--require", "python")
    assert "(0 created, 0 changed, 5 unchanged)" in out
    assert snapshot() == before


def test_a_dry_run_writes_nothing(application, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CELERY_DATABASE_URL", application.url)
    out = run("import_celery_beat", "--dry-run")
    assert not Job.objects.exists()
    assert not AuditEvent.objects.exists()
    assert "would be created celery:reports.daily" in out
    assert "reports.daily: app.tasks.report" in out
    assert "every 10 minutes" in out
    assert "5 tasks would be taken (5 created" in out
    with pytest.raises(CommandError, match="Not every task could be taken"):
        run("import_celery_beat", "--dry-run", "--strict")


def test_an_edited_schedule_is_followed_and_what_was_edited_here_stays(application) -> None:
    run("import_celery_beat", "--database-url", application.url)
    Job.objects.filter(job_key="celery:poll").update(max_retries=7)
    anchor = Trigger.objects.get(job__job_key="celery:poll").anchor_at
    application.execute("UPDATE django_celery_beat_intervalschedule SET every = 20")
    application.execute(
        "UPDATE django_celery_beat_periodictask SET last_run_at = NULL, args = '[1]' WHERE name = 'poll'"
    )
    assert "changed    celery:poll" in run("import_celery_beat", "--database-url", application.url)
    trigger = Trigger.objects.select_related("job").get(job__job_key="celery:poll")
    assert (trigger.every, trigger.anchor_at) == (timedelta(minutes=20), anchor)
    assert (trigger.job.max_retries, trigger.job.metadata["args"]) == (7, [1])
    # The schedule alone, of another kind: everything else is as it was.
    application.execute(
        "UPDATE django_celery_beat_periodictask SET interval_id = NULL, crontab_id = 1 WHERE name = 'poll'"
    )
    assert "changed    celery:poll" in run("import_celery_beat", "--database-url", application.url)
    assert Trigger.objects.get(job__job_key="celery:poll").cron_expression == "0 */2 * * *"


def test_a_one_off_that_was_imported_is_not_armed_again(application) -> None:
    run("import_celery_beat", "--database-url", application.url)
    before = Trigger.objects.get(job__job_key__startswith="celery:once-soon").run_at
    application.execute(
        "UPDATE django_celery_beat_periodictask SET start_time = '2099-07-01 00:00:00' WHERE name = 'once soon'"
    )
    assert "(0 created, 0 changed, 5 unchanged)" in run("import_celery_beat", "--database-url", application.url)
    assert Trigger.objects.get(job__job_key__startswith="celery:once-soon").run_at == before


def test_the_applications_database_is_only_read(application, database: str, tmp_path: Path) -> None:
    with (
        celery_tables._connected(application.url) as connection,
        connection.cursor() as cursor,
        pytest.raises(celery_tables.Error, match=r"read-?only"),
    ):
        cursor.execute("DELETE FROM django_celery_beat_periodictask")
    missing = tmp_path / "missing.sqlite3"
    with pytest.raises(InvalidInput, match="There is no file"):
        read_celery_tables(f"sqlite:///{missing}")
    assert not missing.exists()


def test_tables_of_older_versions_are_read(application) -> None:
    """1.0 had neither zones nor clocked schedules, one-offs, start times, headers or priorities."""
    application.execute("DELETE FROM django_celery_beat_periodictask WHERE one_off")
    application.execute("DROP TABLE django_celery_beat_clockedschedule" + _cascade(application))
    application.execute("ALTER TABLE django_celery_beat_crontabschedule DROP COLUMN timezone")
    for column in ("one_off", "start_time", "headers", "priority", "expire_seconds"):
        application.execute(f"ALTER TABLE django_celery_beat_periodictask DROP COLUMN {column}")
    assert "3 tasks taken" in run("import_celery_beat", "--database-url", application.url, "--timezone", "Asia/Tokyo")
    assert set(Trigger.objects.filter(kind="cron").values_list("timezone", flat=True)) == {"Asia/Tokyo"}


def _cascade(application: SimpleNamespace) -> str:
    return "" if application.url.startswith("sqlite") else " CASCADE"


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("mysql://u:secret@h/n", "Only SQLite and PostgreSQL are read"),
        ("nonsense", "Only SQLite and PostgreSQL are read"),
        ("sqlite:////nowhere/at.all", "There is no file /nowhere/at.all."),
        ("postgres://u:secret@127.0.0.1:1/n", "The database cannot be read: connection"),
        ("postgres://u:secret@[::1/n", "It is no URL"),
    ],
)
def test_what_cannot_be_read_is_refused_by_the_options_name(url: str, says: str) -> None:
    with pytest.raises(CommandError) as refused:
        run("import_celery_beat", "--database-url", url)
    assert str(refused.value).startswith(f"database_url: {says}")
    assert "secret" not in str(refused.value)


def test_a_database_without_the_tables_and_an_option_that_is_not_there(
    application, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("CELERY_DATABASE_URL", raising=False)
    application.execute("DROP TABLE django_celery_beat_periodictask" + _cascade(application))
    with pytest.raises(CommandError, match="has no table django_celery_beat_periodictask"):
        run("import_celery_beat", "--database-url", application.url)
    with pytest.raises(CommandError, match="--database-url: the application's database is needed"):
        run("import_celery_beat")


def test_more_tasks_than_an_import_takes_are_refused(application, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(celery_tables, "MOST_TASKS", 9)
    with pytest.raises(CommandError, match="more than 9 periodic tasks"):
        run("import_celery_beat", "--database-url", application.url)
