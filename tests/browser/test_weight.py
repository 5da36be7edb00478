"""How much a page makes a browser fetch, without anything that it has already."""

from __future__ import annotations

from tests.browser.person import Person

KILOBYTE = 1000
_FETCHED = """
const entries = [...performance.getEntriesByType("navigation"), ...performance.getEntriesByType("resource")];
return Object.fromEntries(entries.map((entry) => [new URL(entry.name).pathname, entry.transferSize]));
"""


def fetched(person: Person, path: str) -> dict[str, int]:
    """Each file's path → the bytes that came over the network for it, with headers, as compressed as they came."""
    person.sign_in("ada")
    person.driver.execute_cdp_cmd("Network.enable", {})
    person.driver.execute_cdp_cmd("Network.setCacheDisabled", {"cacheDisabled": True})
    try:
        person.goto(path)
        return person.driver.execute_script(_FETCHED)
    finally:
        person.driver.execute_cdp_cmd("Network.setCacheDisabled", {"cacheDisabled": False})
        person.driver.execute_cdp_cmd("Network.disable", {})


def test_the_start_pages_fetch_at_most_a_hundred_kilobytes(person):
    for path in ("/jobs", "/now"):
        files = fetched(person, path)
        assert len(files) > 5
        assert all(files.values()), "what came from a cache is not counted"
        assert sum(files.values()) <= 100 * KILOBYTE, (path, files)


def test_a_run_with_a_long_log_fetches_at_most_a_megabyte(person, site):
    files = fetched(person, f"/runs/{site.demo.objects['long_run_id']}")
    person.sees("quick brown fox")
    assert sum(files.values()) <= 1000 * KILOBYTE, files
