"""What the form of a job says, in the fields of the wire, and back. Texts come in, values and refusals go out."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from django.conf import settings
from django.http import QueryDict
from django.utils.functional import Promise
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from calendars.domain.rules import OnBlocked
from calendars.domain.zones import load_zone
from croniq_site.kernel.errors import InvalidInput
from scheduler.dashboard.refusals import Labels, errors_of
from scheduler.dashboard.times import wire_text
from scheduler.dashboard.typed_times import read_time
from scheduler.domain.all_at_once import AllAtOnce
from scheduler.domain.job_fields import CATCH_UPS, OVERLAPS, job_columns, job_key_of

MOST_TRIGGERS = 20
KINDS = {"cron": "cron_expression", "every": "every", "once": "run_at"}
"""Kind of a schedule in the form → its field on the wire."""

Errors = dict[str, str]


def _words(value: Any) -> str:
    return "" if value is None else str(value)


def _names(value: Any) -> str:
    return ", ".join(value or ())


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, indent=2, sort_keys=True) if value else ""


def _read_names(text: str) -> list[str] | None:
    return [part.strip() for part in text.split(",") if part.strip()] or None


def _read_number(text: str) -> Any:
    text = text.strip()
    try:
        return int(text) if text and len(text) < 20 else text or None
    except ValueError:
        return text  # refused by the field's own rule


def read_json(name: str, text: str) -> Any:
    if not text.strip():
        return None
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        where = f" in line {error.lineno}" if isinstance(error, json.JSONDecodeError) else ""
        raise InvalidInput.of(name, f'This is no JSON{where}; write an object such as {{"name": "value"}}.') from None


@dataclass(frozen=True)
class Field:
    """A field: its label, how it is shown, a hint. ``kind`` text, area, code or one of the choices."""

    name: str
    label: str | Promise
    show: Callable[[Any], str] = _words
    read: Callable[[str], Any] = lambda text: text.strip() or None
    hint: str | Promise = ""
    kind: str = "text"
    choices: tuple[str, ...] = ()


FIELDS = (
    Field("description", _("Description"), kind="area"),
    Field("tags", _("Tags"), _names, _read_names, _("With commas between them.")),
    Field("timeout", _("Timeout"), hint=_("Such as 90s, 5m, 1.5h.")),
    Field("max_retries", _("Retries"), read=_read_number, hint=_("Attempts beyond the first.")),
    Field("require", _("Requires"), _names, _read_names, _("Capabilities of the runner, with commas between them.")),
    Field("prefer", _("Prefers"), _names, _read_names),
    Field("pin", _("Pinned to"), hint=_("The one runner that may run it.")),
    Field("priority", _("Priority"), read=_read_number, hint=_("A higher one goes first.")),
    Field("max_concurrent", _("At most at once"), read=_read_number, hint=_("Empty: no limit.")),
    Field("concurrency_group", _("Group"), hint=_("Whose limit it shares.")),
    Field("overlap", _("If one still runs"), choices=OVERLAPS),
    Field("catch_up", _("After downtime"), choices=CATCH_UPS, hint=_("Which missed fires are made up for.")),
    Field("lease", _("Lease"), hint=_("How long a silent runner keeps a run.")),
    Field("metadata", _("Metadata"), _json, lambda text: read_json("metadata", text), _("A JSON object."), "code"),
)

LABELS: Labels = {
    "job_key": _("Key"),
    "action": _("The command, or the JSON"),
    **{one.name: one.label for one in FIELDS},
}
TRIGGER_LABELS: Labels = {
    **dict.fromkeys((*KINDS.values(), "schedule"), _("When")),
    "timezone": _("Time zone"),
    "calendar": _("Calendar"),
    "on_blocked": _("If it is closed"),
    "window": _("Daily window"),
}
ON_BLOCKED: Labels = {
    OnBlocked.ADVANCE: _("advance: it is left out, the next one that is open is the next run"),
    OnBlocked.DEFER: _("defer: it runs as soon as the calendar opens"),
    OnBlocked.FOLLOWING: _("following: it runs at the same time on the next open day"),
    OnBlocked.PRECEDING: _("preceding: it runs at the same time on the open day before"),
}
"""What becomes of a fire at which the calendar is closed, in a line each."""


@dataclass
class TriggerForm:
    """A schedule in the form: the texts of its fields, and what is wrong with them by field. ``note``: what was decided
    where its clock shows the time twice or never (`read_time`)."""

    number: int
    id: str = ""
    kind: str = "cron"
    text: str = ""
    timezone: str = ""
    calendar: str = ""
    on_blocked: str = ""
    window: str = ""
    enabled: bool = True
    is_removed: bool = False
    errors: Errors = field(default_factory=dict)
    preview: Any = None
    note: str = ""

    @property
    def is_blank(self) -> bool:
        return not self.id and not self.text.strip()

    @property
    def trigger_id(self) -> UUID | None:
        return UUID(self.id) if self.id else None

    def wire(self) -> dict[str, Any]:
        """The fields of the wire that it says; all other fields of the schedule stay as they are. Sets ``note``."""
        text = self.text.strip()
        if not text:
            raise InvalidInput.of("schedule", gettext("Say when: a schedule is not empty."))
        if self.kind == "once":
            wrong = AllAtOnce()
            zone = self.timezone.strip() or settings.CRONIQ_TIME_ZONE
            is_zone = wrong.read(lambda field: load_zone(zone, field=field), "timezone") is not None
            typed = wrong.read(read_time, "schedule", text, zone if is_zone else "")
            wrong.end()
            text, self.note = (wire_text(typed.at), typed.note) if typed is not None else ("", "")
        return self.wire_besides() | {KINDS[self.kind]: text}

    def wire_besides(self) -> dict[str, Any]:
        """The same without when it runs."""
        return {
            "timezone": self.timezone.strip() or None,
            "calendar": self.calendar or None,
            "on_blocked": self.on_blocked or None,
            "window": self.window.strip() or None,
            "enabled": self.enabled,
        }


def trigger_form(values: QueryDict, number: int) -> TriggerForm:
    """Read the schedule ``number`` of a form; what no form of ours says is refused."""
    start = f"t{number}-"
    form = TriggerForm(
        number,
        id=values.get(f"{start}id", ""),
        kind=values.get(f"{start}kind", "cron"),
        **{name: values.get(start + name, "") for name in ("text", "timezone", "calendar", "on_blocked", "window")},
        enabled=f"{start}enabled" in values,
        is_removed=f"{start}remove" in values,
    )
    if form.kind not in KINDS:
        raise InvalidInput.of("kind", f"The kind of a schedule is one of {', '.join(KINDS)}.")
    try:
        UUID(form.id or "0" * 32)
    except ValueError:
        raise InvalidInput.of("id", "This is no schedule.") from None
    return form


def trigger_forms(values: QueryDict) -> list[TriggerForm]:
    count = values.get("triggers", "1")
    if not (count.isascii() and count.isdigit() and len(count) < 4 and int(count) <= MOST_TRIGGERS):
        raise InvalidInput.of("triggers", f"A form has at most {MOST_TRIGGERS} schedules.")
    return [trigger_form(values, number) for number in range(int(count))]


def form_of_definition(number: int, trigger_id: UUID, definition: Mapping[str, Any]) -> TriggerForm:
    kind = next(kind for kind, name in KINDS.items() if definition[name] is not None)
    window = definition["window"]
    return TriggerForm(
        number,
        id=str(trigger_id),
        kind=kind,
        text=definition[KINDS[kind]],
        timezone=definition["timezone"] or "",
        calendar=definition["calendar"] or "",
        on_blocked=definition["on_blocked"],
        window="-".join(window) if window else "",
        enabled=definition["enabled"],
    )


def texts_of(definition: Mapping[str, Any]) -> dict[str, str]:
    """The texts of the fields of a job, by name."""
    return {one.name: one.show(definition[one.name]) for one in FIELDS}


def job_texts(values: QueryDict) -> dict[str, str]:
    return {one.name: values.get(one.name, "").replace("\r\n", "\n") for one in FIELDS}


def read_job(texts: Mapping[str, str]) -> tuple[dict[str, Any], Errors]:
    """The fields of the wire that the texts say, and what is wrong with each that is wrong."""
    found: dict[str, Any] = {}
    errors: Errors = {}
    for one in FIELDS:
        try:
            found[one.name] = one.read(texts[one.name])
            job_columns({one.name: found[one.name]}, partial=True)
        except InvalidInput as refused:
            errors |= errors_of(refused, LABELS)
    return found, errors


def read_action(does: str, what: str) -> Any:
    """The action on the wire: of a shell line, of JSON, or a handler's."""
    what = what.replace("\r\n", "\n")
    if does == "handler":
        return None
    action = {"type": "command", "shell": what} if does == "shell" else read_json("action", what) or {}
    job_columns({"action": action}, partial=True)
    return action


def action_texts(action: Mapping[str, Any]) -> tuple[str, str]:
    """How the form shows an action: (handler, shell or json, its text)."""
    if not action:
        return "handler", ""
    if set(action) == {"type", "shell"}:
        return "shell", action["shell"]
    return "json", _json(action)


def key_error(job_key: str) -> Errors:
    try:
        job_key_of("job_key", job_key)
    except InvalidInput as refused:
        return errors_of(refused, LABELS)
    return {}
