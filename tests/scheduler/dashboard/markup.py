"""A page as a browser reads it."""

from __future__ import annotations

from html.parser import HTMLParser

from django.http import HttpResponse

VOID = {"meta", "link", "img", "input", "br", "hr"}


class Page(HTMLParser):
    """The elements of a page in order, the texts, and what a strict Content-Security-Policy would refuse of it.

    ``closed``: also the elements and texts of what a script shows later: dialogs and what is hidden.
    """

    def __init__(self, response: HttpResponse, *, closed: bool = False) -> None:
        super().__init__(convert_charrefs=True)
        self._shows_closed = closed
        self._closed: int | None = None
        self.elements: list[tuple[str, dict[str, str]]] = []
        self.in_labels: set[int] = set()
        self.refused: list[str] = []
        self._texts: list[str] = []
        self._open: list[str] = []
        self.feed(response.content.decode())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {name: value or "" for name, value in attrs}
        if tag not in VOID:
            is_shut = "hidden" in values or (tag == "dialog" and "open" not in values)
            if is_shut and self._closed is None and not self._shows_closed:
                self._closed = len(self._open)
            self._open.append(tag)
        if self._closed is None:
            if "label" in self._open:
                self.in_labels.add(len(self.elements))
            self.elements.append((tag, values))
        if tag == "style" or (tag == "script" and not values.get("src", "").startswith("/")):
            self.refused.append(f"<{tag}>")
        for name, value in values.items():
            if name == "style" or name.startswith(("on", "hx-on")) or "javascript:" in value.lower():
                self.refused.append(f"{tag} {name}={value}")
            if name in ("src", "href", "action", "hx-get") and not value.startswith(("/", "#", "?")):
                self.refused.append(f"{tag} {name}={value}")
            if name in ("src", "href", "action", "hx-get") and value.startswith("//"):
                self.refused.append(f"{tag} {name}={value}")

    def handle_endtag(self, tag: str) -> None:
        while self._open and self._open.pop() != tag:
            pass
        if self._closed is not None and len(self._open) <= self._closed:
            self._closed = None

    def handle_data(self, data: str) -> None:
        if not data.strip():
            return
        if self._open and self._open[-1] in ("script", "style"):
            self.refused.append(data)
        elif self._closed is None:
            self._texts.append(" ".join(data.split()))

    @property
    def text(self) -> str:
        return " ".join(self._texts)

    def all(self, tag: str, **wanted: str) -> list[dict[str, str]]:
        """The attributes of every element of that name that has these (``_`` for ``-``; class: one of them)."""
        return [values for name, values in self.elements if name == tag and _matches(values, wanted)]

    def links(self, start: str) -> list[str]:
        return [values["href"] for values in self.all("a") if values.get("href", "").startswith(start)]


def nameless(page: Page) -> list[str]:
    """What a screen reader could not name or tell apart of a page: fields, pictures, the page itself. axe-core, which
    knows more, looks at some pages of a kind; this at all of them."""
    labelled = {values["for"] for values in page.all("label") if "for" in values}
    found = []
    for place, (tag, values) in enumerate(page.elements):
        names = place in page.in_labels or any(values.get(name) for name in ("aria-label", "aria-labelledby", "title"))
        kind = values.get("type")
        if tag == "input" and kind in ("submit", "button", "reset"):
            is_named = bool(names or values.get("value"))
        elif tag in ("input", "select", "textarea") and kind != "hidden":
            is_named = bool(names or values.get("id") in labelled)
        elif tag == "img":
            is_named = "alt" in values
        elif tag == "html":
            is_named = bool(values.get("lang"))
        else:
            continue
        if not is_named:
            found.append(f"{tag} {values.get('name') or values}")
    ids = [values["id"] for _, values in page.elements if values.get("id")]
    found += [f"twice: {each}" for each in sorted({each for each in ids if ids.count(each) > 1})]
    headings = len(page.all("h1"))
    return found if headings == 1 and page.all("title") else [*found, f"{headings} headings of the page"]


def _matches(values: dict[str, str], wanted: dict[str, str]) -> bool:
    for name, value in wanted.items():
        name = name.rstrip("_").replace("_", "-")
        has = values.get(name)
        if has is None or (value not in has.split() if name == "class" else value != has):
            return False
    return True
