"""A channel that does not answer: tried by one sender with one alert at each step, in nobody's way."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from croniq_site.kernel.clock import ManualClock
from runners.services.audit import SYSTEM
from scheduler.domain.alerts import ATTEMPTS_MOST, LONGEST_WAIT, pause_after, wait_after
from scheduler.models import Alert, AlertChannel
from scheduler.services.alerts import deliver, transports
from scheduler.services.alerts.definitions import check_channel, delete_channel
from scheduler.services.alerts.deliver import (
    DUE_MOST,
    LEASE,
    PROBES_WAIT,
    Sending,
    claim_alert,
    deliver_next,
    record_failure,
    record_success,
)
from tests.factories import AlertChannelFactory, AlertFactory, AlertRuleFactory
from tests.support.polling import poll_until
from tests.support.races import DEADLINE_SECONDS, Session, is_waiting_for_lock, together
from tests.support.receivers import webhook

pytestmark = pytest.mark.django_db

SECOND, HOUR = timedelta(seconds=1), timedelta(hours=1)


def closed(now, failures: int = 1, **fields) -> AlertChannel:
    return AlertChannelFactory(failures=failures, closed_until=now, **fields)


def waiting(channel: AlertChannel, now, **fields) -> Alert:
    return AlertFactory(rule=AlertRuleFactory(channel=channel), next_at=now, **fields)


def state_of(channel: AlertChannel) -> tuple[int, object]:
    return AlertChannel.objects.values_list("failures", "closed_until").get(pk=channel.pk)


@pytest.mark.parametrize("status", [500, 0], ids=["fails", "hangs"])
def test_a_channel_that_does_not_answer_is_tried_at_each_step_and_delays_no_other_one(now, monkeypatch, status):
    """Alerts of both come steadily. What another channel gets waits for nothing: it goes first at each step."""
    with webhook() as bad, webhook() as good:
        to_bad, to_good = (AlertRuleFactory(channel__target=hook.url) for hook in (bad, good))
        bad.status = status

        def tried(at) -> bool:
            with monkeypatch.context() as patch:
                if not status:
                    patch.setattr(transports, "SECONDS_MOST", 0.2)
                return deliver_next(ManualClock(at))

        AlertFactory(rule=to_bad)
        assert tried(now)
        steps = [1, 9, 10, 11, 29, 30, 31]
        attempts = []
        for at in (now + step * SECOND for step in steps):
            AlertFactory(rule=to_bad, next_at=at)
            alert = AlertFactory(rule=to_good, next_at=at)
            assert deliver_next(ManualClock(at))
            assert good.ids[-1] == str(alert.pk)
            attempts += [at] if tried(at) else []
            assert not deliver_next(ManualClock(at))
        assert attempts == [now + 10 * SECOND, now + 30 * SECOND]
        assert len(good.ids) == len(steps)
        bad.status = 204
        at = now + 70 * SECOND
        assert not deliver_next(ManualClock(at - SECOND))
        while deliver_next(ManualClock(at)):
            pass
        assert not Alert.objects.exclude(state="delivered").exists()
        assert len(set(bad.ids)) == 1 + len(steps)
        assert AlertChannel.objects.get(pk=to_bad.routes.get().channel_id).error == ""


@pytest.mark.django_db(transaction=True)
def test_of_many_senders_one_tries_a_channel_that_does_not_answer(now):
    channel = closed(now)
    for _ in range(4):
        waiting(channel, now)
    (probe,) = (found for found in together([lambda: claim_alert(now)] * 4) if isinstance(found, Sending))
    assert claim_alert(now + LEASE - SECOND) is None
    # Whoever tried it died: the next one tries it, with what has waited for longest.
    assert claim_alert(now + LEASE).alert_id != probe.alert_id
    assert claim_alert(now + LEASE) is None


@pytest.mark.django_db(transaction=True)
def test_who_writes_an_outcome_waits_for_the_channel_before_he_has_the_alert(now, database):
    """A claim has the channel first: whoever had the alert before it would wait for it in a circle."""
    if database != "postgresql":
        pytest.skip("one writer at a time on SQLite")
    alert = waiting(closed(now), now)
    probe = claim_alert(now)

    def lock(rows) -> int:
        return rows.select_for_update(nowait=True, no_key=True).get().pk

    with Session() as claim, Session() as sender:
        pid = sender.backend_pid
        claim.begin()
        claim.run(lock, AlertChannel.objects)
        done = sender.start(record_success, probe, now)
        poll_until(lambda: is_waiting_for_lock(pid), what="the sender waits for the channel")
        assert claim.run(lock, Alert.objects) == alert.pk
        claim.commit()
        assert done.result(DEADLINE_SECONDS)
    assert state_of(probe.channel) == (0, None)


def test_several_attempts_that_were_on_their_way_close_it_once(now):
    channel = AlertChannelFactory()
    for _ in range(3):
        waiting(channel, now)
    first, second, third = (claim_alert(now) for _ in range(3))
    record_failure(first, "500", now)
    record_failure(second, "500", now + SECOND)
    assert state_of(channel) == (1, now + wait_after(1))
    record_success(third, now + SECOND)
    assert state_of(channel) == (0, None)


def test_the_steps_grow_and_what_has_its_own_pause_keeps_it(now):
    channel, at = AlertChannelFactory(), now
    alerts = [waiting(channel, now) for _ in range(2)]
    for failures in (1, 2, 3):
        assert record_failure(claim_alert(at), "x" * 501, at)
        assert state_of(channel) == (failures, at + pause_after(failures))
        at += pause_after(failures)
    # In turns: what a receiver alone cannot take keeps nothing else from being tried.
    assert [alert.attempt for alert in Alert.objects.filter(pk__in=[one.pk for one in alerts]).order_by("pk")] == [2, 1]
    assert AlertChannel.objects.get().error == "x" * 500
    assert pause_after(10**6) == LONGEST_WAIT


def test_an_answer_that_is_about_one_alert_is_an_answer(now):
    channel = closed(now)
    waiting(channel, now)
    assert record_failure(claim_alert(now), "400", now, is_of_it_alone=True)
    assert state_of(channel) == (0, None)


def test_channels_have_turns_and_one_that_did_not_answer_is_tried_after_those_that_do(now):
    bad, one, other = closed(now), AlertChannelFactory(), AlertChannelFactory()
    for channel in (bad, one, one, other, other):
        waiting(channel, now)
    found = [claim_alert(now + number * SECOND).channel for number in range(5)]
    assert found[4] == bad
    assert [found[0], found[1]] == [found[2], found[3]]
    assert {found[0], found[1]} == {one, other}


def test_one_that_did_not_answer_has_its_turn_at_last_however_much_the_others_have_to_say(now):
    bad, good = closed(now), AlertChannelFactory(tried_at=now)
    waiting(bad, now)
    waiting(good, now - HOUR)
    assert claim_alert(now + PROBES_WAIT).channel == bad


def test_what_was_due_for_a_day_has_failed_so_much_in_a_transaction(now, monkeypatch):
    monkeypatch.setattr(deliver, "WRITE_BATCH_ROWS", 2)
    channel, old = closed(now, ATTEMPTS_MOST - 1), now - DUE_MOST
    for _ in range(5):
        waiting(channel, old)
    young, others = waiting(channel, old + SECOND), waiting(AlertChannelFactory(), old)
    Alert.objects.filter(pk=others.pk).update(attempt=1)
    sending = Sending(others.pk, 1, channel, {})
    with CaptureQueriesContext(connection) as asked:
        assert record_failure(sending, "500", now)
    writes = [query["sql"] for query in asked if "24 hours" in query["sql"]]
    assert len(writes) == 3
    failed = Alert.objects.filter(state="failed", next_at=None, error="its channel has not answered for 24 hours")
    assert failed.count() == 5
    assert Alert.objects.filter(state="waiting", pk__in=[young.pk, others.pk]).count() == 2


def test_after_a_day_on_which_nobody_sent_the_first_failure_gives_nothing_up(now):
    channel = closed(now, ATTEMPTS_MOST - 2)
    for _ in range(2):
        waiting(channel, now - DUE_MOST)
    assert record_failure(claim_alert(now), "500", now)
    assert set(Alert.objects.values_list("state", flat=True)) == {"waiting"}


def test_a_failure_changes_nothing_that_waits_behind_it(now):
    channel = AlertChannelFactory()
    waiting(channel, now)
    later = [waiting(channel, now + SECOND).pk, waiting(channel, now + HOUR, held="snoozed").pk]
    before = list(Alert.objects.filter(pk__in=later).order_by("pk").values())
    assert record_failure(claim_alert(now), "500", now)
    assert list(Alert.objects.filter(pk__in=later).order_by("pk").values()) == before


def test_who_asks_whether_it_answers_again_is_the_next_to_be_sent(now):
    channel = closed(now + HOUR)
    waiting(channel, now - HOUR)
    test = check_channel(channel.pk, now, SYSTEM, None)
    assert claim_alert(now).alert_id == test
    assert claim_alert(now) is None


def test_what_waits_for_a_closed_channel_that_is_deleted_is_dropped_at_once(now):
    channel = AlertChannelFactory(failures=1, closed_until=now + HOUR, error="500")
    alert = AlertFactory(rule=None, channel=channel, tenant="default", event="test", cause="test:1", next_at=now)
    delete_channel(channel.pk, now, SYSTEM, None)
    assert claim_alert(now) is None
    alert.refresh_from_db()
    assert (alert.state, state_of(channel)) == ("dropped", (0, None))


def test_a_sender_that_lost_its_alert_says_nothing_about_the_channel(now):
    channel = AlertChannelFactory()
    waiting(channel, now)
    lost = claim_alert(now)
    assert claim_alert(now + LEASE) is not None
    assert not record_failure(lost, "500", now + LEASE)
    assert state_of(channel) == (0, None)
