"""How a line of a log looks: whatever a handler writes is text, and moves or hides nothing of what is around it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.utils.html import escape, format_html, format_html_join
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _

from croniq_site.kernel.text import with_signs
from scheduler.dashboard.times import time_element, wire_text
from scheduler.domain.log_levels import level_name
from scheduler.queries.log_pages import LINE_CHARACTERS, Line
from scheduler.queries.search import pattern_of

FIELDS_CHARACTERS = 500
"""Most characters of a line's fields on a page."""
PAGE_BYTES = 600_000
"""Most bytes of the lines of one answer; one line is shown however long it is."""

# What only moves a terminal's cursor or changes its colours: whole CSI and OSC sequences, and single shifts.
_TERMINAL = re.compile(r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|\x1b[@-Z^_]")

_MARKED = SafeString(' aria-current="true"')


@dataclass(frozen=True)
class Look:
    """How lines are shown: ``path`` of the log's page, the text ``find`` and the line ``marked`` to be found at once,
    ``since`` the instant from which times count (None: they are told as instants), ``viewer`` the zone for these."""

    path: str
    find: str = ""
    since: datetime | None = None
    viewer: str = ""
    marked: int = 0


def shown_lines(lines: Sequence[Line], look: Look, most_bytes: int = PAGE_BYTES) -> list[SafeString]:
    """Return the lines as elements of a list, the first of them within ``most_bytes`` of UTF-8 and at least one."""
    pattern = re.compile(pattern_of(look.find)) if look.find else None
    elements: list[SafeString] = []
    for line in lines:
        element = line_element(line, look, pattern)
        most_bytes -= len(element.encode())
        if elements and most_bytes < 0:
            break
        elements.append(element)
    return elements


def line_element(line: Line, look: Look, pattern: re.Pattern[str] | None = None) -> SafeString:
    """Return one line; its number is a link to it."""
    row, number = line.row, line.place.number
    message, fields = row.message[:LINE_CHARACTERS], fields_text(row.fields)
    is_cut = len(row.message) > LINE_CHARACTERS or len(fields) > FIELDS_CHARACTERS
    parts = [
        format_html('<a href="{0}?line={1}#L{1}">{1}</a>', look.path, number),
        _time(row.logged_at, look),
        format_html("<b>{}</b>", visible(row.level)),
    ]
    if row.attempt != 1:
        parts.append(format_html("<i>{}</i>", _("attempt {number}").format(number=row.attempt)))
    parts.append(format_html("<span>{}</span>", _with_marks(visible(message), pattern)))
    if fields:
        parts.append(format_html("<small>{}</small>", visible(fields[:FIELDS_CHARACTERS])))
    if is_cut:
        parts.append(format_html('<a href="{}/raw?line={}">{}</a>', look.path, number, _("… the whole line")))
    return format_html(
        '<li id="L{}" class="level-{}"{}>{}</li>\n',
        number,
        level_name(row.level),
        _MARKED if number == look.marked else "",
        format_html_join(" ", "{}", ((part,) for part in parts)),
    )


def fields_text(fields: dict[str, object]) -> str:
    """The fields of a line on one line, "user=7 path=/x", without those that say nothing new on a run's page."""
    told = {name: value for name, value in fields.items() if name not in ("job_key", "runner_id")}
    if told.get("stream") == "stdout":
        del told["stream"]
    return " ".join(f"{name}={value}" for name, value in told.items())


def visible(text: str) -> str:
    """Return a text in which nothing is hidden but a terminal's colours: other controls have a sign of their own."""
    return with_signs(_TERMINAL.sub("", text.replace("\r\n", "\n")))


def elapsed(span: timedelta) -> str:
    """Return how long after the first line: "+0:01.250", "+1:02:03.000"; below zero where a clock was set back."""
    milliseconds = round(span / timedelta(milliseconds=1))
    seconds, rest = divmod(abs(milliseconds), 1000)
    minutes, seconds = divmod(seconds, 60)
    hours, minutes = divmod(minutes, 60)
    clock = f"{hours}:{minutes:02}" if hours else f"{minutes}"
    return f"{'-' if milliseconds < 0 else '+'}{clock}:{seconds:02}.{rest:03}"


def event_of(parts: Iterable[str], last: object) -> str:
    """Return lines as a server-sent event that ends at the place ``last``. Without any it tells only that place."""
    whole = "".join(parts)
    data = "".join(f"data: {text}\n" for text in whole.removesuffix("\n").split("\n")) if whole else ""
    return f"id: {last}\n{data}\n"


def _time(at: datetime, look: Look) -> SafeString:
    if look.since is None:
        return time_element(at, "", look.viewer)
    return format_html('<time datetime="{}">{}</time>', wire_text(at), elapsed(at - look.since))


def _with_marks(text: str, pattern: re.Pattern[str] | None) -> SafeString:
    if pattern is None:
        return escape(text)
    parts, end = [], 0
    for found in pattern.finditer(text):
        parts.append(format_html("{}<mark>{}</mark>", text[end : found.start()], found[0]))
        end = found.end()
    return format_html("{}{}", format_html_join("", "{}", ((part,) for part in parts)), text[end:])
