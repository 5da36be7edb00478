"""Snoozes, rules that are switched off, other values: each for a time, with a reason, by somebody. Audited."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import Any

from croniq_site.kernel.database import write_transaction
from croniq_site.kernel.errors import Conflict, InvalidInput, NotFound
from runners.services.audit import Actor, Event, record_events
from scheduler.domain.all_at_once import AllAtOnce
from scheduler.domain.inputs import choice_of, name_of, seconds_of, text_of
from scheduler.domain.job_fields import refuse_unknown
from scheduler.models import Alert, AlertExemption, AlertRule
from scheduler.services.alerts.definitions import LEAST_GRACE_SECONDS, throttle_seconds_of

Effect = AlertExemption.Effect
LONGEST = timedelta(days=90)
SHORTEST_SECONDS = 1
NOTE_MOST = 500
LIVE_MOST = 1000
"""So many of a tenant may be in effect at once: each delivery reads them."""


def make_exemption(values: Mapping[str, Any], now: datetime, actor: Actor, tenant: str) -> AlertExemption:
    """Let rules not tell for a time: ``effect`` snooze (what happens is in the log, and what lasts is told afterwards),
    disable (nothing is looked for) or override (``throttle`` or ``grace`` in the place of the rule's).

    ``rule`` is a rule's name, without it every rule of the tenant; ``note`` says why; it ends after ``duration``, a
    second to ninety days. Raises InvalidInput by field, Conflict ``too_many_alert_exemptions``.
    """
    refuse_unknown(values, {"effect", "rule", "job_glob", "duration", "throttle", "grace", "note"})
    reading = AllAtOnce()
    effect = reading.read(choice_of, "effect", values.get("effect"), Effect.values)
    length = reading.read(_length_of, "duration", values.get("duration"))
    note = reading.read(_note_of, "note", values.get("note"))

    def other(parse: Callable[..., Any], field: str, default: Any = None, **options: Any) -> Any:
        value = values.get(field)
        return reading.read(parse, field, value, **options) if value is not None else default

    job_glob, rule_name = other(name_of, "job_glob", "*"), other(name_of, "rule")
    throttle, grace = other(throttle_seconds_of, "throttle"), other(seconds_of, "grace", least=LEAST_GRACE_SECONDS)
    is_other = values.get("throttle") is not None or values.get("grace") is not None
    if effect and is_other != (effect == Effect.OVERRIDE):
        text = "An override says a throttle or a grace." if not is_other else f"{effect} has no throttle and no grace."
        reading.refuse("effect", text)
    with write_transaction():
        rule = None
        if rule_name is not None:
            rules = AlertRule.objects.select_for_update(of=("self",), no_key=True).filter(
                tenant=tenant, deleted_at__isnull=True
            )
            rule = rules.filter(name=rule_name).first()
            if rule is None:
                reading.refuse("rule", "There is no alert rule of that name.")
        reading.end()
        row = AlertExemption(
            tenant=tenant,
            effect=effect,
            rule=rule,
            job_glob=job_glob,
            throttle_seconds=throttle,
            grace_seconds=grace,
            note=note,
            created_by=f"{actor.type}:{actor.id}"[:255],
            created_at=now,
            until=now + length,
        )
        live = AlertExemption.objects.filter(tenant=tenant, ended_at__isnull=True, until__gt=now)
        if live.count() >= LIVE_MOST:
            raise Conflict(f"{LIVE_MOST} are in effect; end some first.", code="too_many_alert_exemptions")
        AlertExemption.objects.bulk_create([row])
        diff = {field: [None, value] for field, value in _definition(row).items() if value is not None}
        record_events([Event("alert_exemption.created", "alert_exemption", str(row.pk), actor, tenant, diff)], now)
    return row


def _length_of(field: str, value: Any) -> timedelta:
    length = timedelta(seconds=seconds_of(field, value, least=SHORTEST_SECONDS))
    if length > LONGEST:
        raise InvalidInput.of(field, f"{LONGEST.days} days is the longest; say it again then.")
    return length


def _note_of(field: str, value: Any) -> str:
    note = text_of(field, value, most=NOTE_MOST)
    if not note.strip():
        raise InvalidInput.of(field, "Say why, for whoever wonders where the alerts are.")
    return note


def end_exemption(exemption_id: int, now: datetime, actor: Actor, tenant: str | None) -> None:
    """End it before its time; what it held back is looked at at once. Raises NotFound, also if it is over. ``tenant``
    None: whosever it is."""
    with write_transaction():
        rows = AlertExemption.objects.select_for_update(of=("self",), no_key=True).filter(
            pk=exemption_id, ended_at__isnull=True, until__gt=now
        )
        row = (rows if tenant is None else rows.filter(tenant=tenant)).select_related("rule").first()
        if row is None:
            raise NotFound("There is no such alert exemption in effect.")
        AlertExemption.objects.filter(pk=row.pk).update(ended_at=now)
        held = Alert.objects.filter(tenant=row.tenant, held=Alert.State.SNOOZED, next_at__gt=now)
        held.update(next_at=now)
        diff = {field: [value, None] for field, value in _definition(row).items() if value is not None}
        record_events([Event("alert_exemption.ended", "alert_exemption", str(row.pk), actor, row.tenant, diff)], now)


def _definition(row: AlertExemption) -> dict[str, Any]:
    return {
        "effect": row.effect,
        "rule": row.rule.name if row.rule is not None else None,
        "job_glob": row.job_glob,
        "throttle_seconds": row.throttle_seconds,
        "grace_seconds": row.grace_seconds,
        "note": row.note,
        "until": row.until.isoformat(),
    }
