"""What every test may use; docs/testing.md says how. The database is the one that DATABASE_URL names."""

from __future__ import annotations

import functools
import os
import tempfile
from collections.abc import Generator, Iterator, Sequence
from datetime import UTC, datetime
from functools import partialmethod
from pathlib import Path
from typing import Any

import hypothesis
import pytest
from django.conf import settings
from django.db import connection
from django.test import TransactionTestCase

# The same examples in every run: a red test is then somebody's change. RANDOM_EXAMPLES=1 looks for new ones.
hypothesis.settings.register_profile("steady", derandomize=True, deadline=None)
if not os.environ.get("RANDOM_EXAMPLES"):
    hypothesis.settings.load_profile("steady")

NOW = datetime(2026, 3, 2, 12, 0, tzinfo=UTC)
"""A Monday noon without any change of clocks near it."""

REALTIME = "realtime"
BROWSER = Path(__file__).with_name("browser")
"""All of its tests get the mark from its conftest.py."""
LONGEST = ("test_precision.py", "test_chaos.py", "test_fuzz.py", "test_image.py", "test_set_up.py")
"""What takes minutes begins first, or one process would still be at it when the others have nothing left to do."""
DATABASE_FIXTURES = frozenset({"database", "db", "django_db_setup", "transactional_db"})


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--database-tests", action="store_true", help="leave out the tests that no database takes part in")


def pytest_configure(config: pytest.Config) -> None:
    # All tests of a process ask from one address, many of them with wrong keys.
    settings.CRONIQ_RATE_WRONG_KEYS = None


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """For the realtime tier alone: read no file that has none of it. Most have none, and each of its processes reads
    them all."""
    return (config.getoption("markexpr") == REALTIME and not may_be_realtime(collection_path)) or None


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Give all browser tests to one process, which has the browser and what it looks at; each other to who is free."""
    if config.getoption("markexpr") != REALTIME:
        return None
    from xdist.scheduler import LoadScopeScheduling

    class OneBrowser(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return "browser" if nodeid.startswith("tests/browser/") else nodeid

    return OneBrowser(config, log)


@functools.cache
def may_be_realtime(path: Path) -> bool:
    """Say whether a test in this file can have the mark; true of what is no file of tests."""
    if not (path.name.startswith("test_") and path.suffix == ".py") or BROWSER in path.parents:
        return True
    return f"mark.{REALTIME}" in path.read_text(encoding="utf-8")


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> Generator[None]:
    """With --database-tests: keep what uses a database. Such a test asks for one, or pytest-django refuses it."""
    refuse_lost(items)
    if config.getoption("--database-tests"):
        kept = [item for item in items if uses_database(item)]
        config.hook.pytest_deselected(items=[item for item in items if not uses_database(item)])
        items[:] = kept
    yield
    if config.getoption("markexpr") == REALTIME:
        items.sort(key=lambda item: item.path.name not in LONGEST)


def refuse_lost(items: Sequence[pytest.Item]) -> None:
    for item in items:
        if item.get_closest_marker(REALTIME) and not may_be_realtime(item.path):
            raise pytest.UsageError(f"{item.nodeid} would be left out of the realtime tier: write the mark in its file")


def uses_database(item: pytest.Item) -> bool:
    fixtures = getattr(item, "fixturenames", ())
    return item.get_closest_marker("django_db") is not None or not DATABASE_FIXTURES.isdisjoint(fixtures)


@pytest.fixture(autouse=True)
def plain_pages(settings) -> None:
    """Let the test client have pages over plain http, without what makes a page or a password slow to begin with."""
    settings.SECURE_SSL_REDIRECT = False
    settings.WHITENOISE_AUTOREFRESH = True  # else each client walks over all static files
    settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]


@pytest.fixture(autouse=True)
def no_slow_claims(monkeypatch) -> None:
    """However busy the machine is, a claim looks at all of its lanes: what depends on slow ones says so itself."""
    monkeypatch.setattr("scheduler.sql.low_water.SLOW_SECONDS", float("inf"))


@pytest.fixture
def now() -> datetime:
    """An aware UTC instant to start from; time passes only by `now + timedelta(...)`."""
    return NOW


@pytest.fixture(scope="session")
def database() -> str:
    """The vendor this run is on: "sqlite" or "postgresql"."""
    return connection.vendor


@pytest.fixture(scope="session")
def django_db_modify_db_settings(django_db_modify_db_settings_parallel_suffix: None) -> Iterator[None]:
    """Give the test database a name of its own: a real file on SQLite (threads and processes must share it).

    The process number keeps runs that share one PostgreSQL apart.
    """
    with tempfile.TemporaryDirectory(prefix="croniq-test-") as directory:
        name = f"test_croniq_{os.getpid()}"
        if connection.vendor == "sqlite":
            name = str(Path(directory) / f"{name}.sqlite3")
        connection.settings_dict.setdefault("TEST", {})["NAME"] = name
        yield


@pytest.fixture(scope="session", autouse=True)
def emptied_after_tests() -> Iterator[None]:
    """Let the flush after a test empty the audit too, which the database refuses everybody else, and be quick."""
    from tests.support.audit import flush_unguarded  # its models need what is not set up when this file is read
    from tests.support.flush import teardown_of_tests

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(TransactionTestCase, "_fixture_teardown", teardown_of_tests())
        operations = type(connection.ops)
        flush = operations.execute_sql_flush
        patch.setattr(operations, "execute_sql_flush", partialmethod(flush_unguarded, flush))
        yield


def pytest_report_header() -> str:
    """Say at the top of every run which database it is on."""
    return f"croniq: tests on {connection.display_name}"
