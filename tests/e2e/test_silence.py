"""The materializer alone is killed: its silence is told once, and so is its return, whoever of two reapers finds it.
A reaper is killed while a receiver has what it sends: it is sent again, with the same id."""

from __future__ import annotations

import json
import signal

import pytest

from croniq_site.kernel.clock import DatabaseClock, ManualClock
from runners.models import Heartbeat
from scheduler.models import Alert
from scheduler.services.alerts.deliver import LEASE, deliver_next
from tests.e2e.installation import PATIENCE_SECONDS, installation
from tests.factories import AlertChannelFactory, AlertFactory, AlertRuleFactory
from tests.support.polling import poll_until
from tests.support.receivers import webhook

pytestmark = [pytest.mark.realtime, pytest.mark.django_db(transaction=True), pytest.mark.timeout(300)]


def test_a_killed_materializer_is_told_once_and_so_is_its_return():
    with webhook() as hook, installation(("reap --interval 0.5", "reap --interval 0.5"), serve=False) as site:
        hook.status = 500  # the first attempt is in vain
        materializer = site.start("materialize", "--interval", "0.5")
        ticked = Heartbeat.objects.filter(kind="materialize", tick_at__isnull=False)
        poll_until(ticked.exists, PATIENCE_SECONDS, what="a pass of the materializer")
        site.stop(materializer, signal.SIGKILL)
        rule = AlertRuleFactory(
            kind="scheduler_silent",
            grace_seconds=2,
            created_at=DatabaseClock().now(),
            channel=AlertChannelFactory(target=hook.url),
        )

        def events() -> list[str]:
            return [json.loads(body)["event"] for _, body in hook.seen]

        poll_until(lambda: events() == ["silent"], PATIENCE_SECONDS, what="the alert of the silence")
        hook.status = 204
        silence = Alert.objects.get(rule=rule)
        assert (silence.created_at - ticked.latest("tick_at").tick_at).total_seconds() >= 2
        # Longer than two seconds from now on: a slow start is a silence of its own else.
        type(rule).objects.filter(pk=rule.pk).update(grace_seconds=600)
        site.start("materialize", "--interval", "0.5")
        delivered = Alert.objects.filter(rule=rule, state="delivered")
        poll_until(lambda: delivered.count() == 2, PATIENCE_SECONDS, what="both deliveries")
        told = list(zip(hook.ids, events(), strict=True))
        hook.status = 0  # it has the request, and its sender does not know
        taken = AlertFactory(rule=None, channel=silence.channel, event="test", cause="test:1")
        poll_until(lambda: hook.ids[-1] == str(taken.pk), PATIENCE_SECONDS, what="the request of who is killed")
        for sender in site.processes[:2]:
            site.stop(sender, signal.SIGKILL)
        hook.status = 204
        taken.refresh_from_db()
        assert not deliver_next(ManualClock(taken.began_at))
        assert deliver_next(ManualClock(taken.began_at + LEASE))
        taken.refresh_from_db()
        assert (taken.state, taken.attempt, hook.ids[len(told) :]) == ("delivered", 2, [str(taken.pk)] * 2)
    lasting = Alert.objects.filter(rule=rule)
    assert sorted({event for _, event in told}) == ["recovered", "silent"]
    assert sorted(set(told)) == sorted((str(alert.pk), alert.event) for alert in lasting)
    assert (len(told), sorted(alert.attempt for alert in lasting)) == (3, [1, 2])
