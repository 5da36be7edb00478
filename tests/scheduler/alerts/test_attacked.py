"""Storms of what is not said, rules that change while somebody looks, a database that others need meanwhile."""

from __future__ import annotations

from datetime import timedelta

import pytest

from runners.services.audit import SYSTEM
from scheduler.models import Alert, AlertRule, QueueEntry, Trigger
from scheduler.queries import alert_conditions
from scheduler.queries.alert_conditions import conditions
from scheduler.queries.alert_exemptions import exemptions_at
from scheduler.services.alerts import watch as watching
from scheduler.services.alerts.definitions import save_rule
from scheduler.services.alerts.deliver import claim_alert, record_success
from scheduler.services.alerts.watch import LOOK_EVERY, watch
from tests.factories import (
    AlertChannelFactory,
    AlertExemptionFactory,
    AlertFactory,
    AlertRuleFactory,
    JobFactory,
    QueueEntryFactory,
    TriggerFactory,
)
from tests.support.races import DEADLINE_SECONDS, in_thread

pytestmark = pytest.mark.django_db

SECOND, MINUTE, DAY = timedelta(seconds=1), timedelta(minutes=1), timedelta(days=1)


def overran_rule(now, **fields) -> AlertRule:
    return AlertRuleFactory(kind="overran", created_at=now - DAY, expected_within_seconds=60, **fields)


def told() -> list[tuple[str, bool]]:
    return [(alert.event, alert.ended_at is not None) for alert in Alert.objects.order_by("created_at", "pk")]


# What is not said


def test_a_channel_with_much_that_is_not_said_keeps_no_other_one_waiting(now):
    loud, other = AlertChannelFactory(tried_at=now - DAY), AlertChannelFactory(tried_at=now)
    rule = AlertRuleFactory(channel=loud, throttle_seconds=600)
    AlertFactory(rule=rule, attempt=1, began_at=now, state="delivered", next_at=None, finished_at=now)
    for _ in range(3):
        AlertFactory(rule=rule)
    alert = AlertFactory(rule=AlertRuleFactory(channel=other))
    assert claim_alert(now).alert_id == alert.pk
    throttled = Alert.objects.filter(state="throttled")
    assert throttled.count() == 1
    assert claim_alert(now) is None
    assert throttled.count() == 3


def test_a_digest_that_is_switched_off_is_told_when_it_is_switched_on_again(now):
    AlertRuleFactory(kind="weekly_digest", created_at=now - 30 * DAY)
    AlertExemptionFactory(effect="disable", created_at=now, until=now + MINUTE)
    watch(now)
    assert told() == []
    watch(now + MINUTE)
    assert told() == [("digest", True)]


# While somebody looks


def test_what_a_rule_of_another_kind_told_is_over_and_what_it_held_back_is_not_said(now):
    rule = overran_rule(now)
    QueueEntryFactory(claimed=True)
    watch(now + 2 * MINUTE)
    record_success(claim_alert(now + 2 * MINUTE), now + 2 * MINUTE)
    held = AlertFactory(rule=rule, event="overran", cause="overran:x:1", next_at=now + DAY, held="snoozed")
    save_rule({"kind": "failed"}, now + 3 * MINUTE, SYSTEM, None, rule.pk)
    watch(now + 4 * MINUTE)
    assert told() == [("overran", True)] * 2
    held.refresh_from_db()
    assert (held.state, held.next_at) == ("snoozed", None)


@pytest.mark.django_db(transaction=True)
def test_who_looks_keeps_nobody_from_writing_meanwhile(now, monkeypatch):
    """On SQLite there is one writer at a time: nobody could claim while it is found out which of many jobs are late."""
    overran_rule(now)
    QueueEntryFactory(claimed=True)
    look = watching.look

    def looks(*args):
        in_thread(lambda: QueueEntryFactory(claimed=True)).result(DEADLINE_SECONDS)
        return look(*args)

    monkeypatch.setattr(watching, "look", looks)
    watch(now + 2 * MINUTE)
    assert told() == [("overran", False)] * 2


def test_a_look_that_takes_long_is_overtaken_by_nobody(now, monkeypatch):
    """Two reapers whose looks take longer than the time between looks: each would find that the other was later."""
    overran_rule(now)
    QueueEntryFactory(claimed=True)
    looks, at = [], now + 2 * MINUTE

    def slow(*args):
        looks.append(args)
        if len(looks) == 1:
            assert watch(at + 2 * LOOK_EVERY) == 0, "the other reaper, meanwhile"
        return look(*args)

    look = watching.look
    monkeypatch.setattr(watching, "look", slow)
    assert watch(at) == 1, "what was seen is written"
    assert len(looks) == 1
    watch(at + LOOK_EVERY)
    assert len(looks) == 2, "the next look comes when it is due"


@pytest.mark.parametrize("overtakes", ["who looks later", "an edit", "its deletion"])
def test_who_was_overtaken_while_he_looked_writes_nothing(now, monkeypatch, overtakes):
    rule = overran_rule(now)
    QueueEntryFactory(claimed=True)
    look = watching.look

    def looks(*args):
        seen = look(*args)
        if overtakes == "an edit":
            save_rule({"expected_within": "1h"}, now, SYSTEM, None, rule.pk)
        else:
            field = "looked_at" if overtakes == "who looks later" else "deleted_at"
            AlertRule.objects.update(**{field: now + 2 * MINUTE + LOOK_EVERY})
        return seen

    monkeypatch.setattr(watching, "look", looks)
    watch(now + 2 * MINUTE)
    assert told() == []


def test_a_fire_that_becomes_a_run_while_somebody_looks_is_still_late(now, monkeypatch):
    rule = AlertRuleFactory(kind="missed", created_at=now - DAY)
    job = JobFactory()
    TriggerFactory(job=job, cursor_at=now - DAY, next_materialize_at=now - DAY)

    def planned(trigger, before):
        QueueEntryFactory(job=job, available_at=now)
        Trigger.objects.update(cursor_at=before, next_materialize_at=before)

    monkeypatch.setattr(alert_conditions, "planned_late", planned)
    later = now + 10 * MINUTE
    assert [seen.since for seen in conditions(rule, later, exemptions_at(later)).values()] == [now]


def test_of_many_things_that_end_at_once_each_is_told(now, monkeypatch):
    monkeypatch.setattr(watching, "ENDED_AT_ONCE", 2)
    overran_rule(now)
    for _ in range(5):
        QueueEntryFactory(claimed=True)
    watch(now + 2 * MINUTE)
    QueueEntry.objects.all().delete()
    assert watch(now + 3 * MINUTE) == 5
    assert told() == [("overran", True)] * 5 + [("recovered", True)] * 5
