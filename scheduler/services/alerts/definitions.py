"""Channels and rules: made, deleted, tested. Audited, without secrets."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from typing import Any
from uuid import UUID

from django.core.exceptions import ValidationError
from django.core.validators import validate_email
from django.db import IntegrityError, transaction
from django.db.models import Model

from calendars.models import Calendar
from calendars.queries.specs import calendar_named
from croniq_site.kernel.database import write_transaction
from croniq_site.kernel.errors import Conflict, InvalidInput, NotFound
from croniq_site.kernel.ids import uuid7
from runners.services.audit import Actor, Event, record_events
from scheduler.domain.alerts import shown_target
from scheduler.domain.all_at_once import AllAtOnce
from scheduler.domain.apprise_urls import apprise_url
from scheduler.domain.http_action import url_of
from scheduler.domain.inputs import choice_of, flag_of, name_of, names_of, seconds_of, whole_number_of
from scheduler.domain.job_fields import refuse_unknown
from scheduler.models import Alert, AlertChannel, AlertRoute, AlertRule
from scheduler.queries.alerts import channel_names
from scheduler.services.alerts.causes import end_untold
from scheduler.services.jobs import DEFAULT_TENANT

Kind = AlertRule.Kind
LEAST_GRACE_SECONDS = 10
CHANNELS_MOST = 20
_OF_JOBS = {"job_glob", "tags", "throttle"}
OWN_FIELDS = {
    Kind.FAILED: _OF_JOBS | {"recovery", "calendar"},
    Kind.OVERRAN: _OF_JOBS | {"expected_within", "recovery", "calendar"},
    Kind.MISSED: _OF_JOBS | {"grace", "recovery", "calendar"},
    Kind.DEAD_LETTERS: {"job_glob", "tags", "threshold", "recovery", "calendar"},
    Kind.FLAPPING: {"recovery", "calendar"},
    Kind.NO_RUNNER: {"job_glob", "tags", "grace", "recovery", "calendar"},
    Kind.SCHEDULER_SILENT: {"grace", "recovery", "calendar"},
    Kind.WEEKLY_DIGEST: set(),
}
"""What a rule may say besides its name, its kind and its channels."""
_FIELDS = tuple(sorted(set().union(*OWN_FIELDS.values())))


def create_channel(values: Mapping[str, Any], now: datetime, actor: Actor, tenant: str) -> AlertChannel:
    """Make a channel. A webhook's gets a secret, which whoever made it is told this once. Raises InvalidInput by field,
    Conflict ``alert_channel_exists``."""
    refuse_unknown(values, {"name", "kind", "target"})
    kind = choice_of("kind", values.get("kind"), AlertChannel.Kind.values)
    reading = AllAtOnce()
    name = reading.read(name_of, "name", values.get("name"))
    target = reading.read(_target_of, "target", values.get("target"), kind)
    reading.end()
    channel = AlertChannel(
        tenant=tenant,
        name=name,
        kind=kind,
        target=target,
        secret=secrets.token_urlsafe(32) if kind == AlertChannel.Kind.WEBHOOK else "",
        created_at=now,
    )
    diff = {"kind": [None, kind], "target": [None, shown_target(channel.target)]}
    with write_transaction():
        _insert(channel, "alert_channel")
        record_events([Event("alert_channel.created", "alert_channel", channel.name, actor, tenant, diff)], now)
    return channel


def _target_of(field: str, value: Any, kind: str) -> str:
    if kind == AlertChannel.Kind.WEBHOOK:
        url = url_of(field, value)
        if not isinstance(url, str):
            raise InvalidInput.of(field, "The URL of a channel is a text.")
        return url
    if kind == AlertChannel.Kind.APPRISE:
        return apprise_url(field, value)
    try:
        if isinstance(value, str) and len(value) <= 254 and value.isascii():
            validate_email(value)
            return value
    except ValidationError:
        pass
    raise InvalidInput.of(field, f"{field} is a mail address such as ops@example.org.")


def save_rule(
    values: Mapping[str, Any], now: datetime, actor: Actor, tenant: str | None, rule_id: int | None = None
) -> AlertRule:
    """Make a rule, or change the one with ``rule_id``: what is missing stays as it is, None is as in a new one. What a
    rule of another kind does not have it loses when its kind changes, and what it told is over, untold.

    ``channels`` are names of channels of the same tenant. ``tenant`` None, with ``rule_id``: whosever it is. Raises
    NotFound, InvalidInput by field, Conflict ``alert_rule_exists``.
    """
    refuse_unknown(values, {"name", "kind", "channels", *_FIELDS})
    with write_transaction():
        old = _live(AlertRule, rule_id, tenant) if rule_id is not None else None
        before = rule_definition(old) if old is not None else {}
        whose = old.tenant if old is not None else tenant or DEFAULT_TENANT
        kind = choice_of("kind", values.get("kind", before.get("kind")), Kind.values)
        reading = AllAtOnce()
        for field in _FIELDS:
            if values.get(field) is not None and field not in OWN_FIELDS[Kind(kind)]:
                reading.refuse(field, f"A rule of the kind {kind} has no {field}.")
        values = {**_as_said(before, kind), **values}
        said = _rule_values(kind, values, reading)
        routes = reading.read(_locked_channels, "channels", values.get("channels"), whose)
        said["calendar"] = reading.read(_calendar_of, "calendar", values.get("calendar"), whose)
        reading.end()
        if old is None:
            rule = AlertRule(tenant=whose, created_at=now, **said)
            _insert(rule, "alert_rule")
        else:
            rule = old
            with _unless_taken("alert_rule"):
                # Whoever looks for it in this moment looks for what it was.
                AlertRule.objects.filter(pk=old.pk).update(looked_at=None, **said)
            if kind != before["kind"]:  # nobody looks for the ends of what another kind told
                end_untold(old, now)
            for field, value in said.items():
                setattr(rule, field, value)
            AlertRoute.objects.filter(rule=rule).exclude(channel__in=routes).delete()
        AlertRoute.objects.bulk_create(
            [AlertRoute(rule=rule, channel=channel) for channel in routes], ignore_conflicts=True
        )
        after = rule_definition(rule)
        diff = {
            name: [before.get(name), value] for name, value in after.items() if old is None or before[name] != value
        }
        if diff:
            what = "created" if old is None else "updated"
            record_events([Event(f"alert_rule.{what}", "alert_rule", rule.name, actor, whose, diff)], now)
    return rule


def _as_said(definition: Mapping[str, Any], kind: str) -> dict[str, Any]:
    """What a rule is, in the words in which a rule of the kind is made."""
    own = {"name", "channels", *OWN_FIELDS[Kind(kind)]}
    plain = {name.removesuffix("_seconds"): value for name, value in definition.items()}
    is_said = {name for name, value in plain.items() if value is not None and (value or name != "throttle")}
    return {name: plain[name] for name in own & is_said}


def _rule_values(kind: str, values: Mapping[str, Any], reading: AllAtOnce) -> dict[str, Any]:
    said: dict[str, Any] = {"kind": kind, "name": reading.read(name_of, "name", values.get("name"))}

    def read(field: str, column: str, default: Any, parse: Callable[[str, Any], Any]) -> None:
        value = values.get(field)
        said[column] = reading.read(parse, field, value) if value is not None else default

    read("job_glob", "job_glob", "*", name_of)
    read("tags", "tags", [], names_of)
    read("throttle", "throttle_seconds", 0, throttle_seconds_of)
    read("grace", "grace_seconds", 60, lambda field, value: seconds_of(field, value, least=LEAST_GRACE_SECONDS))
    read("expected_within", "expected_within_seconds", None, seconds_of)
    read("threshold", "threshold", 1, lambda field, value: whole_number_of(field, value, 1, 1_000_000))
    read("recovery", "recovery", True, flag_of)
    if kind == Kind.OVERRAN and said["expected_within_seconds"] is None:
        reading.refuse("expected_within", "Say how long a run may take, such as 10m.")
    return said


def throttle_seconds_of(field: str, value: Any) -> float:
    """As `seconds_of`, and ``"0s"``, as rules without one are answered: none."""
    return 0.0 if value == "0s" else seconds_of(field, value)


def _locked_channels(field: str, value: Any, tenant: str) -> list[AlertChannel]:
    if not isinstance(value, list) or not 1 <= len(value) <= CHANNELS_MOST:
        raise InvalidInput.of(field, f"{field} is a list of 1 to {CHANNELS_MOST} names of alert channels.")
    names = [name_of(field, name) for name in value]
    # Locked: a channel that is being deleted in this moment is none, or is refused to go. Not its key: a run that ends
    # in this moment may name it.
    channels = AlertChannel.objects.select_for_update(no_key=True).filter(
        tenant=tenant, deleted_at__isnull=True, name__in=names
    )
    found = {channel.name: channel for channel in channels.order_by("pk")}
    for name in names:
        if name not in found:
            raise InvalidInput.of(field, f"There is no alert channel {name!r}; make it first.")
    return list(found.values())


def _calendar_of(field: str, value: Any, tenant: str) -> Calendar | None:
    if value is None:
        return None
    calendar = calendar_named(name_of(field, value), tenant=tenant)
    if calendar is None:
        raise InvalidInput.of(field, "There is no calendar of that name.")
    return calendar


def rule_definition(rule: AlertRule) -> dict[str, Any]:
    """What a rule says, for the audit."""
    return {
        "name": rule.name,
        "kind": rule.kind,
        "channels": channel_names(rule),
        "job_glob": rule.job_glob,
        "tags": rule.tags,
        "throttle_seconds": rule.throttle_seconds,
        "grace_seconds": rule.grace_seconds,
        "expected_within_seconds": rule.expected_within_seconds,
        "threshold": rule.threshold,
        "recovery": rule.recovery,
        "calendar": rule.calendar.name if rule.calendar is not None else None,
    }


@contextmanager
def _unless_taken(what: str) -> Iterator[None]:
    try:
        with transaction.atomic():
            yield
    except IntegrityError:
        words = what.replace("_", " ")
        raise Conflict(f"There is an {words} of that name.", code=f"{what}_exists") from None


def _insert(row: Model, what: str) -> None:
    with _unless_taken(what):
        type(row).objects.bulk_create([row])


def delete_channel(channel_id: int, now: datetime, actor: Actor, tenant: str | None) -> None:
    """Delete a channel; what waits to be sent over it is dropped. Raises NotFound, Conflict ``alert_channel_in_use``.

    ``tenant`` None: whosever it is.
    """
    with write_transaction():
        channel = _live(AlertChannel, channel_id, tenant)
        if AlertRoute.objects.filter(channel=channel, rule__deleted_at__isnull=True).exists():
            raise Conflict("Rules tell this channel still; delete them first.", code="alert_channel_in_use")
        # The key of what it led to is not kept.
        AlertChannel.objects.filter(pk=channel.pk).update(
            deleted_at=now, secret="", target=shown_target(channel.target), failures=0, closed_until=None, error=""
        )
        diff = {"kind": [channel.kind, None], "target": [shown_target(channel.target), None]}
        event = Event("alert_channel.deleted", "alert_channel", channel.name, actor, channel.tenant, diff)
        record_events([event], now)


def delete_rule(rule_id: int, now: datetime, actor: Actor, tenant: str | None) -> None:
    """Delete a rule; what waits to be sent for it is dropped. Raises NotFound. ``tenant`` None: whosever it is."""
    with write_transaction():
        rule = _live(AlertRule, rule_id, tenant)
        # Nothing of it keeps a calendar from being deleted.
        AlertRule.objects.filter(pk=rule.pk).update(deleted_at=now, calendar=None)
        Alert.objects.filter(rule=rule, ended_at__isnull=True).update(ended_at=now)  # nobody looks for their ends
        diff = {field: [value, None] for field, value in rule_definition(rule).items()}
        record_events([Event("alert_rule.deleted", "alert_rule", rule.name, actor, rule.tenant, diff)], now)


def check_channel(channel_id: int, now: datetime, actor: Actor, tenant: str | None) -> UUID:
    """Send a test over a channel, as any alert is sent, and return its id: the log tells what became of it. Raises
    NotFound. ``tenant`` None: whosever it is."""
    with write_transaction():
        channel = _live(AlertChannel, channel_id, tenant)
        alert_id = uuid7(now)
        alert = Alert(
            id=alert_id,
            channel=channel,
            tenant=channel.tenant,
            event=Alert.Event.TEST,
            cause=f"test:{alert_id}",
            detail={"channel": channel.name},
            created_at=now,
            ended_at=now,
            next_at=now,
        )
        Alert.objects.bulk_create([alert])
        # Somebody asks whether it answers again.
        AlertChannel.objects.filter(pk=channel.pk, failures__gt=0, closed_until__gt=now).update(closed_until=now)
        diff = {"alert_id": str(alert_id)}
        event = Event("alert_channel.tested", "alert_channel", channel.name, actor, channel.tenant, diff)
        record_events([event], now)
    return alert_id


def _live(model: type[Model], pk: int, tenant: str | None) -> Any:
    rows = model.objects.select_for_update(of=("self",), no_key=True).filter(pk=pk, deleted_at__isnull=True)
    row = (rows if tenant is None else rows.filter(tenant=tenant)).first()
    if row is None:
        raise NotFound(f"There is no such alert {'rule' if model is AlertRule else 'channel'}.")
    return row
