"""The forms of alerts: their fields, what a form says in the words of the API, and words for what is stored."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from django.http import QueryDict
from django.utils.functional import Promise
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from croniq_site.kernel.text import cleaned
from scheduler.domain.durations import format_duration
from scheduler.domain.inputs import choice_of
from scheduler.models import Alert, AlertChannel, AlertExemption, AlertRule
from scheduler.services.alerts.definitions import OWN_FIELDS
from scheduler.services.jobs import DEFAULT_TENANT
from scheduler.templatetags.croniq import duration

Text = str | Promise
TEXT_MOST_BYTES = 8192

KINDS: dict[str, Text] = {
    AlertRule.Kind.FAILED: gettext_lazy("a run failed for good"),
    AlertRule.Kind.OVERRAN: gettext_lazy("a run takes longer than expected"),
    AlertRule.Kind.MISSED: gettext_lazy("a fire did not start in time"),
    AlertRule.Kind.DEAD_LETTERS: gettext_lazy("dead letters wait"),
    AlertRule.Kind.FLAPPING: gettext_lazy("a runner flaps"),
    AlertRule.Kind.NO_RUNNER: gettext_lazy("no runner has a capability"),
    AlertRule.Kind.SCHEDULER_SILENT: gettext_lazy("the scheduler is silent"),
    AlertRule.Kind.WEEKLY_DIGEST: gettext_lazy("the week, on Monday morning"),
}
EVENTS: dict[str, Text] = {
    Alert.Event.FAILED: gettext_lazy("failed for good"),
    Alert.Event.OVERRAN: gettext_lazy("takes longer than expected"),
    Alert.Event.MISSED: gettext_lazy("did not start in time"),
    Alert.Event.DEAD_LETTERS: gettext_lazy("dead letters wait"),
    Alert.Event.FLAPPING: gettext_lazy("a runner flaps"),
    Alert.Event.NO_RUNNER: gettext_lazy("no runner has a capability"),
    Alert.Event.SILENT: gettext_lazy("the scheduler is silent"),
    Alert.Event.RECOVERED: gettext_lazy("is over"),
    Alert.Event.DIGEST: gettext_lazy("the week"),
    Alert.Event.TEST: gettext_lazy("a test"),
}
RECOVERIES: dict[str, Text] = {
    Alert.Event.FAILED: gettext_lazy("succeeds again"),
    Alert.Event.OVERRAN: gettext_lazy("no run takes longer than expected any more"),
    Alert.Event.MISSED: gettext_lazy("no fire is late any more"),
    Alert.Event.DEAD_LETTERS: gettext_lazy("fewer dead letters wait"),
    Alert.Event.FLAPPING: gettext_lazy("a runner is stable again"),
    Alert.Event.NO_RUNNER: gettext_lazy("no job lacks a capability any more"),
    Alert.Event.SILENT: gettext_lazy("the scheduler plans again"),
}
STATES: dict[str, Text] = {
    Alert.State.WAITING: gettext_lazy("waiting"),
    Alert.State.DELIVERED: gettext_lazy("delivered"),
    Alert.State.FAILED: gettext_lazy("not delivered"),
    Alert.State.THROTTLED: gettext_lazy("throttled"),
    Alert.State.SNOOZED: gettext_lazy("snoozed"),
    Alert.State.QUIET: gettext_lazy("quiet day"),
    Alert.State.DROPPED: gettext_lazy("dropped"),
}
EFFECTS: dict[str, Text] = {
    AlertExemption.Effect.SNOOZE: gettext_lazy("snoozed"),
    AlertExemption.Effect.DISABLE: gettext_lazy("switched off"),
    AlertExemption.Effect.OVERRIDE: gettext_lazy("other values"),
}
CHANNEL_KINDS: dict[str, Text] = {
    AlertChannel.Kind.WEBHOOK: gettext_lazy("a signed webhook"),
    AlertChannel.Kind.EMAIL: gettext_lazy("a mail address"),
    AlertChannel.Kind.APPRISE: gettext_lazy("a service of apprise"),
}


@dataclass(frozen=True)
class Field:
    """``kind`` is line, long, secret, choice, many or check. ``usual``: what an empty form shows. ``decides``: which
    other fields there are, or what they let one choose from."""

    name: str
    label: Text
    kind: str = "line"
    hint: Text = ""
    choices: Sequence[tuple[str, Text]] = ()
    usual: Any = ""
    is_required: bool = False
    decides: bool = False


_OF_JOBS = Field(
    "job_glob", gettext_lazy("Of the jobs"), hint=gettext_lazy("such as billing:*; * is every job"), usual="*"
)


@dataclass(frozen=True)
class Told:
    """What an alert told, in words; the run that it is about, and what that run died of: of an end the run that
    succeeded, if one did."""

    words: Text
    run_id: str
    error: str


def told(alert: Alert) -> Told:
    """As a mail says it (`scheduler.domain.alerts.subject_of`)."""
    event, detail = alert.event, alert.detail
    run_id = detail.get("execution_id", "")
    if event != Alert.Event.RECOVERED:
        return Told(EVENTS[event], run_id, detail.get("error", ""))
    return Told(RECOVERIES.get(detail.get("of", ""), EVENTS[event]), detail.get("succeeded", run_id), "")


def tenant_field(tenants: Sequence[str]) -> list[Field]:
    """None where there is nothing to choose."""
    if len(tenants) < 2:
        return []
    choices = [(name, name) for name in tenants]
    return [
        Field("tenant", gettext_lazy("Of the tenant"), "choice", choices=choices, usual=DEFAULT_TENANT, decides=True)
    ]


def rule_fields(kind: str, channels: Sequence[str], calendars: Sequence[str]) -> list[Field]:
    """Those that a rule of the kind has."""
    none = ("", gettext_lazy("none"))
    own = OWN_FIELDS.get(kind, OWN_FIELDS[AlertRule.Kind.FAILED])
    every = [
        _OF_JOBS,
        Field(
            "tags",
            gettext_lazy("With a tag of"),
            hint=gettext_lazy("with commas between them; empty: whatever tags they have"),
        ),
        Field(
            "expected_within",
            gettext_lazy("A run may take"),
            hint=gettext_lazy("such as 10m or 1h"),
            is_required=True,
        ),
        Field("threshold", gettext_lazy("From so many letters on"), hint=gettext_lazy("empty: from the first one on")),
        Field(
            "grace",
            gettext_lazy("Grace"),
            hint=gettext_lazy("so long it may last before it is told, such as 5m; empty: one minute"),
        ),
        Field(
            "throttle",
            gettext_lazy("At most once a job in"),
            hint=gettext_lazy("such as 10m; empty: every time"),
        ),
        Field(
            "calendar",
            gettext_lazy("Quiet on days that this calendar closes"),
            "choice",
            choices=[none, *((name, name) for name in calendars)],
        ),
        Field("recovery", gettext_lazy("Also tell when it is over"), "check", usual=True),
    ]
    return [
        Field("kind", gettext_lazy("Tells that"), "choice", choices=list(KINDS.items()), usual="failed", decides=True),
        Field("name", gettext_lazy("Name of the rule"), is_required=True),
        Field(
            "channels",
            gettext_lazy("Over the channels"),
            "many",
            choices=[(name, name) for name in channels],
            is_required=True,
        ),
        *(field for field in every if field.name in own),
    ]


def channel_fields() -> list[Field]:
    return [
        Field("name", gettext_lazy("Name of the channel"), is_required=True),
        Field("kind", gettext_lazy("Is"), "choice", choices=list(CHANNEL_KINDS.items()), usual="webhook"),
        Field(
            "target",
            gettext_lazy("Where it goes"),
            "secret",
            hint=gettext_lazy(
                "an address that begins with https://, a mail address, or a URL of apprise; it is not shown again"
            ),
            is_required=True,
        ),
    ]


def exemption_fields(effect: str, rules: Sequence[str]) -> list[Field]:
    """Those that an exemption of the effect has."""
    effects = [
        (AlertExemption.Effect.SNOOZE, gettext_lazy("tell nobody for a time, and afterwards what still lasts")),
        (AlertExemption.Effect.DISABLE, gettext_lazy("look for nothing for a time, as if there were no rule")),
        (AlertExemption.Effect.OVERRIDE, gettext_lazy("tell as ever, with another grace or less often")),
    ]
    every = ("", gettext_lazy("every rule"))
    other = [
        Field("grace", gettext_lazy("Grace"), hint=gettext_lazy("in place of the rule's, such as 30m")),
        Field(
            "throttle", gettext_lazy("At most once a job in"), hint=gettext_lazy("in place of the rule's, such as 6h")
        ),
    ]
    return [
        Field("effect", gettext_lazy("What is to be"), "choice", choices=effects, usual="snooze", decides=True),
        Field("rule", gettext_lazy("For the rule"), "choice", choices=[every, *((name, name) for name in rules)]),
        _OF_JOBS,
        Field("duration", gettext_lazy("For how long"), hint=gettext_lazy("such as 2h; 90d at most"), is_required=True),
        *(other if effect == AlertExemption.Effect.OVERRIDE else ()),
        Field(
            "note",
            gettext_lazy("Why"),
            "long",
            hint=gettext_lazy("for whoever wonders where the alerts are"),
            is_required=True,
        ),
    ]


def texts_in(fields: Sequence[Field], values: QueryDict) -> dict[str, Any]:
    """What a form says, as it shows it again."""
    found: dict[str, Any] = {}
    for field in fields:
        if field.kind == "many":
            found[field.name] = [cleaned(text, TEXT_MOST_BYTES) for text in values.getlist(field.name)]
        elif field.kind == "check":
            found[field.name] = field.name in values
        else:
            found[field.name] = cleaned(" ".join(values.get(field.name, "").split()), TEXT_MOST_BYTES)
    return found


def values_of(fields: Sequence[Field], texts: dict[str, Any]) -> dict[str, Any]:
    """The same in the words of the API; what is empty, or as usual, is not said."""
    said: dict[str, Any] = {}
    for field in fields:
        text = texts[field.name]
        if field.kind == "choice" and text:
            choice_of(field.name, text, [str(value) for value, _label in field.choices])
        if text in ("", [], field.usual) and not (field.is_required or field.name in ("kind", "effect")):
            continue
        if field.name == "tags":
            text = [tag.strip() for tag in text.split(",") if tag.strip()]
        elif field.name == "threshold" and text.isascii() and text.isdigit() and len(text) < 8:
            text = int(text)
        said[field.name] = text
    return said


def rule_texts(rule: AlertRule | None) -> dict[str, Any]:
    """What the form of a rule shows; of a new one nothing."""
    if rule is None:
        return {}
    own = {
        "throttle": rule.throttle_seconds,
        "grace": rule.grace_seconds if rule.grace_seconds != 60 else None,
        "expected_within": rule.expected_within_seconds,
    }
    return {
        "name": rule.name,
        "kind": rule.kind,
        "channels": [route.channel.name for route in rule.routes.all()],
        "job_glob": rule.job_glob,
        "tags": ", ".join(rule.tags),
        "threshold": str(rule.threshold) if rule.threshold != 1 else "",
        "calendar": rule.calendar.name if rule.calendar is not None else "",
        "recovery": rule.recovery,
        **{name: format_duration(timedelta(seconds=seconds)) if seconds else "" for name, seconds in own.items()},
    }


def grace_of(rule: AlertRule) -> str:
    return duration(rule.grace_seconds) if "grace" in OWN_FIELDS[rule.kind] else ""


def throttle_of(rule: AlertRule) -> str:
    if "throttle" not in OWN_FIELDS[rule.kind]:
        return ""
    return _("once in {time}").format(time=duration(rule.throttle_seconds)) if rule.throttle_seconds else _("every one")


def terms_of(rule: AlertRule) -> list[str]:
    """What a rule says besides its kind, its grace and its throttle, in words."""
    kind, terms = rule.kind, []
    if kind == AlertRule.Kind.OVERRAN:
        terms.append(_("longer than {time}").format(time=duration(rule.expected_within_seconds)))
    if kind == AlertRule.Kind.DEAD_LETTERS and rule.threshold > 1:
        terms.append(_("from {number} on").format(number=rule.threshold))
    if rule.calendar is not None:
        terms.append(_("quiet on days that {calendar} closes").format(calendar=rule.calendar.name))
    if not rule.recovery:
        terms.append(_("not when it is over"))
    return terms
