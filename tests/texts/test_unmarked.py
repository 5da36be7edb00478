"""No page shows a text that nobody could translate: drawn in a language whose every text is in marks, all letters are
within them, but for names and data.

The list of the pages is that of the URL configuration, so that a new page is looked at as soon as it is there.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Iterator
from datetime import timedelta
from html.parser import HTMLParser

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test import Client
from django.utils import translation
from django.utils.translation import trans_real

from croniq_site.kernel.clock import ManualClock
from scheduler.dashboard import pages as dashboard
from scheduler.dashboard import sentences
from scheduler.models import Job
from tests.browser.pages import WHO, admin_lists, pages
from tests.factories import HeartbeatFactory, SkippedSpanFactory
from tests.scheduler.api.calls import build_world

HOUR = timedelta(hours=1)
OPEN, CLOSE = "⟦", "⟧"
SHOWN = {"aria-label", "alt", "placeholder", "title", "data-label", "data-confirm", "value"}
"""Attributes that people read. ``value``: of buttons."""
NO_TEXTS = {"script", "style", "code", "pre", "time", "kbd", "textarea", "datalist"}
"""Elements with code, data and instants."""
DATA = {
    "key": "what somebody named",
    "num": "numbers with their units",
    "away": "a distance that the page's script counts on",
    "says": "what an event of the audit changed, as it is written down",
}
"""Classes of elements with data. Cells of the admin's lists are too (``field-…``)."""
NAMES = re.compile(
    r"\bacme[\w:.@-]*(?: (?:words|error|pause|metadata|said|holiday|note))?|\bfounder\b"
    r"|\b(?:Croniq|UTC|API|HTTP|JSON|OpenAPI|Django|ID|POST|GET|Deutsch|English)\b"
    r"|\b(?:viewer|operator|admin|api|default)\b|\b[a-z-]+:[a-z]+\b"  # roles, the first tenant and scopes
    r"|\b(?:serve|materialize|reap|croniq|python|django|tzdata|holidays|database)\b"
    r"|\b\d+(?:\.\d+)? ?(?:s|ms|min|h|d|MiB|kB)\b|\b[0-9a-f-]{12,}\b|\b[A-Z]\w+/[A-Z][\w/]+\b|\b[\w.-]+@[\w.-]+\b"
    r"|\b[a-z]+[_.][a-z_.]+\b|/[\w/.-]+"
)
"""What has one name in every language: the world's own, products, units, ids, zones, addresses, codes with dots."""
NOT_LOOKED_AT = {
    "api-docs": "the document of the API, which is English",
    "account_reauthenticate": "a step between two pages",
    "runner-named": "an address that leads to another",
}
NOT_OURS = {
    ("audit", "label input[placeholder]"): "an example",
    ("job-new", "label input[placeholder]"): "an example",
    ("log", "label select option"): "levels, as handlers call them",
    ("admin:", "img[alt]"): "Django's own, which it translates nowhere",
}
"""(how a page's name begins, how a path ends): what is no text of ours there."""
LETTERS = re.compile(r"[^\W\d_]{2,}")


class Marked(trans_real.DjangoTranslation):
    """Every text in marks. Made of the real German, so that sentences of services are found as they are there."""

    def gettext(self, message: str) -> str:
        return OPEN + message.rpartition("\x04")[2] + CLOSE

    def ngettext(self, singular: str, plural: str, number: int) -> str:
        return OPEN + (singular if number == 1 else plural).rpartition("\x04")[2] + CLOSE


