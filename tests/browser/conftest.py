"""One installation and one browser for all browser tests of a process.

They are in the realtime tier. Where a run has both databases each is on one of them: every page is looked at on SQLite,
and what people do is done on PostgreSQL.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.browser.person import Person
from tests.browser.site import Site
from tests.browser.site import site as running_site
from tests.support.browser import DATABASES_VARIABLE, chromium, missing
from tests.support.postgres import URL_VARIABLE

HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.realtime)
            item.add_marker(pytest.mark.timeout(300))
            if reason := elsewhere(item.path):
                item.add_marker(pytest.mark.skip(reason=reason))


def elsewhere(path: Path) -> str:
    """Say why the tests of a file are not run on this database; empty if they are."""
    is_postgresql = os.environ.get("DATABASE_URL", "").startswith("postgres")
    if os.environ.get(DATABASES_VARIABLE, "").count(" "):
        of_pages = path.name == "test_pages.py"
        if of_pages and is_postgresql:
            return "one database is enough to look at every page: it is done on SQLite, beside this run"
        if not of_pages and not is_postgresql:
            return "one database is enough for a story: it is told on PostgreSQL, beside this run"
    elif URL_VARIABLE in os.environ and not is_postgresql:
        return "one database is enough for a browser: it is led through the pages on PostgreSQL"
    return ""


@pytest.fixture(scope="session")
def site() -> Iterator[Site]:
    """Thirty jobs with a past, a present and a future; workers and a runner that goes on with them."""
    if lack := missing():
        pytest.skip(f"browser tests need a browser: {lack}")
    with running_site(jobs=30, runs=400) as running:
        yield running
        faults = {path.name: path.read_text(errors="replace") for path in running.logs.values()}
    assert {name: text[-4000:] for name, text in faults.items() if "Traceback" in text} == {}


@pytest.fixture(scope="session")
def started(site: Site) -> Iterator[Person]:
    with chromium() as driver:
        yield Person(driver, site.base_url, site.demo.codes if site.demo else ())


@pytest.fixture
def person(started: Person) -> Iterator[Person]:
    """Somebody at the browser, signed in as nobody, with a wide light page. The browser's complaints fail the test."""
    started.expected = []
    started.look()
    started.driver.get("about:blank")
    started.sign_out()
    started.complaints()
    yield started
    assert started.complaints() == []
