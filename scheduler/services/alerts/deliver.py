"""Send what is to be told, one alert at a time, from any number of processes.

An alert is claimed by a guarded write, sent outside of any transaction, and its outcome is written by whoever still
holds it. At least once: whoever dies between sending and writing leaves an alert that is sent again once its lease is
over, with the same id (`X-Croniq-Delivery`, `Message-ID`), by which a receiver knows it.

A channel that does not answer is closed: what waits for it is not tried one by one, each for as long as a receiver may
take. After a pause, which grows, one sender tries it with one alert.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.db.models import Case, F, OuterRef, Q, QuerySet, Subquery, When

from calendars.domain.closed_days import closed_until
from calendars.domain.errors import InvalidField
from calendars.queries.specs import calendar_spec
from croniq_site.kernel.clock import Clock
from croniq_site.kernel.database import WRITE_BATCH_ROWS, write_transaction
from scheduler.domain.alerts import ATTEMPTS_MOST, FIRST_WAIT, beginning_of, pause_after, wait_after
from scheduler.models import Alert, AlertChannel, AlertRule
from scheduler.queries.alert_exemptions import Exemptions, exemptions_at
from scheduler.services.alerts.causes import MOMENTS
from scheduler.services.alerts.transports import NotDelivered, Unwelcome, send

_log = logging.getLogger(__name__)

LEASE = timedelta(seconds=120)
"""So long an alert is its sender's. A sender gives up much sooner (`transports.PROCESS_SECONDS_MOST`)."""
DUE_MOST = timedelta(days=1)
"""What has been due for so long over a channel that has not answered `ATTEMPTS_MOST` attempts, about two hours, has
failed: not at the first one after a day on which nobody sent anything."""
PROBES_WAIT = timedelta(minutes=1)
"""So long a channel that did not answer is tried after those that do; then it has its turn."""
_TICK = timedelta(microseconds=1)
_SAID = (Alert.State.WAITING, Alert.State.DELIVERED)
_NEVER_SAID = (Alert.State.THROTTLED, Alert.State.SNOOZED, Alert.State.QUIET, Alert.State.DROPPED)
_FREE = (Alert.Event.RECOVERED, Alert.Event.DIGEST, Alert.Event.TEST)
"""What no throttle holds back, and does not count for one."""


@dataclass(frozen=True)
class Sending:
    """An alert that is being sent: its channel as it was then, what it says, the attempt (1-based) that is its holder's
    fence."""

    alert_id: UUID
    attempt: int
    channel: AlertChannel
    message: dict[str, Any]


def deliver_next(clock: Clock) -> bool:
    """Send the alert whose turn it is; False if none is due."""
    now = clock.now()
    sending = claim_alert(now)
    if sending is None:
        return False
    try:
        send(sending.channel, sending.message, now)
    except NotDelivered as failure:
        _log.warning("alert %s: attempt %d: %s", sending.alert_id, sending.attempt, failure)
        record_failure(sending, str(failure), clock.now(), is_of_it_alone=isinstance(failure, Unwelcome))
    except Exception as error:
        # A fault of ours or of a library is one more attempt that failed, not an alert that is tried for ever.
        _log.exception("alert %s: attempt %d broke", sending.alert_id, sending.attempt)
        record_failure(sending, f"it could not be sent ({type(error).__name__})", clock.now())
    else:
        record_success(sending, clock.now())
    return True


@dataclass(frozen=True)
class Hold:
    """Not now: at ``until`` it is looked at again, if it still lasts. ``why``: as `Alert.held`."""

    until: datetime
    why: str


def claim_alert(now: datetime) -> Sending | None:
    """Take the alert that has been due for longest of the channel whose turn it is, or say that there is none. What is
    not to be said gets its outcome on the way, or waits; with each of these a channel has had its turn."""
    passed: set[int] = set()
    decides = False
    while True:
        channel_id = _next_channel(now, passed)
        if channel_id is None:
            if not decides:
                return None
            passed, decides = set(), False
            continue
        passed.add(channel_id)
        with write_transaction():
            # What goes over a channel is decided by one at a time: an alert may be seen late, by its transaction, and
            # be the first one for another sender, and two that try a channel that does not answer hang both. Nobody
            # waits for another: one that has stopped in here would stop all.
            channel = _open(now).select_for_update(no_key=True, skip_locked=True).filter(pk=channel_id).first()
            alert = _next_alert(channel, now) if channel is not None else None
            if alert is None:
                continue
            decides = True
            decision = _decision(alert, now)
            # It may have been sent after all, by whoever held it for too long, or be over.
            mine = Alert.objects.filter(pk=alert.pk, attempt=alert.attempt, next_at__lte=now)
            if isinstance(decision, Hold):
                mine.update(next_at=decision.until, held=decision.why)
            elif decision is not None:
                mine.update(state=decision, next_at=None, finished_at=now, held="")
            elif mine.update(attempt=alert.attempt + 1, began_at=now, next_at=now + LEASE, held=""):
                probed = now + LEASE if channel.failures else None
                AlertChannel.objects.filter(pk=channel.pk).update(tried_at=now, closed_until=probed)
                return Sending(alert.pk, alert.attempt + 1, channel, message_of(alert))


def _open(now: datetime) -> QuerySet[AlertChannel]:
    return AlertChannel.objects.filter(Q(closed_until__isnull=True) | Q(closed_until__lte=now))


