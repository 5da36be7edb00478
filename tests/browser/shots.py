"""Pictures of the pages of an installation; the command is `python -m tests.browser.screens`."""

from __future__ import annotations

import argparse
import base64
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.browser.pages import Page, pages
from tests.browser.person import NARROW, WIDE, Person
from tests.browser.site import Site, site
from tests.support.browser import chromium, missing
from tests.support.polling import poll_until

DOCS = Path(__file__).resolve().parents[2] / "docs" / "screens"
MOST_HEIGHT = 2400
"""Longer pages are cut: of a list the first rows say it all."""
QUALITY = 80


@dataclass(frozen=True)
class Look:
    """A page in one width and one scheme."""

    page: str
    width: int
    is_dark: bool

    @property
    def name(self) -> str:
        return f"{self.page.replace(':', '-').replace('/', '-')}-{self.width}-{'dark' if self.is_dark else 'light'}"


CHOSEN = [
    *(Look(page, WIDE, False) for page in ("now", "jobs", "job", "run", "next", "letters", "budgets", "runners")),
    *(Look(page, WIDE, True) for page in ("overlap", "runs", "calendar-year", "missed")),
    *(Look(page, NARROW, False) for page in ("now", "job")),
    *(Look(page, NARROW, True) for page in ("jobs", "run")),
]
"""What docs/screens shows: the README's and a few more; each page once, both schemes, both widths."""
CHOSEN_HEIGHT = 1100


def shoot(running: Site, looks: Sequence[Look], folder: Path, *, kind: str, most_height: int) -> list[str]:
    """Write a picture of each, as ``kind`` (webp, jpeg, png); return what the browser complained of, by page."""
    known = {page.name: page for page in pages()}
    told = []
    with chromium() as driver:
        person = Person(driver, running.base_url, running.demo.codes if running.demo else ())
        for look in looks:
            _open(person, running, known[look.page], look)
            _write(person, look.width, folder / f"{look.name}.{kind}", kind, most_height)
            told += [f"{look.name}: {line}" for line in person.complaints()]
    return told


def _open(person: Person, running: Site, page: Page, look: Look) -> None:
    assert running.demo is not None
    if page.who:
        person.sign_in(page.who)
    else:
        person.sign_out()
    person.look(width=look.width, is_dark=look.is_dark, zone="Europe/Vienna")
    person.goto(page.path(running.demo.objects))
    # Times are told in the viewer's zone as soon as scripts have run.
    person.wait(lambda: person.driver.execute_script("return document.readyState") == "complete", "the page is there")


def _write(person: Person, width: int, path: Path, kind: str, most_height: int) -> None:
    height = person.driver.execute_script("return document.documentElement.scrollHeight")
    options: dict[str, object] = {
        "format": kind,
        "captureBeyondViewport": True,
        "clip": {"x": 0, "y": 0, "width": width, "height": min(height, most_height), "scale": 1},
    }
    if kind != "png":
        options["quality"] = QUALITY
    shot = person.driver.execute_cdp_cmd("Page.captureScreenshot", options)
    path.write_bytes(base64.b64decode(shot["data"]))


def _all(only: Sequence[str]) -> list[Look]:
    return [
        Look(page.name, width, is_dark)
        for page in pages()
        if not only or page.name in only
        for width in (WIDE, NARROW)
        for is_dark in (False, True)
    ]


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Pictures of the pages: wide and narrow, light and dark.")
    parser.add_argument("pages", nargs="*", help="names of pages; all unless given")
    parser.add_argument("--to", type=Path, help="a folder; docs/screens with --chosen")
    parser.add_argument("--jobs", type=int, default=0)
    parser.add_argument("--runs", type=int, default=0)
    parser.add_argument("--kind", choices=["webp", "jpeg", "png"], default="webp")
    parser.add_argument("--chosen", action="store_true", help="the few that the documentation shows")
    chosen = parser.parse_args(arguments)
    if lack := missing():
        parser.error(lack)
    folder: Path = chosen.to or DOCS
    if not chosen.to and not chosen.chosen:
        parser.error("--to: say where the pictures go")
    folder.mkdir(parents=True, exist_ok=True)
    looks = [look for look in CHOSEN if not chosen.pages or look.page in chosen.pages] if chosen.chosen else None
    with site(jobs=chosen.jobs, runs=chosen.runs) as running:
        if not chosen.jobs:
            _let_it_run(running)
        told = shoot(
            running,
            _all(chosen.pages) if looks is None else looks,
            folder,
            kind=chosen.kind,
            most_height=MOST_HEIGHT if looks is None else CHOSEN_HEIGHT,
        )
    sys.stdout.writelines(f"{line}\n" for line in told)
    return 1 if told else 0


def _let_it_run(running: Site) -> None:
    """Wait until the demo of quickstart has something of each kind to show."""
    with running.api as api:
        for state in ("completed", "claimed"):
            poll_until(lambda state=state: api.get("/v1/executions", params={"state": state}).json(), 150, what=state)
        job = "demo:flaky"
        newest = api.get("/v1/executions", params={"state": "completed"}).json()[0]
        poll_until(lambda: api.get("/v1/executions", params={"job_key": job}).json(), 90, what=f"a run of {job}")
    assert running.demo is not None
    running.demo.objects.update({"job_key": job, "run_id": newest["id"], "runner_id": "demo-runner"})
