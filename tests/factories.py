"""Rows for tests, valid by default: each factory makes what the services would have written.

Instants are those of `tests.conftest.NOW` unless given. A `QueueEntryFactory(claimed=True)` is held by an instance of
its own; `RunFactory` makes the permanent row alone, `QueueEntryFactory` the run with its entry.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from hashlib import sha256
from uuid import uuid4

import factory
from django.contrib.auth.models import User
from factory.django import DjangoModelFactory

from calendars.models import Calendar, CalendarRule
from croniq_site.kernel.ids import uuid7
from runners.models import (
    ApiClient,
    ApiKey,
    AuditCut,
    AuditEvent,
    Heartbeat,
    Outage,
    Preferences,
    Runner,
    RunnerInstance,
    SignInCount,
)
from scheduler.domain.actions import capabilities_for
from scheduler.models import (
    Alert,
    AlertChannel,
    AlertExemption,
    AlertRoute,
    AlertRule,
    Attempt,
    ConcurrencyGroup,
    DeadLetter,
    IdempotencyKey,
    Job,
    Lane,
    Maintenance,
    QueueEntry,
    Run,
    RunLog,
    SkippedSpan,
    Slot,
    Tally,
    Trigger,
)

NOW = datetime(2026, 3, 2, 12, 0, tzinfo=UTC)


def _route_of(lane: factory.builder.Resolver) -> str:
    return sha256(repr((sorted(lane.require), sorted(lane.prefer))).encode()).hexdigest()


class ApiClientFactory(DjangoModelFactory):
    class Meta:
        model = ApiClient

    name = factory.Sequence(lambda n: f"client-{n}")
    scopes = factory.LazyFunction(lambda: ["admin"])
    created_at = NOW


class ApiKeyFactory(DjangoModelFactory):
    class Meta:
        model = ApiKey

    client = factory.SubFactory(ApiClientFactory)
    prefix = "croniq_test0"
    digest = factory.Sequence(lambda n: sha256(str(n).encode()).hexdigest())
    created_at = NOW


class RunnerFactory(DjangoModelFactory):
    class Meta:
        model = Runner

    runner_id = factory.Sequence(lambda n: f"runner-{n}")
    client = factory.SubFactory(ApiClientFactory)
    created_at = NOW
    last_poll_at = NOW


class RunnerInstanceFactory(DjangoModelFactory):
    """The current instance of a runner; `deposed_at` makes it one that lost the identity."""

    class Meta:
        model = RunnerInstance

    runner = factory.SubFactory(RunnerFactory)
    instance_id = factory.Sequence(lambda n: f"instance-{n}")
    first_seen_at = NOW
    last_poll_at = NOW


class AuditEventFactory(DjangoModelFactory):
    class Meta:
        model = AuditEvent

    event_id = factory.LazyFunction(uuid4)
    created_at = NOW
    actor_type = "system"
    action = "test.happened"
    target_type = "test"
    target_id = "1"


class AuditCutFactory(DjangoModelFactory):
    class Meta:
        model = AuditCut

    until = NOW - timedelta(days=365)


class HeartbeatFactory(DjangoModelFactory):
    class Meta:
        model = Heartbeat

    process_id = factory.LazyFunction(uuid4)
    kind = "serve"
    host = "test"
    pid = 1
    started_at = NOW
    beat_at = NOW


class OutageFactory(DjangoModelFactory):
    """About ten minutes until NOW in which nobody served."""

    class Meta:
        model = Outage

    began_at = factory.Sequence(lambda n: NOW - timedelta(minutes=10, seconds=n))
    ended_at = NOW


class PreferencesFactory(DjangoModelFactory):
    class Meta:
        model = Preferences

    user = factory.Sequence(lambda n: User.objects.create(username=f"person {n}"))
    time_zone = "Europe/Vienna"


class SignInCountFactory(DjangoModelFactory):
    class Meta:
        model = SignInCount

    key = factory.Sequence(lambda n: f"address:{n}")
    began_at = NOW


class CalendarFactory(DjangoModelFactory):
    class Meta:
        model = Calendar

    name = factory.Sequence(lambda n: f"calendar-{n}")
    timezone = "UTC"
    created_at = NOW
    updated_at = NOW


class CalendarRuleFactory(DjangoModelFactory):
    class Meta:
        model = CalendarRule

    calendar = factory.SubFactory(CalendarFactory)
    effect = "include"


class LaneFactory(DjangoModelFactory):
    """The one lane of (tenant, require, prefer, priority): asked twice, it gives the same row."""

    class Meta:
        model = Lane
        django_get_or_create = ("tenant", "route", "priority")

    tenant = "default"
    require = factory.LazyFunction(list)
    prefer = factory.LazyFunction(list)
    priority = 0
    route = factory.LazyAttribute(_route_of)


class ConcurrencyGroupFactory(DjangoModelFactory):
    class Meta:
        model = ConcurrencyGroup

    name = factory.Sequence(lambda n: f"group-{n}")
    max_concurrent = 1


class JobFactory(DjangoModelFactory):
    class Meta:
        model = Job

    job_key = factory.Sequence(lambda n: f"test:job-{n}")
    action = factory.LazyFunction(dict)
    lane = factory.SubFactory(
        LaneFactory, prefer=factory.LazyAttribute(lambda lane: capabilities_for(lane.factory_parent.action))
    )
    created_at = NOW
    updated_at = NOW


class TriggerFactory(DjangoModelFactory):
    """Every minute from NOW, its cursor at NOW."""

    class Meta:
        model = Trigger

    job = factory.SubFactory(JobFactory)
    kind = "interval"
    every = timedelta(minutes=1)
    anchor_at = NOW
    cursor_at = NOW
    next_materialize_at = NOW
    created_at = NOW
    updated_at = NOW


class RunFactory(DjangoModelFactory):
    """A run without its entry; each has a second of its own, so that scheduled runs of one job do not collide."""

    class Meta:
        model = Run

    id = factory.LazyFunction(lambda: uuid7(NOW))
    job = factory.SubFactory(JobFactory)
    kind = "scheduled"
    scheduled_for = factory.Sequence(lambda n: NOW - timedelta(days=1) + timedelta(milliseconds=n))
    occurrence_at = factory.SelfAttribute("scheduled_for")
    created_at = NOW - timedelta(hours=1)

    class Params:
        completed = factory.Trait(
            verdict="completed", attempt=1, runner_id="runner", claimed_at=NOW, finished_at=NOW, duration_ms=0
        )
        dead = factory.Trait(
            verdict="dead", problem="dead", attempt=1, runner_id="runner", claimed_at=NOW, finished_at=NOW
        )


class QueueEntryFactory(DjangoModelFactory):
    """An unfinished run with its entry: ready and due at NOW, or `claimed=True` / `stopping=True` since NOW.

    Rules come from the job. `run__…` and `job__…` reach the rows behind it, `holder=` names the instance.
    """

    class Meta:
        model = QueueEntry

    job = factory.SubFactory(JobFactory)
    run = factory.SubFactory(RunFactory, job=factory.SelfAttribute("..job"))
    lane = factory.SelfAttribute("job.lane")
    available_at = NOW
    max_attempts = factory.LazyAttribute(lambda entry: entry.job.max_retries + 1)
    max_losses = factory.SelfAttribute("job.max_losses")
    lease_seconds = factory.SelfAttribute("job.lease_seconds")
    timeout_seconds = factory.SelfAttribute("job.timeout_seconds")

    class Params:
        held = factory.Trait(
            attempt=1,
            holder=factory.SubFactory(RunnerInstanceFactory),
            claimed_at=NOW,
            lease_expires_at=factory.LazyAttribute(lambda entry: NOW + timedelta(seconds=entry.lease_seconds)),
            deadline_at=factory.LazyAttribute(lambda entry: NOW + timedelta(seconds=entry.timeout_seconds)),
        )
        claimed = factory.Trait(held=True, state=QueueEntry.State.CLAIMED)
        # A stopping entry's run has its verdict already.
        stopping = factory.Trait(
            held=True,
            state=QueueEntry.State.STOPPING,
            run__verdict="cancelled",
            run__problem="cancelled",
            run__finished_at=NOW,
            run__attempt=1,
            run__claimed_at=NOW,
            run__runner_id=factory.SelfAttribute("..holder.runner.runner_id"),
        )


class SlotFactory(DjangoModelFactory):
    class Meta:
        model = Slot

    run = factory.SubFactory(RunFactory)
    budget = factory.LazyAttribute(lambda slot: f"job:{slot.run.job_id}")
    n = 0
    admitted_at = NOW


class AttemptFactory(DjangoModelFactory):
    class Meta:
        model = Attempt

    run = factory.SubFactory(RunFactory)
    attempt = 1
    outcome = "failed"
    runner_id = "runner"
    claimed_at = NOW
    ended_at = NOW


class SkippedSpanFactory(DjangoModelFactory):
    class Meta:
        model = SkippedSpan

    job = factory.SubFactory(JobFactory)
    first_at = NOW
    last_at = NOW
    count = 1
    reason = "paused"
    recorded_at = NOW


class IdempotencyKeyFactory(DjangoModelFactory):
    class Meta:
        model = IdempotencyKey

    job = factory.SubFactory(JobFactory)
    key = factory.Sequence(lambda n: f"key-{n}")
    run = factory.SubFactory(RunFactory, job=factory.SelfAttribute("..job"), kind="triggered")
    created_at = NOW
    expires_at = NOW + timedelta(minutes=10)


class DeadLetterFactory(DjangoModelFactory):
    class Meta:
        model = DeadLetter

    id = factory.LazyFunction(lambda: uuid7(NOW))
    run = factory.SubFactory(RunFactory, job=factory.SelfAttribute("..job"), dead=True)
    job = factory.SubFactory(JobFactory)
    attempt = 1
    dead_reason = "retries_exhausted"
    scheduled_for = factory.SelfAttribute("run.scheduled_for")
    fire_at = factory.SelfAttribute("run.scheduled_for")
    created_at = NOW
    expires_at = NOW + timedelta(days=30)


class MaintenanceFactory(DjangoModelFactory):
    """One that is over."""

    class Meta:
        model = Maintenance

    is_on = False
    began_at = NOW - timedelta(hours=1)
    ended_at = factory.LazyAttribute(lambda maintenance: None if maintenance.is_on else NOW)


class RunLogFactory(DjangoModelFactory):
    class Meta:
        model = RunLog

    run = factory.SubFactory(RunFactory)
    attempt = 1
    logged_at = NOW
    level = "info"
    message = "hello"


class TallyFactory(DjangoModelFactory):
    class Meta:
        model = Tally

    kind = "takeover"
    count = 1


class AlertChannelFactory(DjangoModelFactory):
    class Meta:
        model = AlertChannel

    tenant = "default"
    name = factory.Sequence(lambda n: f"channel-{n}")
    kind = "webhook"
    target = "https://hooks.example.org/services/key"
    secret = "a secret"
    created_at = NOW


class AlertRuleFactory(DjangoModelFactory):
    class Meta:
        model = AlertRule
        skip_postgeneration_save = True

    tenant = "default"
    name = factory.Sequence(lambda n: f"rule-{n}")
    kind = "failed"
    created_at = NOW

    @factory.post_generation
    def channel(rule, create, extracted, **fields):
        """The channel that it tells; made, with the fields said, unless one is given. Several: a list."""
        given = extracted if isinstance(extracted, list) else [extracted or AlertChannelFactory(**fields)]
        for channel in given:
            AlertRouteFactory(rule=rule, channel=channel)


class AlertRouteFactory(DjangoModelFactory):
    """One more channel of a rule."""

    class Meta:
        model = AlertRoute

    rule = factory.SubFactory(AlertRuleFactory)
    channel = factory.SubFactory(AlertChannelFactory)


def channel_of(rule: AlertRule) -> AlertChannel:
    return AlertChannel.objects.get(routes__rule=rule)


class AlertExemptionFactory(DjangoModelFactory):
    """A snooze of every rule of the tenant, for an hour."""

    class Meta:
        model = AlertExemption

    tenant = "default"
    effect = "snooze"
    note = "the database is being moved"
    created_by = "user:vera"
    created_at = NOW
    until = NOW + timedelta(hours=1)


class AlertFactory(DjangoModelFactory):
    """One that waits to be sent."""

    class Meta:
        model = Alert

    id = factory.LazyFunction(lambda: uuid7(NOW))
    rule = factory.SubFactory(AlertRuleFactory)
    channel = factory.LazyAttribute(lambda alert: channel_of(alert.rule))
    tenant = "default"
    event = "failed"
    cause = factory.Sequence(lambda n: f"run:{n}")
    job_key = "demo:job"
    created_at = NOW
    next_at = NOW
