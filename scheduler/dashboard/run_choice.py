"""Which runs a person means: the filters of the list, as they stand in its address and in the forms made of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from datetime import UTC, datetime

from django.http import QueryDict
from django.utils.functional import Promise
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from croniq_site.kernel.errors import InvalidInput
from croniq_site.kernel.text import cleaned
from scheduler.dashboard.pages import TEXT_MOST_BYTES
from scheduler.dashboard.typed_times import read_time
from scheduler.dashboard.words import STATES as STATE_WORDS
from scheduler.models import Run
from scheduler.queries.run_reach import MOST_ATTEMPT, WINDOWS, jobs_of
from scheduler.queries.runs import LISTED_STATES, RunFilter

WINDOW_WORDS: Mapping[str, str | Promise] = {
    "1h": _("the last hour"),
    "24h": _("the last 24 hours"),
    "7d": _("the last 7 days"),
    "30d": _("the last 30 days"),
}
KIND_WORDS: Mapping[str, str | Promise] = {
    Run.Kind.SCHEDULED: _("by its schedule"),
    Run.Kind.TRIGGERED: _("by hand or API"),
    Run.Kind.REPLAY: _("done once more"),
}
OTHER_WORDS = {
    "running": "claimed",
    "pending": "queued",
    "success": "completed",
    "succeeded": "completed",
    "canceled": "cancelled",
}
"""What people call a state in an address that they write by hand."""


@dataclass(frozen=True)
class RunChoice:
    """Empty is any; by the names in the address. ``last`` is one of `WINDOWS` and moves with the clock; ``since``
    (inclusive) and ``until`` (exclusive) stand still. ``error`` is part of an error's text, ``attempt`` the least
    number of attempts."""

    job: str = ""
    state: str = ""
    runner: str = ""
    kind: str = ""
    last: str = ""
    since: datetime | None = None
    until: datetime | None = None
    error: str = ""
    attempt: int | None = None
    tag: str = ""
    tenant: str = ""

    @property
    def query(self) -> dict[str, str]:
        """What is set, as the address says it."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        return {name: _said(value) for name, value in values.items() if value not in ("", None)}

    @property
    def has_more(self) -> bool:
        """Whether something is set that is not among the first few fields of the form."""
        return bool(set(self.query) - {"job", "state", "last"})

    def filters(self, now: datetime) -> RunFilter:
        """The filters at ``now``. One query where jobs, a tag or a tenant are named."""
        since = now - WINDOWS[self.last] if self.last else self.since
        return RunFilter(
            job_ids=jobs_of(tenant=self.tenant, job_key=self.job, tag=self.tag),
            state=self.state or None,
            runner_id=self.runner or None,
            kind=self.kind or None,
            since=since,
            until=self.until,
            error_text=self.error or None,
            least_attempt=self.attempt,
        )


def choice_of(values: QueryDict, zone: str = "") -> RunChoice:
    """The choice of an address or of a form; its times are on the clock of ``zone`` (empty: UTC) where they say none.

    Raises InvalidInput with all that is wrong, by the name of the field.
    """
    texts = texts_of(values)
    wrong: dict[str, list[str]] = {}
    times: dict[str, datetime | None] = {}
    for name in ("since", "until"):
        try:
            typed = read_time(name, values.get(name, ""), zone)
            times[name] = typed.at if typed is not None else None
        except InvalidInput as refused:
            wrong |= refused.fields
    texts["state"] = state_of(texts["state"])
    known_words: Mapping[str, Mapping[str, str | Promise]] = {
        "state": {name: STATE_WORDS[name] for name in LISTED_STATES},
        "kind": KIND_WORDS,
        "last": WINDOW_WORDS,
    }
    for name, known in known_words.items():
        if texts[name] and texts[name] not in known:
            words = gettext("There is no {text} here. There are: {known}.")
            wrong[name] = [words.format(text=repr(texts[name][:64]), known=", ".join(map(str, known.values())))]
    attempt, refusal = _attempt_of(texts.pop("attempt"))
    if refusal:
        wrong["attempt"] = [refusal]
    since, until = times.get("since"), times.get("until")
    if texts["last"] and (since or until):
        wrong["last"] = [gettext("Say either how far back, or from when until when.")]
    if since is not None and until is not None and since >= until:
        wrong["until"] = [gettext("A window ends after it begins.")]
    if wrong:
        raise InvalidInput(" ".join(told[0] for told in wrong.values()), fields=wrong)
    return RunChoice(**texts, since=since, until=until, attempt=attempt)


def texts_of(values: QueryDict) -> dict[str, str]:
    """What an address or a form says, but for its times."""
    names = ("job", "state", "runner", "kind", "last", "error", "attempt", "tag", "tenant")
    return {name: cleaned(values.get(name, "").strip(), TEXT_MOST_BYTES) for name in names}


def state_of(text: str) -> str:
    """The state that a word means, also as pages and other schedulers call it; other words stay as they are."""
    word = text.casefold()
    by_word = {str(STATE_WORDS[name]).casefold(): name for name in LISTED_STATES}
    return text if text in LISTED_STATES else by_word.get(word) or OTHER_WORDS.get(word, text)


def _attempt_of(text: str) -> tuple[int | None, str]:
    """The number, and what is wrong with it."""
    if not text:
        return None, ""
    if not (text.isascii() and text.isdigit() and 1 <= int(text) <= MOST_ATTEMPT):
        return None, gettext("This is a whole number from 1 to {most}.").format(most=MOST_ATTEMPT)
    return int(text), ""


def _said(value: object) -> str:
    if isinstance(value, datetime):
        return f"{value.astimezone(UTC):%Y-%m-%dT%H:%M:%S}Z" if not value.microsecond else value.isoformat()
    return str(value)
