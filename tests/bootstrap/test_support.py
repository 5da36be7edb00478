"""The test bed itself: the race helpers, the poll, the URL given to child processes, the counts."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import threading
from pathlib import Path
from types import SimpleNamespace

import pytest
from django.contrib.auth import get_user_model
from django.db import connection, transaction

from tests import conftest
from tests.support import suite
from tests.support.database import database_url
from tests.support.polling import poll_until
from tests.support.postgres import BIN_VARIABLE, URL_VARIABLE
from tests.support.races import Session, in_thread, is_waiting_for_lock, together
from tests.support.suite import ROOT, Counts, Target, child_environment, read_counts


def _names() -> list[str]:
    return list(get_user_model().objects.order_by("username").values_list("username", flat=True))


@pytest.mark.django_db
def test_sqlite_runs_on_a_file(database):
    if database != "sqlite":
        pytest.skip("a file is SQLite's")
    assert Path(connection.settings_dict["NAME"]).is_file()


@pytest.mark.django_db(transaction=True)
def test_another_thread_has_another_connection_and_sees_only_what_is_committed(database):
    if database == "sqlite":
        pytest.skip("SQLite's immediate transactions let nobody else in; the next test covers what it can")
    with Session() as other:
        with transaction.atomic():
            get_user_model().objects.create(username="ann")
            assert other.run(_names) == []
        assert other.run(_names) == ["ann"]


@pytest.mark.django_db(transaction=True)
def test_what_a_session_rolls_back_is_gone_and_what_it_commits_is_there():
    with Session() as session:
        session.begin()
        session.run(get_user_model().objects.create, username="ann")
        session.rollback()
        assert _names() == []
        session.begin()
        session.run(get_user_model().objects.create, username="bob")
        session.commit()
        assert _names() == ["bob"]


@pytest.mark.django_db(transaction=True)
def test_a_session_left_in_a_transaction_rolls_back():
    with Session() as session:
        session.begin()
        session.run(get_user_model().objects.create, username="ann")
    assert _names() == []


@pytest.mark.django_db(transaction=True)
def test_a_session_that_waits_for_a_lock_is_seen_waiting(database):
    if database != "postgresql":
        pytest.skip("row locks are PostgreSQL's")
    get_user_model().objects.create(username="ann")

    def rename():
        return get_user_model().objects.filter(username="ann").update(first_name="A")

    with Session() as one, Session() as two:
        pid = two.backend_pid
        one.begin()
        one.run(rename)
        waiting = two.start(rename)
        poll_until(lambda: is_waiting_for_lock(pid), what="the second update waits for the first")
        assert not waiting.done()
        one.commit()
        assert waiting.result(10) == 1
    assert not is_waiting_for_lock(pid)


@pytest.mark.django_db(transaction=True)
def test_together_starts_all_at_once_and_keeps_their_order():
    inside = threading.Barrier(3)

    def meet(name):
        inside.wait(10)  # only passes if all three run at the same time
        get_user_model().objects.create(username=name)
        return name

    assert together([lambda name=name: meet(name) for name in "cab"]) == ["c", "a", "b"]
    assert _names() == ["a", "b", "c"]


@pytest.mark.django_db(transaction=True)
def test_the_error_of_a_thread_reaches_the_test():
    def fail():
        raise LookupError("told")

    with pytest.raises(LookupError, match="told"):
        in_thread(fail).result(10)
    with pytest.raises(LookupError, match="told"):
        together([fail, lambda: None])


@pytest.mark.django_db(transaction=True)
def test_a_child_process_reaches_the_very_test_database():
    get_user_model().objects.create(username="from-the-test")
    code = (
        "import django; django.setup()\n"
        "from django.contrib.auth import get_user_model as u\n"
        "u().objects.create(username='from-the-child')\n"
        "print(sorted(u().objects.values_list('username', flat=True)))\n"
    )
    environment = {**os.environ, "DATABASE_URL": database_url(), "DJANGO_SETTINGS_MODULE": "croniq_site.settings"}
    child = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, env=environment, capture_output=True, text=True, timeout=60, check=False
    )
    assert child.stdout.strip() == "['from-the-child', 'from-the-test']", child.stderr
    assert _names() == ["from-the-child", "from-the-test"]


def test_a_poll_returns_the_first_true_answer_and_fails_with_the_last_one():
    answers = iter([0, 0, 7])
    assert poll_until(lambda: next(answers), interval_s=0) == 7
    with pytest.raises(AssertionError, match=r"three things.*the last answer was \[\]"):
        poll_until(list, 0.05, what="three things")


def test_a_run_that_dies_before_it_counts_is_one_failure(tmp_path, capsys):
    path = tmp_path / "counts.json"
    assert read_counts(path, 1, may_be_empty=True) == Counts(failed=1)
    assert read_counts(path, 5, may_be_empty=True) == Counts()
    assert read_counts(path, 5, may_be_empty=False) == Counts(failed=1)
    path.write_text('{"passed": 3, "failed": 0, "skipped": 1}')
    assert read_counts(path, 0, may_be_empty=False) == Counts(3, 0, 1)
    assert read_counts(path, 3, may_be_empty=True) == Counts(3, 1, 1)
    path.write_text('{"passed": 3, "failed": 2, "skipped": 0}')
    assert read_counts(path, 1, may_be_empty=True) == Counts(3, 2, 0)
    assert str(Counts(3, 2, 9)) == "3 passed, 2 failed"
    capsys.readouterr()


def test_a_run_takes_nothing_from_the_callers_configuration_but_where_postgresql_is(tmp_path):
    caller = {
        "PATH": "/bin",
        "DATABASE_URL": "postgres://production",
        "DATABASE_URL_FILE": "secret",
        "CRONIQ_TIME_ZONE": "Asia/Tokyo",
        "DJANGO_SETTINGS_MODULE": "other",
        "PYTHONDONTWRITEBYTECODE": "1",
        "PGHOST": "production",
        BIN_VARIABLE: "/opt/pg/bin",
    }
    sqlite, server = Target("sqlite", "", "sqlite:///x"), Target("postgresql", "", "postgres:///y")
    assert child_environment(caller, sqlite, [sqlite, server], tmp_path) == {
        "PATH": "/bin",
        BIN_VARIABLE: "/opt/pg/bin",
        "DATABASE_URL": "sqlite:///x",
        URL_VARIABLE: "postgres:///y",
        "CRONIQ_DATA_DIR": str(tmp_path / "data"),
        "CRONIQ_TEST_COUNTS": str(tmp_path / "counts.json"),
        "CRONIQ_TEST_DATABASES": "sqlite postgresql",
    }
    assert URL_VARIABLE not in child_environment(caller, sqlite, [sqlite], tmp_path)


def test_a_database_that_is_done_with_a_tier_waits_for_no_other(tmp_path, monkeypatch, capsys):
    """The slower one ends its first tier only once the quicker one is in its second."""
    begun = tmp_path / "begun"
    commands = {
        "fast quick": "true",
        "realtime quick": f"touch {begun}; exit 3",
        "fast slow": f"for n in $(seq 600); do [ -e {begun} ] && exit; sleep 0.1; done; exit 1",
        "realtime slow": "true",
    }
    monkeypatch.setattr(
        suite, "_pytest_command", lambda tier, target, *_, **__: ["sh", "-c", commands[f"{tier} {target.name}"]]
    )
    targets = [Target(name, name, "sqlite:///x") for name in ("slow", "quick")]
    ran = {run.title: counts for run, counts in suite._run_all(("fast", "realtime"), targets, tmp_path, ["named"])}
    assert ran == {
        "slow: fast tier": Counts(),
        "quick: fast tier": Counts(),
        "slow: realtime tier": Counts(),
        "quick: realtime tier": Counts(failed=1),
    }
    capsys.readouterr()


def test_a_realtime_test_that_its_tier_would_not_find_stops_the_run(tmp_path):
    """Files are left out by their text: a mark that comes from elsewhere would take its test along."""
    path = tmp_path / "test_sample.py"
    item = SimpleNamespace(path=path, nodeid="sample", get_closest_marker=lambda name: name == conftest.REALTIME)
    path.write_text("from elsewhere import waits\n@waits\ndef test(): pass\n")
    with pytest.raises(pytest.UsageError, match="sample would be left out of the realtime tier"):
        conftest.refuse_lost([item])
    assert not conftest.may_be_realtime(path)
    conftest.may_be_realtime.cache_clear()
    path.write_text("@pytest.mark.realtime\ndef test(): pass\n")
    assert conftest.may_be_realtime(path)


def test_a_run_without_a_browser_says_so_at_its_end(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(suite, "_targets", lambda *_: contextlib.nullcontext([]))
    monkeypatch.setenv("PATH", str(tmp_path))
    for tiers, is_said in ((("fast",), False), (("fast", "realtime"), True)):
        suite.run_suite((), tiers)
        lines = capsys.readouterr().out.splitlines()
        assert lines[-1] == "0 passed, 0 failed"
        assert any("browser tests did not run: no chromium and no chromedriver" in line for line in lines) is is_said
