"""Which runs a person means: the filters of the list, as they stand in its address and in the forms made of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from datetime import UTC, datetime, timedelta

from django.http import QueryDict
from django.utils.functional import Promise
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from croniq_site.kernel.errors import InvalidInput
from croniq_site.kernel.text import cleaned
from scheduler.dashboard.pages import TEXT_MOST_BYTES, viewers_instant
from scheduler.models import Run
from scheduler.queries.run_reach import jobs_of
from scheduler.queries.runs import LISTED_STATES, RunFilter

WINDOWS = {
    "1h": timedelta(hours=1),
    "24h": timedelta(hours=24),
    "7d": timedelta(days=7),
    "30d": timedelta(days=30),
}
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
MOST_ATTEMPT = 1_000


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
    def since_text(self) -> str:
        """As a field for date and time has it, UTC."""
        return _field_text(self.since)

    @property
    def until_text(self) -> str:
        return _field_text(self.until)

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


def choice_of(values: QueryDict) -> RunChoice:
    """The choice of an address or of a form. Raises InvalidInput by the name of the field."""
    texts = {
        name: cleaned(values.get(name, "").strip(), TEXT_MOST_BYTES)
        for name in ("job", "state", "runner", "kind", "last", "error", "tag", "tenant")
    }
    for name, known in (("state", LISTED_STATES), ("kind", tuple(KIND_WORDS)), ("last", tuple(WINDOWS))):
        if texts[name] and texts[name] not in known:
            raise InvalidInput.of(name, gettext("{name} is one of {known}.").format(name=name, known=", ".join(known)))
    since, until = (viewers_instant(name, values.get(name, "")) for name in ("since", "until"))
    if texts["last"] and (since or until):
        raise InvalidInput.of("last", gettext("Say either how far back, or from when until when."))
    if since is not None and until is not None and since >= until:
        raise InvalidInput.of("until", gettext("A window ends after it begins."))
    return RunChoice(**texts, since=since, until=until, attempt=_attempt_of(values.get("attempt", "").strip()))


def _attempt_of(text: str) -> int | None:
    if not text:
        return None
    if not (text.isascii() and text.isdigit() and len(text) <= 4 and 1 <= int(text) <= MOST_ATTEMPT):
        raise InvalidInput.of("attempt", gettext("This is a whole number from 1 to {most}.").format(most=MOST_ATTEMPT))
    return int(text)


def _said(value: object) -> str:
    if isinstance(value, datetime):
        return f"{value.astimezone(UTC):%Y-%m-%dT%H:%M:%S}Z" if not value.microsecond else value.isoformat()
    return str(value)


def _field_text(value: datetime | None) -> str:
    return f"{value.astimezone(UTC):%Y-%m-%dT%H:%M}" if value is not None else ""
