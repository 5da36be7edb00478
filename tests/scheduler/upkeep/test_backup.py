"""`manage.py backup`: one instant of a database in use, whole or not at all."""

from __future__ import annotations

import errno
import os
import sqlite3
import stat
from datetime import timedelta
from io import StringIO
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command
from django.db import connection

from scheduler.models import Run
from scheduler.services import backup
from tests.factories import RunFactory
from tests.support.races import Session

SECOND = timedelta(seconds=1)


@pytest.fixture
def sqlite_only(database):
    if database != "sqlite":
        pytest.skip("PostgreSQL is backed up by its own tools")


def back_up(file: Path) -> str:
    out = StringIO()
    call_command("backup", str(file), stdout=out)
    return out.getvalue()


@pytest.mark.django_db
def test_on_postgresql_it_says_how_that_is_done_and_exits_with_2(database, tmp_path):
    if database == "sqlite":
        pytest.skip("of PostgreSQL")
    with pytest.raises(CommandError) as refusal:
        back_up(tmp_path / "copy")
    assert refusal.value.returncode == 2
    assert "pg_dump" in str(refusal.value)
    assert not list(tmp_path.iterdir())


@pytest.mark.django_db(transaction=True)
@pytest.mark.usefixtures("sqlite_only")
def test_a_copy_holds_what_was_committed_and_not_what_is_under_way(tmp_path):
    run = RunFactory()
    with Session() as writer:
        writer.begin()
        writer.run(lambda: RunFactory(job=run.job, scheduled_for=run.scheduled_for + SECOND))
        # Whoever writes is not waited for; a copy that took a lock would wait for twenty seconds and then fail.
        written = back_up(tmp_path / "copy.sqlite3")
        writer.commit()
    assert "checked" in written
    copy = sqlite3.connect(tmp_path / "copy.sqlite3")
    assert copy.execute("SELECT id FROM scheduler_run").fetchall() == [(run.pk.hex,)]
    copy.close()
    assert stat.S_IMODE((tmp_path / "copy.sqlite3").stat().st_mode) == 0o600
    assert [path.name for path in tmp_path.iterdir()] == ["copy.sqlite3"]
    assert Run.objects.count() == 2


@pytest.mark.django_db(transaction=True)
@pytest.mark.usefixtures("sqlite_only")
def test_nothing_is_replaced_also_what_appears_while_it_is_copied(tmp_path, monkeypatch):
    target = tmp_path / "copy"
    target.write_text("last week's")
    with pytest.raises(CommandError, match="is there already"):
        back_up(target)
    target.unlink()
    copies = backup._copy

    def somebody_else_is_faster(source, part):
        copies(source, part)
        target.write_text("another's")

    monkeypatch.setattr(backup, "_copy", somebody_else_is_faster)
    with pytest.raises(CommandError, match="is there already"):
        back_up(target)
    assert target.read_text() == "another's"
    assert [path.name for path in tmp_path.iterdir()] == ["copy"]


@pytest.mark.django_db(transaction=True)
@pytest.mark.usefixtures("sqlite_only")
def test_what_a_killed_backup_left_keeps_no_other_from_that_name(tmp_path):
    (tmp_path / f".copy.{os.getpid()}.part").write_text("half of it")  # of a container's last process, as this one is
    back_up(tmp_path / "copy")
    assert sqlite3.connect(tmp_path / "copy").execute("PRAGMA integrity_check").fetchone() == ("ok",)


@pytest.mark.django_db(transaction=True)
@pytest.mark.usefixtures("sqlite_only")
@pytest.mark.parametrize("code", [errno.EPERM, errno.ENOTSUP])
def test_a_file_system_without_links_takes_a_backup_and_has_none_replaced(tmp_path, monkeypatch, code):
    def no_links(*_):
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(os, "link", no_links)
    assert "checked" in back_up(tmp_path / "copy")
    assert [path.name for path in tmp_path.iterdir()] == ["copy"]
    copies = backup._copy

    def somebody_else_is_faster(source, part):
        copies(source, part)
        (tmp_path / "other").write_text("another's")

    monkeypatch.setattr(backup, "_copy", somebody_else_is_faster)
    with pytest.raises(CommandError, match="is there already"):
        back_up(tmp_path / "other")
    assert (tmp_path / "other").read_text() == "another's"


@pytest.mark.django_db(transaction=True)
@pytest.mark.usefixtures("sqlite_only")
def test_a_copy_that_is_not_sound_never_gets_its_name(tmp_path, monkeypatch):
    with connection.cursor() as cursor:
        cursor.execute("PRAGMA foreign_keys=OFF")
        cursor.execute(
            "INSERT INTO scheduler_runlog (run_id, attempt, logged_at, level, message, fields) "
            "VALUES ('00000000000000000000000000000000', 1, '2026-01-01', 'info', '', '{}')"
        )
        try:
            with pytest.raises(CommandError, match=r"not sound.*scheduler_runlog"):
                back_up(tmp_path / "copy")
        finally:
            cursor.execute("DELETE FROM scheduler_runlog")
            cursor.execute("PRAGMA foreign_keys=ON")
    assert not list(tmp_path.iterdir())


@pytest.mark.django_db(transaction=True)
@pytest.mark.usefixtures("sqlite_only")
def test_a_folder_that_is_not_there_is_one_sentence(tmp_path):
    with pytest.raises(CommandError, match="cannot be written"):
        back_up(tmp_path / "nowhere" / "copy")
