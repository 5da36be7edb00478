"""A channel over which nobody hears anything is told wherever somebody looks, with the same numbers."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.contrib.auth.models import Permission

from croniq_site.kernel.clock import ManualClock
from scheduler.domain.alerts import pause_after
from scheduler.models import Alert, AlertChannel
from scheduler.queries import silent_channels
from scheduler.queries.diagnostics import diagnostics
from scheduler.queries.silent_channels import FAILURES_TOLD, channel_sentences
from scheduler.queries.situation import situation
from scheduler.services.alerts.deliver import deliver_next
from scheduler.sql.gauges import SilentChannel
from tests.factories import AlertChannelFactory, AlertFactory, AlertRuleFactory, HeartbeatFactory
from tests.scheduler.dashboard.conftest import client_of, person
from tests.scheduler.dashboard.markup import Page
from tests.scheduler.metrics.scrapes import scraped
from tests.support.receivers import webhook

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("clock")]

SECOND = timedelta(seconds=1)
TITLE = "Alert channels that do not answer"


@pytest.fixture(autouse=True)
def processes(now):
    for kind in ("serve", "materialize", "reap"):
        HeartbeatFactory(kind=kind, beat_at=now, tick_at=now)


@pytest.fixture
def viewer():
    return client_of(person("vera", "viewer"))


def numbers() -> tuple[float | None, float | None]:
    scrape = scraped()
    return scrape.value("croniq_alerts_waiting"), scrape.value("croniq_alert_channels_failing")


def silent(channel: str, failures: int = FAILURES_TOLD, tenant: str = "default", **fields) -> AlertChannel:
    return AlertChannelFactory(name=channel, failures=failures, tenant=tenant, **fields)


def test_a_channel_that_has_not_answered_for_a_minute_is_told_everywhere(viewer, now):
    with webhook() as receiver:
        receiver.status = 500
        rule = AlertRuleFactory(channel__target=receiver.url, channel__name="ops")
        first = AlertFactory(rule=rule, created_at=now - 9 * SECOND)
        AlertFactory(rule=rule, next_at=now + SECOND)
        at = now
        for failures in range(1, FAILURES_TOLD):
            assert deliver_next(ManualClock(at))
            assert numbers() == (2, 0)
            assert diagnostics(now, "1").problems == []
            assert TITLE not in Page(viewer.get("/now")).text
            at += pause_after(failures)
        assert deliver_next(ManualClock(at))
        assert at - now > 60 * SECOND
        assert numbers() == (2, 1)
        (problem,) = diagnostics(now, "1").problems
        assert problem == (
            f"The alert channel ops of default has not answered {FAILURES_TOLD} attempts. "
            "Alerts that wait for it: 2, the oldest since 2026-03-02T11:59:51+00:00."
        )
        page = Page(viewer.get("/now"))
        assert f"{TITLE} 1" in page.text
        assert "ops 2 alerts wait for it, the oldest since 2026-03-02 11:59:51 UTC" in page.text
        assert not situation(now).is_quiet
        assert page.links("/alerts?") == ["/alerts?tenant=default"]
        receiver.status = 204
        at += pause_after(FAILURES_TOLD)
        while deliver_next(ManualClock(at)):
            pass
    first.refresh_from_db()
    assert (first.state, numbers()) == ("delivered", (0, 0))
    assert diagnostics(now, "1").problems == []
    assert TITLE not in Page(viewer.get("/now")).text
    assert situation(now).is_quiet


def test_what_has_its_outcome_or_is_held_back_on_purpose_waits_for_nobody(viewer, now):
    rule = AlertRuleFactory(channel=silent("ops", closed_until=now))
    AlertFactory(rule=rule, state="delivered", next_at=None, finished_at=now)
    AlertFactory(rule=rule, held="snoozed", next_at=now + SECOND)
    silent("gone", closed_until=now, deleted_at=now)
    assert numbers() == (0, 1)
    assert diagnostics(now, "1").problems == [
        f"The alert channel ops of default has not answered {FAILURES_TOLD} attempts. No alert waits for it."
    ]
    text = Page(viewer.get("/now")).text
    assert f"{TITLE} 1" in text
    assert "No alert waits for it." in text
    Alert.objects.filter(held="snoozed").update(held="")
    assert numbers() == (1, 1)
    assert "1 alert waits for it, since" in Page(viewer.get("/now")).text


def test_each_tenants_channel_is_told_with_what_waits_for_it(viewer, now):
    for tenant, waiting in (("acme", 2), ("default", 1)):
        rule = AlertRuleFactory(tenant=tenant, channel=silent("ops", tenant=tenant, closed_until=now))
        AlertFactory.create_batch(waiting, rule=rule, tenant=tenant)
    told = diagnostics(now, "1").problems
    assert [("of acme" in one, "wait for it: 2" in one) for one in told] == [(True, True), (False, False)]
    page = Page(viewer.get("/now"))
    assert "ops acme 2 alerts wait for it" in page.text
    assert page.links("/alerts?") == ["/alerts?tenant=acme", "/alerts?tenant=default"]


def test_who_may_not_see_alerts_is_told_of_no_channel(now):
    silent("ops", closed_until=now)
    kim = person("kim")
    kim.user_permissions.set(Permission.objects.filter(codename="view_job"))
    page = Page(client_of(kim).get("/now"))
    assert TITLE not in page.text
    kim.user_permissions.add(Permission.objects.get(codename="view_alert"))
    assert TITLE in Page(client_of(kim).get("/now")).text


def test_of_many_channels_some_are_named_and_the_others_counted(monkeypatch):
    monkeypatch.setattr(silent_channels, "MOST_NAMED", 2)
    channels = [SilentChannel("default", f"c{number}", 5, 0, None) for number in range(5)]
    told = list(channel_sentences(channels))
    assert len(told) == 3
    assert told[2] == "3 more alert channels do not answer."
