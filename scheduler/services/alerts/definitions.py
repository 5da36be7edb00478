"""Channels and rules: made, deleted, tested. Audited, without secrets."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from datetime import datetime
from typing import Any
from uuid import UUID

from django.core.exceptions import ValidationError
from django.core.validators import validate_email
from django.db import IntegrityError, transaction
from django.db.models import Model

from croniq_site.kernel.database import write_transaction
from croniq_site.kernel.errors import Conflict, InvalidInput, NotFound
from croniq_site.kernel.ids import uuid7
from runners.services.audit import Actor, Event, record_events
from scheduler.domain.alerts import shown_target
from scheduler.domain.http_action import url_of
from scheduler.domain.inputs import choice_of, name_of, seconds_of
from scheduler.domain.job_fields import refuse_unknown
from scheduler.models import Alert, AlertChannel, AlertRule

LEAST_GRACE_SECONDS = 10


def create_channel(values: Mapping[str, Any], now: datetime, actor: Actor, tenant: str) -> AlertChannel:
    """Make a channel. A webhook's gets a secret, which whoever made it is told this once. Raises InvalidInput by field,
    Conflict ``alert_channel_exists``."""
    refuse_unknown(values, {"name", "kind", "target"})
    kind = choice_of("kind", values.get("kind"), AlertChannel.Kind.values)
    channel = AlertChannel(
        tenant=tenant,
        name=name_of("name", values.get("name")),
        kind=kind,
        target=_target_of(kind, values.get("target")),
        secret=secrets.token_urlsafe(32) if kind == AlertChannel.Kind.WEBHOOK else "",
        created_at=now,
    )
    diff = {"kind": [None, kind], "target": [None, shown_target(channel.target)]}
    with write_transaction():
        _insert(channel, "alert_channel")
        record_events([Event("alert_channel.created", "alert_channel", channel.name, actor, tenant, diff)], now)
    return channel


def _target_of(kind: str, value: Any) -> str:
    if kind == AlertChannel.Kind.WEBHOOK:
        url = url_of("target", value)
        if not isinstance(url, str):
            raise InvalidInput.of("target", "The URL of a channel is a text.")
        return url
    try:
        if isinstance(value, str) and len(value) <= 254 and value.isascii():
            validate_email(value)
            return value
    except ValidationError:
        pass
    raise InvalidInput.of("target", "target is a mail address such as ops@example.org.")


def create_rule(values: Mapping[str, Any], now: datetime, actor: Actor, tenant: str) -> AlertRule:
    """Make a rule; ``channel`` is the name of a channel of the same tenant. Raises InvalidInput by field, Conflict
    ``alert_rule_exists``."""
    refuse_unknown(values, {"name", "kind", "channel", "job_glob", "throttle", "grace"})
    kind = choice_of("kind", values.get("kind"), AlertRule.Kind.values)
    own = {AlertRule.Kind.FAILED: ("job_glob", "throttle"), AlertRule.Kind.SCHEDULER_SILENT: ("grace",)}
    for field in ("job_glob", "throttle", "grace"):
        if values.get(field) is not None and field not in own[AlertRule.Kind(kind)]:
            raise InvalidInput.of(field, f"A rule of the kind {kind} has no {field}.")
    name = name_of("name", values.get("name"))
    channel_name = name_of("channel", values.get("channel"))
    rule = AlertRule(tenant=tenant, name=name, kind=kind, created_at=now)
    if values.get("job_glob") is not None:
        rule.job_glob = name_of("job_glob", values["job_glob"])
    if values.get("throttle") is not None:
        rule.throttle_seconds = seconds_of("throttle", values["throttle"])
    if values.get("grace") is not None:
        rule.grace_seconds = seconds_of("grace", values["grace"], least=LEAST_GRACE_SECONDS)
    with write_transaction():
        # Locked: a channel that is being deleted in this moment is none, or is refused to go.
        channels = AlertChannel.objects.select_for_update().filter(tenant=tenant, deleted_at__isnull=True)
        channel = channels.filter(name=channel_name).first()
        if channel is None:
            raise InvalidInput.of("channel", "There is no alert channel of that name; make it first.")
        rule.channel = channel
        _insert(rule, "alert_rule")
        diff = {field: [None, value] for field, value in rule_definition(rule).items()}
        record_events([Event("alert_rule.created", "alert_rule", rule.name, actor, tenant, diff)], now)
    return rule


def rule_definition(rule: AlertRule) -> dict[str, Any]:
    """What a rule says, for the audit."""
    return {
        "kind": rule.kind,
        "channel": rule.channel.name,
        "job_glob": rule.job_glob,
        "throttle_seconds": rule.throttle_seconds,
        "grace_seconds": rule.grace_seconds,
    }


def _insert(row: Model, what: str) -> None:
    try:
        with transaction.atomic():
            type(row).objects.bulk_create([row])
    except IntegrityError:
        words = what.replace("_", " ")
        raise Conflict(f"There is an {words} of that name.", code=f"{what}_exists") from None


def delete_channel(channel_id: int, now: datetime, actor: Actor, tenant: str | None) -> None:
    """Delete a channel; what waits to be sent over it is dropped. Raises NotFound, Conflict ``alert_channel_in_use``.

    ``tenant`` None: whosever it is.
    """
    with write_transaction():
        channel = _live(AlertChannel, channel_id, tenant)
        if AlertRule.objects.filter(channel=channel, deleted_at__isnull=True).exists():
            raise Conflict("Rules tell this channel still; delete them first.", code="alert_channel_in_use")
        # The key of what it led to is not kept.
        AlertChannel.objects.filter(pk=channel.pk).update(
            deleted_at=now, secret="", target=shown_target(channel.target)
        )
        diff = {"kind": [channel.kind, None], "target": [shown_target(channel.target), None]}
        event = Event("alert_channel.deleted", "alert_channel", channel.name, actor, channel.tenant, diff)
        record_events([event], now)


def delete_rule(rule_id: int, now: datetime, actor: Actor, tenant: str | None) -> None:
    """Delete a rule; what waits to be sent for it is dropped. Raises NotFound. ``tenant`` None: whosever it is."""
    with write_transaction():
        rule = _live(AlertRule, rule_id, tenant)
        AlertRule.objects.filter(pk=rule.pk).update(deleted_at=now)
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
            next_at=now,
        )
        Alert.objects.bulk_create([alert])
        diff = {"alert_id": str(alert_id)}
        event = Event("alert_channel.tested", "alert_channel", channel.name, actor, channel.tenant, diff)
        record_events([event], now)
    return alert_id


def _live(model: type[Model], pk: int, tenant: str | None) -> Any:
    rows = model.objects.select_for_update(of=("self",)).filter(pk=pk, deleted_at__isnull=True)
    row = (rows if tenant is None else rows.filter(tenant=tenant)).first()
    if row is None:
        raise NotFound(f"There is no such alert {'rule' if model is AlertRule else 'channel'}.")
    return row