class Texts(HTMLParser):
    """The texts of a page and of what its elements say, with the path of elements and classes to them."""

    def __init__(self, html: str) -> None:
        super().__init__(convert_charrefs=True)
        self.found: list[tuple[str, str]] = []
        self._open: list[tuple[str, set[str]]] = []
        self._depth = 0
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {name: value or "" for name, value in attrs}
        classes = set(values.get("class", "").split())
        for name in SHOWN & set(values):
            if name != "value" or values.get("type") in ("submit", "button"):
                before, self._depth = self._depth, 0
                outside = self._outside(values[name])
                self._depth = before
                self.found.append((f"{self._path()} {tag}[{name}]", outside))
        if tag not in ("meta", "link", "img", "input", "br", "hr", "source", "wbr"):
            self._open.append((tag, classes))

    def handle_endtag(self, tag: str) -> None:
        while self._open and self._open.pop()[0] != tag:
            pass

    def handle_data(self, data: str) -> None:
        outside = self._outside(data)  # a mark may go over several elements
        skipped = any(
            tag in NO_TEXTS or any(name in DATA or name.startswith("field-") for name in classes)
            for tag, classes in self._open
        )
        if outside.strip() and not skipped:
            self.found.append((self._path(), " ".join(outside.split())))

    def _outside(self, text: str) -> str:
        kept = ""
        for letter in text:
            self._depth += (letter == OPEN) - (letter == CLOSE)
            kept += " " if self._depth or letter == CLOSE else letter
        return kept

    def _path(self) -> str:
        return " ".join(tag + "".join(f".{name}" for name in sorted(classes)) for tag, classes in self._open[-3:])


def unmarked(html: str) -> Iterator[tuple[str, str]]:
    for path, text in Texts(html).found:
        if LETTERS.search(NAMES.sub(" ", text)):
            yield path, text


@pytest.fixture
def marked(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    real = trans_real.translation("de")
    made = copy.copy(real)
    made.__class__ = Marked
    monkeypatch.setitem(trans_real._translations, "de", made)
    _forget()
    yield
    _forget()


def _forget() -> None:
    sentences._said.cache_clear()
    sentences._templates.cache_clear()


@pytest.mark.skipif(connection.vendor != "sqlite", reason="texts are the same on both databases: once is enough")
@pytest.mark.django_db
def test_no_page_shows_a_text_that_nobody_could_translate(marked, now, monkeypatch, settings):
    settings.CRONIQ_TOTP = True
    monkeypatch.setattr(dashboard, "DatabaseClock", lambda: ManualClock(now))
    parts = {name: str(value) for name, value in build_world("acme", now).parts.items()}
    objects = parts | {"run_id": parts["finished"], "key_id": parts["key_id"], "runner_id": parts["runner_id"]}
    SkippedSpanFactory(
        job=Job.objects.get(job_key="acme:job"), reason="downtime", first_at=now - HOUR, last_at=now - HOUR
    )
    for kind in ("serve", "materialize", "reap"):
        HeartbeatFactory(kind=kind, beat_at=now)
    client = Client(headers={"Accept-Language": "de"})
    client.force_login(User.objects.create_superuser("acme-root", password="a long secret"))
    found, looked_at, others = {}, 0, {}
    for page in (*pages(), *admin_lists()):
        if page.name in NOT_LOOKED_AT or page.name in WHO:
            continue
        answer = client.get(page.path(objects))
        if answer.status_code != 200:
            others[page.name] = answer.status_code
            continue
        looked_at += 1
        for path, text in unmarked(answer.content.decode()):
            if not any(page.name.startswith(name) and path.endswith(end) for name, end in NOT_OURS):
                found.setdefault((path, text), page.name)
    assert others == {}
    assert looked_at > 50
    wrong = [(page, path, text) for (path, text), page in found.items()]
    assert wrong == []


def test_marks_are_seen_through_and_what_is_outside_of_them_is_found():
    assert list(unmarked(f"<p>{OPEN}two {OPEN}runs{CLOSE} of{CLOSE} acme:job 12 s</p>")) == []
    assert list(unmarked(f'<p title="Nobody">{OPEN}x{CLOSE}: late</p>')) == [
        (" p[title]", "Nobody"),
        ("p", ": late"),
    ]
    with translation.override("de"):
        assert translation.gettext("Jobs") == "Jobs"  # nothing of a test before is left
