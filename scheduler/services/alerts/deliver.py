"""Send what is to be told, one alert at a time, from any number of processes.

An alert is claimed by a guarded write, sent outside of any transaction, and its outcome is written by whoever still
holds it. At least once: whoever dies between sending and writing leaves an alert that is sent again once its lease is
over, with the same id (`X-Croniq-Delivery`, `Message-ID`), by which a receiver knows it.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from croniq_site.kernel.database import write_transaction
from scheduler.domain.alerts import ATTEMPTS_MOST, wait_after
from scheduler.models import Alert, AlertChannel
from scheduler.services.alerts.transports import NotDelivered, send

_log = logging.getLogger(__name__)

LEASE = timedelta(seconds=120)
"""So long an alert is its sender's. A sender gives up much sooner (`transports.SECONDS_MOST`)."""
_SAID = (Alert.State.WAITING, Alert.State.DELIVERED)


@dataclass(frozen=True)
class Sending:
    """An alert that is being sent: its channel, what it says, the attempt (1-based) that is its holder's fence."""

    alert_id: UUID
    attempt: int
    channel: AlertChannel
    message: dict[str, Any]


def deliver_next(now: datetime) -> bool:
    """Send the alert that has been due for longest; False if none is due."""
    sending = claim_alert(now)
    if sending is None:
        return False
    try:
        send(sending.channel, sending.message, now)
    except NotDelivered as failure:
        _log.warning("alert %s: attempt %d: %s", sending.alert_id, sending.attempt, failure)
        record_failure(sending, str(failure), now)
    except Exception as error:
        # A fault of ours or of a library is one more attempt that failed, not an alert that is tried for ever.
        _log.exception("alert %s: attempt %d broke", sending.alert_id, sending.attempt)
        record_failure(sending, f"it could not be sent ({type(error).__name__})", now)
    else:
        record_success(sending, now)
    return True


def claim_alert(now: datetime) -> Sending | None:
    """Take the alert that has been due for longest, or say that there is none. Those that the throttle of their rule
    holds back, and those whose rule or channel was deleted, get their outcome on the way."""
    due = Alert.objects.filter(next_at__lte=now)
    while due.exists():
        with write_transaction():
            # All begin with the same one: of two that claim at once the second waits for the first at its write,
            # changes nothing and looks again. So whoever takes the second alert of a job sees that the first is said.
            alert = due.select_related("rule", "channel").order_by("next_at", "pk").first()
            if alert is None:
                return None
            outcome = _outcome_without_sending(alert, now)
            mine = Alert.objects.filter(pk=alert.pk, attempt=alert.attempt, next_at__lte=now)
            if outcome is not None:
                mine.update(state=outcome, next_at=None, finished_at=now)
                continue
            if mine.update(attempt=alert.attempt + 1, began_at=now, next_at=now + LEASE):
                return Sending(alert.pk, alert.attempt + 1, alert.channel, message_of(alert))
    return None


def _outcome_without_sending(alert: Alert, now: datetime) -> Alert.State | None:
    if alert.channel.deleted_at is not None or (alert.rule is not None and alert.rule.deleted_at is not None):
        return Alert.State.DROPPED
    if alert.attempt >= ATTEMPTS_MOST:  # whoever made the last one never said how it went
        return Alert.State.FAILED
    if alert.attempt or alert.rule is None or not alert.job_key or not alert.rule.throttle_seconds:
        return None
    since = now - timedelta(seconds=alert.rule.throttle_seconds)
    said = Alert.objects.filter(rule=alert.rule, job_key=alert.job_key, began_at__gt=since, state__in=_SAID)
    return Alert.State.THROTTLED if said.exists() else None


def message_of(alert: Alert) -> dict[str, Any]:
    """What is told of an alert; the same at every attempt."""
    return {
        "id": str(alert.pk),
        "event": alert.event,
        "rule": alert.rule.name if alert.rule is not None else "",
        "job_key": alert.job_key,
        "tenant": alert.tenant,
        "at": alert.created_at.isoformat(),
        "detail": alert.detail,
    }


def record_success(sending: Sending, now: datetime) -> bool:
    """Write that it was delivered; False if it is somebody else's by now."""
    changed = _held(sending).update(state=Alert.State.DELIVERED, next_at=None, finished_at=now, error="")
    return bool(changed)


def record_failure(sending: Sending, error: str, now: datetime) -> bool:
    """Write why it was not delivered and when it is tried again, or that it has failed; False if it is somebody else's
    by now. What else waits for its first attempt over that channel waits as long, so that a receiver that hangs holds
    up nobody else's alerts."""
    wait = wait_after(sending.attempt)
    with write_transaction():
        if wait is None:
            return bool(
                _held(sending).update(state=Alert.State.FAILED, next_at=None, finished_at=now, error=error[:500])
            )
        if not _held(sending).update(next_at=now + wait, error=error[:500]):
            return False
        waiting = Alert.objects.filter(channel=sending.channel, attempt=0, next_at__lt=now + wait)
        waiting.update(next_at=now + wait)
        return True


def _held(sending: Sending):
    return Alert.objects.filter(pk=sending.alert_id, attempt=sending.attempt, state=Alert.State.WAITING)
