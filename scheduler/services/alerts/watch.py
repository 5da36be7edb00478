"""Look for what rules tell of that no event says: a chore of the reaper. What begins is written down, and its end.

Looking may take long, where many jobs are late or a week had many runs, and locks nothing: on SQLite nobody could claim
meanwhile. Writing is short, and for whoever looked last.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from uuid import UUID

from django.db.models import F, Q

from croniq_site.kernel.database import WRITE_BATCH_ROWS, chunks, is_outage, write_transaction
from scheduler.domain.alerts import cause_of, lasting, lasting_of, recovery_of
from scheduler.models import Alert, AlertRule, Run
from scheduler.queries.alert_conditions import conditions
from scheduler.queries.alert_exemptions import Exemptions, exemptions_at
from scheduler.queries.jobs import live_jobs
from scheduler.services.alerts.causes import alerts_of, write_alerts
from scheduler.services.alerts.digest import week_told
from scheduler.sql.gauges import newest_successes

_log = logging.getLogger(__name__)

LOOK_EVERY = timedelta(seconds=5)
LOOK_MOST = timedelta(seconds=50)
"""So long a look is its reaper's: of two whose looks took longer than `LOOK_EVERY` each would overtake the other, and
none ever write. One that died leaves its rule unlooked for until then."""
BEGUN_MOST = 500
"""So much of a rule begins in one look; what is more begins in the next ones."""
ENDED_AT_ONCE = 50
"""So many things end in one transaction."""
RUNS_LOOKED_AT = 20
"""A job that failed succeeds again if one of so many of its newest runs did."""

FAILURES_LOOKED_AT = 2000
"""So many failures of a rule are looked through in one look."""

Kind, Event, State = AlertRule.Kind, Alert.Event, Alert.State
_SAID = (State.WAITING, State.DELIVERED, State.FAILED)
EVENTS = {kind: Event(kind.value) for kind in Kind if kind.value in Event.values} | {
    Kind.SCHEDULER_SILENT: Event.SILENT,
    Kind.WEEKLY_DIGEST: Event.DIGEST,
}


@dataclass(frozen=True)
class Seen:
    """What somebody who looked would write: alerts that begin, and what is over: its alerts, all of one job if of any,
    and what their ends say."""

    begun: list[Alert] = field(default_factory=list)
    over: list[tuple[list[Alert], dict[str, str]]] = field(default_factory=list)


def watch(now: datetime, limit: int = WRITE_BATCH_ROWS) -> int:
    """Look for each rule that nobody has looked for lately; returns how many alerts were written. A rule that breaks
    stops only itself."""
    stale = Q(looked_at__isnull=True) | Q(looked_at__lte=now - LOOK_EVERY)
    rules = AlertRule.objects.filter(stale, deleted_at__isnull=True).order_by(F("looked_at").asc(nulls_first=True))
    written = 0
    for pk in list(rules.values_list("pk", flat=True)[:limit]):
        try:
            # Whoever comes second finds that it is looked for.
            if AlertRule.objects.filter(stale, pk=pk, deleted_at__isnull=True).update(looked_at=now + LOOK_MOST):
                try:
                    rule, exemptions = AlertRule.objects.prefetch_related("routes").get(pk=pk), exemptions_at(now)
                    written += _write(rule, look(rule, now, exemptions), now, exemptions)
                finally:
                    AlertRule.objects.filter(pk=pk, looked_at=now + LOOK_MOST).update(looked_at=now)
        except Exception as error:
            if is_outage(error):
                raise
            _log.exception("alert rule %d cannot be looked for", pk)
    return written


def _write(rule: AlertRule, seen: Seen, now: datetime, exemptions: Exemptions) -> int:
    """Begin and end what somebody saw, if the rule is as it was then and nobody has looked since: he knows more."""
    # What is over while the rule is switched off is found to be over afterwards.
    over = [(alerts, more) for alerts, more in seen.over if not exemptions.is_disabled(rule, alerts[0].job_key)]
    parts = [Seen(seen.begun)] if seen.begun else []
    written = 0
    for part in (*parts, *(Seen(over=list(some)) for some in chunks(over, ENDED_AT_ONCE))):
        with write_transaction():
            same = AlertRule.objects.select_for_update(no_key=True).filter(pk=rule.pk, deleted_at__isnull=True)
            if not same.filter(looked_at=now + LOOK_MOST):
                break
            written += write_alerts(part.begun) + sum(_end(rule, alerts, now, more) for alerts, more in part.over)
    return written


def look(rule: AlertRule, now: datetime, exemptions: Exemptions) -> Seen:
    """Find what of the rule begins and ends; writes nothing but which failures others stand for."""
    if rule.kind == Kind.WEEKLY_DIGEST:
        return Seen([] if exemptions.is_disabled(rule, "") else week_told(rule, now))
    if rule.kind == Kind.FAILED:
        return Seen(over=_ended_failures(rule, now))
    event = EVENTS[Kind(rule.kind)]
    found = {lasting(event, subject): (subject, seen) for subject, seen in conditions(rule, now, exemptions).items()}
    going_on: dict[str, list[Alert]] = defaultdict(list)
    for alert in Alert.objects.filter(rule=rule, ended_at__isnull=True).exclude(event=Event.FAILED):
        going_on[lasting_of(alert.cause)].append(alert)
    begins = [
        (subject, seen)
        for name, (subject, seen) in found.items()
        if name not in going_on and seen.is_ripe and not exemptions.is_disabled(rule, seen.job_key)
    ]
    begun = [
        alert
        for subject, seen in begins[:BEGUN_MOST]
        for alert in alerts_of(
            rule, event, cause_of(event, subject, seen.since), now, job_key=seen.job_key, detail=seen.detail
        )
    ]
    return Seen(begun, [(alerts, {}) for name, alerts in going_on.items() if name not in found])


def _ended_failures(rule: AlertRule, now: datetime) -> list[tuple[list[Alert], dict[str, str]]]:
    """A job that failed and has succeeded since is told of once, however often it failed."""
    failures: dict[str, list[Alert]] = defaultdict(list)
    for alert in _failures(rule, now):
        failures[alert.job_key].append(alert)
    if not failures:
        return []
    jobs = dict(live_jobs(rule.tenant).filter(job_key__in=list(failures)).values_list("pk", "job_key"))
    # A replay has the instant of its run.
    asked = [
        (pk, max(datetime.fromisoformat(alert.detail["scheduled_for"]) for alert in failures[key]) - _TICK)
        for pk, key in jobs.items()
    ]
    runs = Run.objects.filter(pk__in=newest_successes(asked, now, RUNS_LOOKED_AT))
    found = ((failures[jobs[row[0]]], *row[1:]) for row in runs.values_list("job_id", "pk", "finished_at"))
    return [(alerts, {"succeeded": str(run_id)}) for alerts, run_id, at in found if at > alerts[-1].created_at]


_TICK = timedelta(microseconds=1)


def _failures(rule: AlertRule, now: datetime) -> list[Alert]:
    """The failures that go on, the oldest first, but for those that later ones stand for: these are over. So a look
    costs as much as there are jobs that fail, not as often as they failed. None while there is more to look through."""
    going_on = Alert.objects.filter(rule=rule, ended_at__isnull=True, event=Event.FAILED).order_by("created_at", "pk")
    found = list(going_on[:FAILURES_LOOKED_AT])
    is_cut = len(found) == FAILURES_LOOKED_AT
    kept = _standing(found)
    if is_cut and len(kept) == len(found):
        found, is_cut = list(going_on), False
        kept = _standing(found)
    for some in chunks([alert.pk for alert in found if alert.pk not in kept]):
        Alert.objects.filter(pk__in=some, ended_at__isnull=True).update(ended_at=now)
    return [] if is_cut else [alert for alert in found if alert.pk in kept]


def _standing(failures: Iterable[Alert]) -> set[UUID]:
    """Of each job and channel: the last failure, the one of the last instant, and the one whose end is told."""
    of: dict[tuple[int, str], list[Alert]] = defaultdict(list)
    for alert in failures:
        of[alert.channel_id, alert.job_key].append(alert)
    kept = set()
    for alerts in of.values():
        said = [alert for alert in alerts if alert.state in _SAID]
        tried = [alert for alert in said if alert.attempt]
        kept |= {alert.pk for alert in (alerts[-1], *tried[-1:], *(said[:1] if not tried else ()))}
        kept.add(max(alerts, key=lambda alert: datetime.fromisoformat(alert.detail["scheduled_for"])).pk)
    return kept


def _end(rule: AlertRule, over: Iterable[Alert], now: datetime, more: dict[str, str]) -> int:
    """Write that these are over, and tell of it whoever was told of them. What nobody was told of yet, because it was
    held back, is not told any more."""
    written, told = 0, {}
    for alert in over:
        ended = Alert.objects.filter(pk=alert.pk, ended_at__isnull=True)
        if (
            ended.exclude(held="")
            .filter(attempt=0, state=State.WAITING)
            .update(ended_at=now, state=F("held"), next_at=None, finished_at=now)
        ):
            continue
        if ended.update(ended_at=now) and alert.state in _SAID:
            whose = (alert.channel_id, alert.job_key if alert.event == Event.FAILED else alert.cause)
            # The end is told if this one is: of those that nobody has tried yet the first one is, whatever throttles.
            if alert.attempt or whose not in told:
                told[whose] = alert
    if not rule.recovery:
        return 0
    for alert in told.values():
        detail = {**alert.detail, **more, "of": alert.event, "until": now.isoformat(timespec="seconds")}
        recovered = alerts_of(rule, Event.RECOVERED, recovery_of(alert.pk), now, job_key=alert.job_key, detail=detail)
        written += write_alerts(row for row in recovered if row.channel_id == alert.channel_id)
    return written
