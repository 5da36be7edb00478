"""What a rule tells of is of its tenant and of what is there; what it finds at once, and may say, has bounds."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.db import OperationalError

from croniq_site.kernel.errors import Conflict, InvalidInput
from runners.services.audit import SYSTEM
from scheduler.models import Alert, AlertExemption, AlertRule
from scheduler.queries.alert_conditions import conditions
from scheduler.queries.alert_exemptions import exemptions_at
from scheduler.services.alerts import exemptions, watch
from scheduler.services.alerts.definitions import check_channel, delete_rule
from scheduler.services.alerts.digest import week_of
from scheduler.services.alerts.exemptions import make_exemption
from tests.factories import (
    AlertChannelFactory,
    AlertExemptionFactory,
    AlertFactory,
    AlertRuleFactory,
    DeadLetterFactory,
    JobFactory,
    LaneFactory,
    QueueEntryFactory,
    RunFactory,
)

pytestmark = pytest.mark.django_db

MINUTE, HOUR, DAY = timedelta(minutes=1), timedelta(hours=1), timedelta(days=1)


def late(now, **job) -> None:
    QueueEntryFactory(available_at=now - HOUR, **{f"job__{name}": value for name, value in job.items()})


def slow(now, **job) -> None:
    QueueEntryFactory(claimed=True, claimed_at=now - HOUR, **{f"job__{name}": value for name, value in job.items()})


def dead(now, **job) -> None:
    DeadLetterFactory(job=JobFactory(**job))


def lacking(now, **job) -> None:
    lane = LaneFactory(require=[job["job_key"]], tenant=job.get("tenant", "default"))
    JobFactory(lane=lane, created_at=now - DAY, **job)


KINDS = [("missed", late), ("overran", slow), ("dead_letters", dead), ("no_runner", lacking)]


@pytest.mark.parametrize(("kind", "make"), KINDS, ids=[kind for kind, _ in KINDS])
def test_a_rule_is_of_the_jobs_of_its_tenant_that_are_there(now, kind, make):
    rule = AlertRuleFactory(kind=kind, created_at=now - DAY, expected_within_seconds=60, threshold=1)
    make(now, job_key="a:theirs", tenant="other")
    make(now, job_key="a:gone", deleted_at=now)
    if kind in ("missed", "no_runner"):
        make(now, job_key="a:off", is_active=False)
        make(now, job_key="a:paused", paused_at=now)
    assert conditions(rule, now, exemptions_at(now)) == {}
    make(now, job_key="a:ours")
    (seen,) = conditions(rule, now, exemptions_at(now)).values()
    assert "a:ours" in (seen.job_key, *seen.detail.get("jobs", ()))


def test_a_week_is_of_one_tenant(now):
    for tenant in ("default", "other"):
        job = JobFactory(job_key=f"{tenant}:job", tenant=tenant)
        letter, _ = DeadLetterFactory(job=job), DeadLetterFactory(job=job)
        RunFactory(job=job, kind="replay", replay_of=letter.run)  # it is dealt with
        AlertFactory(tenant=tenant, rule=AlertRuleFactory(tenant=tenant, channel__tenant=tenant))
    week = week_of("default", now - DAY, now + DAY)
    assert (week["dead_letters"], week["alerts"]) == (1, {"waiting": 1})


def test_a_success_of_another_tenants_job_of_that_name_ends_no_failure(now):
    detail = {"execution_id": "x", "scheduled_for": now.isoformat()}
    alert = AlertFactory(rule=AlertRuleFactory(created_at=now - DAY), job_key="a:b", detail=detail)
    job = JobFactory(job_key="a:b", tenant="other")
    RunFactory(job=job, completed=True, scheduled_for=now + MINUTE, finished_at=now + MINUTE)
    watch.watch(now + 2 * MINUTE)
    alert.refresh_from_db()
    assert (alert.ended_at, Alert.objects.count()) == (None, 1)


def test_while_a_rule_is_switched_off_no_end_is_told(now):
    AlertRuleFactory(kind="overran", created_at=now - DAY, expected_within_seconds=60)
    entry = QueueEntryFactory(claimed=True)
    watch.watch(now + 2 * MINUTE)
    AlertExemptionFactory(effect="disable", created_at=now)
    entry.delete()
    watch.watch(now + 3 * MINUTE)
    assert [(alert.event, alert.ended_at) for alert in Alert.objects.all()] == [("overran", None)]


def test_a_test_of_a_channel_is_of_its_tenant(now):
    channel = AlertChannelFactory(tenant="other")
    check_channel(channel.pk, now, SYSTEM, None)
    assert Alert.objects.get().tenant == "other"


def test_what_goes_on_is_over_when_its_rule_is_deleted(now):
    alert = AlertFactory(rule=AlertRuleFactory(kind="overran"), event="overran", cause="overran:x:1")
    delete_rule(alert.rule_id, now, SYSTEM, None)
    alert.refresh_from_db()
    assert alert.ended_at == now


# Bounds


def test_of_many_things_that_begin_at_once_so_many_begin_in_one_look(now, monkeypatch):
    monkeypatch.setattr(watch, "BEGUN_MOST", 2)
    AlertRuleFactory(kind="overran", created_at=now - DAY, expected_within_seconds=60)
    for _ in range(3):
        QueueEntryFactory(claimed=True)
    assert [watch.watch(now + minutes * MINUTE) for minutes in (2, 3, 4)] == [2, 1, 0]


def test_one_pass_looks_for_so_many_rules_and_the_next_for_the_others(now):
    for _ in range(3):
        AlertRuleFactory(kind="flapping")
    for number in (2, 3):
        watch.watch(now, limit=2)
        assert AlertRule.objects.filter(looked_at=now).count() == number


def test_deleted_rules_keep_no_other_one_from_being_looked_for(now):
    AlertRuleFactory(kind="flapping", deleted_at=now)
    AlertRuleFactory(kind="flapping", looked_at=now - HOUR)
    watch.watch(now, limit=1)
    assert AlertRule.objects.filter(looked_at=now, deleted_at=None).count() == 1


def test_a_database_that_is_away_is_no_fault_of_a_rule(now, monkeypatch):
    AlertRuleFactory(kind="flapping")

    def away(*arguments):
        raise OperationalError("the server closed the connection")

    monkeypatch.setattr(watch, "look", away)
    with pytest.raises(OperationalError):
        watch.watch(now)


def test_what_is_about_no_job_is_exempted_only_with_all_jobs(now):
    rule = AlertRuleFactory(kind="scheduler_silent")
    AlertExemptionFactory(job_glob="a:*")
    assert exemptions_at(now).snoozed_until(rule, "") is None
    AlertExemptionFactory(job_glob="*", until=now + HOUR)
    assert exemptions_at(now).snoozed_until(rule, "") == now + HOUR


def test_of_two_overrides_the_newer_one_holds(now):
    rule = AlertRuleFactory()
    for seconds in (60, 90):
        AlertExemptionFactory(effect="override", throttle_seconds=seconds, grace_seconds=seconds)
    found = exemptions_at(now)
    assert found.throttle_of(rule, "a:b") == found.grace_of(rule, "a:b") == timedelta(seconds=90)


SNOOZE = {"effect": "snooze", "duration": "1h", "note": "why"}


def test_so_many_exemptions_of_a_tenant_are_in_effect_at_once(now, monkeypatch):
    monkeypatch.setattr(exemptions, "LIVE_MOST", 1)
    AlertExemptionFactory(tenant="other")
    AlertExemptionFactory(created_at=now - HOUR, until=now)
    AlertExemptionFactory(ended_at=now)
    make_exemption(SNOOZE, now, SYSTEM, "default")
    with pytest.raises(Conflict, match="1 are in effect"):
        make_exemption(SNOOZE, now, SYSTEM, "default")
    assert AlertExemption.objects.count() == 4


def test_a_rule_that_was_deleted_is_not_exempted(now):
    AlertRuleFactory(name="night", deleted_at=now)
    with pytest.raises(InvalidInput) as refused:
        make_exemption({**SNOOZE, "rule": "night"}, now, SYSTEM, "default")
    assert list(refused.value.fields) == ["rule"]