def _next_channel(now: datetime, passed: Collection[int]) -> int | None:
    """Of those with something due: in turns, and before those that did not answer last time those that did."""
    first = Alert.objects.filter(channel=OuterRef("pk"), next_at__lte=now).order_by("next_at").values("next_at")[:1]
    is_probe = Case(When(closed_until__gt=now - PROBES_WAIT, then=1), default=0)
    rows = _open(now).exclude(pk__in=passed).annotate(due_at=Subquery(first)).filter(due_at__isnull=False)
    return rows.order_by(is_probe, F("tried_at").asc(nulls_first=True), "due_at").values_list("pk", flat=True).first()


def _next_alert(channel: AlertChannel, now: datetime) -> Alert | None:
    due = Alert.objects.select_related("rule").filter(channel=channel, next_at__lte=now).order_by("next_at", "pk")
    # Whoever asks whether a channel answers again is told so by what he sent, not by what has waited for longest.
    alert = (due.filter(event=Alert.Event.TEST).first() if channel.failures else None) or due.first()
    if alert is not None:
        alert.channel = channel
    return alert


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
        begun = Alert.objects.filter(pk=beginning_of(alert.cause)).first()
        if begun is not None and begun.next_at is not None:
            # Whoever is told of the end first takes the beginning for news.
            return Hold(min(begun.next_at + _TICK, now + FIRST_WAIT), "")
        if begun is not None and begun.state in _NEVER_SAID:
            return Alert.State(begun.state)
    exemptions = exemptions_at(now)
    hold = _hold(alert, rule, exemptions, now)
    if hold is not None:
        # A failure is a moment, of which nobody wants to hear later; what lasts is told if it lasts until then.
        is_past = alert.event == Alert.Event.FAILED or (alert.ended_at is not None and alert.event not in MOMENTS)
        return Alert.State(hold.why) if is_past else hold
    throttle = exemptions.throttle_of(rule, alert.job_key)
    if not throttle or alert.event in _FREE:
        return None
    said = Alert.objects.filter(rule=rule, job_key=alert.job_key, channel=alert.channel, began_at__gt=now - throttle)
    return Alert.State.THROTTLED if said.filter(state__in=_SAID).exclude(event__in=_FREE).exists() else None


def _hold(alert: Alert, rule: AlertRule, exemptions: Exemptions, now: datetime) -> Hold | None:
    snoozed = exemptions.snoozed_until(rule, alert.job_key)
    if snoozed is not None:
        return Hold(snoozed, Alert.State.SNOOZED)
    quiet = _quiet_until(rule, now)
    return Hold(quiet, Alert.State.QUIET) if quiet is not None else None


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
    """Write that it was delivered, and that its channel answers; False if it is somebody else's by now."""
    with _decided_by_one(sending.channel):
        if not _held(sending).update(state=Alert.State.DELIVERED, next_at=None, finished_at=now, error=""):
            return False
        _answered(sending)
        return True


def record_failure(sending: Sending, error: str, now: datetime, *, is_of_it_alone: bool = False) -> bool:
    """Write why it was not delivered and when it is tried again, or that it has failed; False if it is somebody else's
    by now. Its channel is closed for a while, unless the failure ``is_of_it_alone``: behind what a receiver never takes
    nothing may wait. ``now`` is when it was over: a receiver that hangs has cost more than the first wait by then."""
    wait = wait_after(sending.attempt)
    if wait is None:
        outcome = {"state": Alert.State.FAILED, "next_at": None, "finished_at": now}
    else:
        outcome = {"next_at": now + wait}
    with _decided_by_one(sending.channel):
        if not _held(sending).update(**outcome, error=error[:500]):
            return False
        if is_of_it_alone:
            _answered(sending)
        else:
            # Of several that were on their way when it stopped answering the first counts.
            seen = AlertChannel.objects.filter(pk=sending.channel.pk, failures=sending.channel.failures)
            seen.update(
                failures=F("failures") + 1,
                closed_until=now + pause_after(sending.channel.failures + 1),
                error=error[:500],
            )
    if not is_of_it_alone and sending.channel.failures + 1 >= ATTEMPTS_MOST:
        _give_up(sending.channel, now)
    return True


@contextmanager
def _decided_by_one(channel: AlertChannel) -> Iterator[None]:
    """A write transaction that has the channel first, as a claim has: nobody waits for another in a circle."""
    with write_transaction():
        AlertChannel.objects.select_for_update(no_key=True).get(pk=channel.pk)
        yield


def _answered(sending: Sending) -> None:
    failing = AlertChannel.objects.filter(pk=sending.channel.pk, failures__gt=0)
    failing.update(failures=0, closed_until=None, error="")


def _give_up(channel: AlertChannel, now: datetime) -> None:
    """Write that what has been due for `DUE_MOST` has failed, so many in a transaction."""
    old = Alert.objects.filter(channel=channel, next_at__lte=now - DUE_MOST)
    while some := list(old.order_by("next_at").values_list("pk", flat=True)[:WRITE_BATCH_ROWS]):
        old.filter(pk__in=some).update(
            state=Alert.State.FAILED,
            next_at=None,
            finished_at=now,
            held="",
            error=f"its channel has not answered for {DUE_MOST.days * 24} hours",
        )


def _held(sending: Sending) -> QuerySet[Alert]:
    return Alert.objects.filter(pk=sending.alert_id, attempt=sending.attempt, state=Alert.State.WAITING)
