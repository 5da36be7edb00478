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

from calendars.domain.closed_days import closed_until
from calendars.domain.errors import InvalidField
from calendars.queries.specs import calendar_spec
from croniq_site.kernel.database import write_transaction
from scheduler.domain.alerts import ATTEMPTS_MOST, FIRST_WAIT, beginning_of, wait_after
from scheduler.models import Alert, AlertChannel, AlertRule
from scheduler.queries.alert_exemptions import exemptions_at
from scheduler.services.alerts.causes import MOMENTS
from scheduler.services.alerts.transports import NotDelivered, Unwelcome, send

_log = logging.getLogger(__name__)

LEASE = timedelta(seconds=120)
"""So long an alert is its sender's. A sender gives up much sooner (`transports.SECONDS_MOST`)."""
_SAID = (Alert.State.WAITING, Alert.State.DELIVERED)
_NEVER_SAID = (Alert.State.THROTTLED, Alert.State.SNOOZED, Alert.State.QUIET, Alert.State.DROPPED)
_FREE = (Alert.Event.RECOVERED, Alert.Event.DIGEST, Alert.Event.TEST)
"""What no throttle holds back, and does not count for one."""


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
        record_failure(sending, str(failure), now, is_of_it_alone=isinstance(failure, Unwelcome))
    except Exception as error:
        # A fault of ours or of a library is one more attempt that failed, not an alert that is tried for ever.
        _log.exception("alert %s: attempt %d broke", sending.alert_id, sending.attempt)
        record_failure(sending, f"it could not be sent ({type(error).__name__})", now)
    else:
        record_success(sending, now)
    return True


@dataclass(frozen=True)
class Hold:
    """Not now: at ``until`` it is looked at again, if it still lasts. ``why``: as `Alert.held`."""

    until: datetime
    why: str


def claim_alert(now: datetime) -> Sending | None:
    """Take the alert that has been due for longest, or say that there is none. What is not to be said gets its outcome
    on the way, or waits."""
    due = Alert.objects.filter(next_at__lte=now)
    while due.exists():
        with write_transaction():
            # All begin with the same one: of two that claim at once the second waits for the first at its write,
            # changes nothing and looks again. So whoever takes the second alert of a job sees that the first is said.
            alert = due.select_related("rule", "channel").order_by("next_at", "pk").first()
            if alert is None:
                return None
            # An alert may be seen late, by its transaction, and be the first one for another sender: what is decided
            # by what was said over a channel is decided by one at a time.
            AlertChannel.objects.select_for_update(no_key=True).get(pk=alert.channel_id)
            decision = _decision(alert, now)
            mine = Alert.objects.filter(pk=alert.pk, attempt=alert.attempt, next_at__lte=now)
            if isinstance(decision, Hold):
                mine.update(next_at=decision.until, held=decision.why)
            elif decision is not None:
                mine.update(state=decision, next_at=None, finished_at=now, held="")
            elif mine.update(attempt=alert.attempt + 1, began_at=now, next_at=now + LEASE, held=""):
                return Sending(alert.pk, alert.attempt + 1, alert.channel, message_of(alert))
    return None


def _decision(alert: Alert, now: datetime) -> Alert.State | Hold | None:
    """Why it is not sent now; None: it is."""
    rule = alert.rule
    if alert.channel.deleted_at is not None or (rule is not None and rule.deleted_at is not None):
        return Alert.State.DROPPED
    if alert.attempt >= ATTEMPTS_MOST:  # whoever made the last one never said how it went
        return Alert.State.FAILED
    if alert.attempt or rule is None:
        return None
    if alert.event == Alert.Event.RECOVERED:
        begun = Alert.objects.filter(pk=beginning_of(alert.cause)).values_list("state", flat=True).first()
        if begun == Alert.State.WAITING:  # whoever is told of the end first takes the beginning for news
            return Hold(now + FIRST_WAIT, "")
        if begun in _NEVER_SAID:
            return Alert.State(begun)
    exemptions = exemptions_at(now)
    snoozed, quiet = exemptions.snoozed_until(rule, alert.job_key), _quiet_until(rule, now)
    hold = Hold(snoozed, Alert.State.SNOOZED) if snoozed else Hold(quiet, Alert.State.QUIET) if quiet else None
    if hold is not None:
        # A failure is a moment, of which nobody wants to hear later; what lasts is told if it lasts until then.
        is_past = alert.event == Alert.Event.FAILED or (alert.ended_at is not None and alert.event not in MOMENTS)
        return Alert.State(hold.why) if is_past else hold
    throttle = exemptions.throttle_of(rule, alert.job_key)
    if not throttle or alert.event in _FREE:
        return None
    said = Alert.objects.filter(rule=rule, job_key=alert.job_key, channel=alert.channel, began_at__gt=now - throttle)
    return Alert.State.THROTTLED if said.filter(state__in=_SAID).exclude(event__in=_FREE).exists() else None


def _quiet_until(rule: AlertRule, now: datetime) -> datetime | None:
    if rule.calendar is None:
        return None
    try:
        return closed_until(calendar_spec(rule.calendar), now)
    except InvalidField:
        return None  # a calendar that is broken keeps nothing quiet


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


def record_failure(sending: Sending, error: str, now: datetime, *, is_of_it_alone: bool = False) -> bool:
    """Write why it was not delivered and when it is tried again, or that it has failed; False if it is somebody else's
    by now. What else waits for its first attempt over that channel waits as long, so that a receiver that hangs holds
    up nobody else's alerts; unless it ``is_of_it_alone``: behind what a receiver never takes nothing may wait."""
    wait = wait_after(sending.attempt)
    with write_transaction():
        if wait is None:
            return bool(
                _held(sending).update(state=Alert.State.FAILED, next_at=None, finished_at=now, error=error[:500])
            )
        if not _held(sending).update(next_at=now + wait, error=error[:500]):
            return False
        if is_of_it_alone:
            return True
        waiting = Alert.objects.filter(channel=sending.channel, attempt=0, next_at__lt=now + wait)
        waiting.update(next_at=now + wait)
        return True


def _held(sending: Sending):
    return Alert.objects.filter(pk=sending.alert_id, attempt=sending.attempt, state=Alert.State.WAITING)
