"""Each named constraint refuses the row that it is there to refuse, on both databases; and no neighbour of it."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import timedelta

import pytest
from django.apps import apps
from django.db import IntegrityError, connection, models, transaction

from scheduler.models import QueueEntry
from tests import factories as make
from tests.factories import NOW

pytestmark = pytest.mark.django_db

OURS = ("scheduler", "runners", "calendars")
SECOND = timedelta(seconds=1)


def twice(factory, **same) -> Callable[[], None]:
    def offend():
        factory(**same)
        factory(**same)

    return offend


def once(factory, **row) -> Callable[[], None]:
    return lambda: factory(**row)


def with_parent(parent_factory, field: str, factory, **same) -> Callable[[], None]:
    """Two equal children of one parent."""

    def offend():
        parent = parent_factory()
        for _ in range(2):
            factory(**{field: parent}, **same)

    return offend


def plain_lanes():
    for _ in range(2):
        make.Lane.objects.create(tenant="default", route="r", priority=0)


def twice_routed():
    rule = make.AlertRuleFactory()
    make.AlertRouteFactory(rule=rule, channel=make.channel_of(rule))


def two_replays():
    original = make.RunFactory(dead=True)
    for _ in range(2):
        make.RunFactory(kind="replay", replay_of=original)


def one_occurrence_twice():
    job = make.JobFactory()
    for _ in range(2):
        make.RunFactory(job=job, scheduled_for=NOW)


HELD = {"holder": None, "claimed_at": None, "lease_expires_at": None, "deadline_at": None}

OFFENCES: dict[str, list[Callable[[], None]]] = {
    "api_client_one_per_name": [twice(make.ApiClientFactory, name="x")],
    "sign_in_count_one_per_key": [twice(make.SignInCountFactory, key="x")],
    "api_key_one_per_digest": [twice(make.ApiKeyFactory, digest="a" * 64)],
    "api_key_digest_is_sha256": [once(make.ApiKeyFactory, digest="a" * 63), once(make.ApiKeyFactory, digest="")],
    "heartbeat_has_kind": [once(make.HeartbeatFactory, kind="")],
    "outage_one_per_beginning": [twice(make.OutageFactory, began_at=NOW)],
    "runner_one_owner_per_id": [twice(make.RunnerFactory, runner_id="x")],
    "instance_one_per_id": [
        with_parent(make.RunnerFactory, "runner", make.RunnerInstanceFactory, instance_id="x", deposed_at=NOW)
    ],
    "instance_one_current_per_runner": [with_parent(make.RunnerFactory, "runner", make.RunnerInstanceFactory)],
    "calendar_one_per_name": [twice(make.CalendarFactory, name="x")],
    "calendar_rule_effect_is_known": [once(make.CalendarRuleFactory, effect="maybe")],
    "calendar_rule_range_is_forward": [
        once(make.CalendarRuleFactory, range_start="2026-01-02", range_end="2026-01-01")
    ],
    "calendar_rule_window_is_whole": [
        once(make.CalendarRuleFactory, window_start="09:00"),
        once(make.CalendarRuleFactory, window_end="09:00"),
    ],
    "lane_one_per_route": [plain_lanes],
    "alert_channel_one_live_per_name": [twice(make.AlertChannelFactory, name="x")],
    "alert_channel_closed_while_it_fails": [
        once(make.AlertChannelFactory, failures=1),
        once(make.AlertChannelFactory, closed_until=NOW),
    ],
    "alert_rule_one_live_per_name": [twice(make.AlertRuleFactory, name="x")],
    "alert_exemption_says_why": [once(make.AlertExemptionFactory, note="")],
    "alert_exemption_ends": [once(make.AlertExemptionFactory, until=NOW)],
    "alert_route_once": [twice_routed],
    "alert_one_per_cause": [with_parent(make.AlertRuleFactory, "rule", make.AlertFactory, cause="failed:1")],
    "alert_waits_until_its_outcome": [
        once(make.AlertFactory, next_at=None),
        once(make.AlertFactory, finished_at=NOW),
        once(make.AlertFactory, state="delivered", finished_at=NOW),
        once(make.AlertFactory, state="delivered", next_at=None),
        once(make.AlertFactory, state="lost"),
    ],
    "group_one_per_name": [twice(make.ConcurrencyGroupFactory, name="x")],
    "group_limit_is_positive": [once(make.ConcurrencyGroupFactory, max_concurrent=0)],
    "job_one_live_per_key": [twice(make.JobFactory, job_key="a:b"), twice(make.JobFactory, job_key="a:b", tenant="x")],
    "job_timeout_is_positive": [once(make.JobFactory, timeout_seconds=0), once(make.JobFactory, timeout_seconds=-1)],
    "job_lease_is_at_least_5s": [once(make.JobFactory, lease_seconds=4.99)],
    "job_retry_jitter_is_a_share": [once(make.JobFactory, retry_jitter=-0.1), once(make.JobFactory, retry_jitter=1.1)],
    "job_limit_is_positive": [once(make.JobFactory, max_concurrent=0)],
    "job_overlap_is_known": [once(make.JobFactory, overlap="maybe")],
    "job_catch_up_is_known": [once(make.JobFactory, catch_up="maybe")],
    "queue_entry_held_or_waiting": [
        *(once(make.QueueEntryFactory, claimed=True, **{field: None}) for field in list(HELD)[:3]),
        *(once(make.QueueEntryFactory, stopping=True, **{field: None}) for field in ("claimed_at", "lease_expires_at")),
        once(make.QueueEntryFactory, claimed=True, attempt=0),
        *(
            once(make.QueueEntryFactory, claimed=True, **{**HELD, field: NOW, "state": state})
            for field in ("claimed_at", "lease_expires_at", "deadline_at")
            for state in (QueueEntry.State.READY, QueueEntry.State.GATED, QueueEntry.State.HELD)
        ),
        lambda: make.QueueEntryFactory(holder=make.RunnerInstanceFactory()),
        once(make.QueueEntryFactory, state=5),
    ],
    "slot_one_run_per_number": [twice(make.SlotFactory, budget="x", n=0)],
    "slot_one_per_run_and_budget": [
        lambda: [make.SlotFactory(run=run, budget="x", n=n) for run in [make.RunFactory()] for n in range(2)]
    ],
    "idempotency_key_one_run": [with_parent(make.JobFactory, "job", make.IdempotencyKeyFactory, key="x")],
    "run_one_per_occurrence": [one_occurrence_twice],
    "run_one_replay_per_letter": [two_replays],
    "run_problem_repeats_verdict": [
        once(make.RunFactory, problem="dead"),
        once(make.RunFactory, finished_at=NOW),
        once(make.RunFactory, verdict="completed"),
        once(make.RunFactory, verdict="completed", problem="completed", finished_at=NOW),
        once(make.RunFactory, verdict="dead", finished_at=NOW),
        once(make.RunFactory, verdict="dead", problem="failed", finished_at=NOW),
        once(make.RunFactory, verdict="dead", problem="dead"),
        once(make.RunFactory, verdict="maybe", problem="maybe", finished_at=NOW),
    ],
    "maintenance_one_at_a_time": [twice(make.MaintenanceFactory, is_on=True)],
    "maintenance_on_until_ended": [
        once(make.MaintenanceFactory, is_on=True, ended_at=NOW),
        once(make.MaintenanceFactory, is_on=False, ended_at=None),
    ],
    "maintenance_is_forward": [once(make.MaintenanceFactory, began_at=NOW, until=NOW - SECOND)],
    "attempt_one_per_number": [with_parent(make.RunFactory, "run", make.AttemptFactory)],
    "skipped_span_is_forward": [once(make.SkippedSpanFactory, last_at=NOW - SECOND)],
    "skipped_span_is_not_empty": [once(make.SkippedSpanFactory, count=0)],
    "tally_counts_something": [once(make.TallyFactory, count=0)],
    "trigger_has_its_schedule_only": [
        once(make.TriggerFactory, kind="cron"),
        once(make.TriggerFactory, kind="cron", every=None),
        once(make.TriggerFactory, kind="cron", cron_expression="* * * * *"),
        once(make.TriggerFactory, kind="cron", cron_expression="* * * * *", every=None, run_at=NOW),
        once(make.TriggerFactory, every=None),
        once(make.TriggerFactory, anchor_at=None),
        once(make.TriggerFactory, run_at=NOW),
        once(make.TriggerFactory, cron_expression="* * * * *"),
        once(make.TriggerFactory, kind="once", every=None),
        once(make.TriggerFactory, kind="once", run_at=NOW),
        once(make.TriggerFactory, kind="once", every=None, run_at=NOW, cron_expression="* * * * *"),
        once(make.TriggerFactory, kind="maybe"),
    ],
    "trigger_on_blocked_is_known": [once(make.TriggerFactory, on_blocked="maybe")],
    "trigger_bounds_are_forward": [once(make.TriggerFactory, not_before=NOW, not_after=NOW - SECOND)],
    "trigger_one_registered_per_job": [with_parent(make.JobFactory, "job", make.TriggerFactory, managed_by="runner")],
}


def constraints() -> dict[str, tuple[type[models.Model], models.BaseConstraint]]:
    found = {}
    for app in OURS:
        for model in apps.get_app_config(app).get_models():
            for constraint in model._meta.constraints:
                found[constraint.name] = (model, constraint)
    return found


def test_every_constraint_is_in_the_table():
    assert set(constraints()) == set(OFFENCES)


def refusal_of(name: str) -> str:
    """What the database says; SQLite names the columns of a unique constraint instead of the constraint."""
    model, constraint = constraints()[name]
    if connection.vendor == "sqlite" and isinstance(constraint, models.UniqueConstraint):
        table = model._meta.db_table
        columns = [f"{table}.{model._meta.get_field(field).column}" for field in constraint.fields]
        return re.escape(f"UNIQUE constraint failed: {', '.join(columns)}") + "$"
    return rf"\b{name}\b"


@pytest.mark.parametrize(
    ("name", "offence"),
    [(name, offence) for name, offences in OFFENCES.items() for offence in offences],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_constraint_refuses(name, offence):
    with pytest.raises(IntegrityError, match=refusal_of(name)), transaction.atomic():
        offence()


def replays_of_two_letters():
    make.RunFactory(kind="replay", replay_of=make.RunFactory(dead=True))
    make.RunFactory(kind="replay", replay_of=make.RunFactory(dead=True))


def a_deleted_job_and_its_successor():
    make.JobFactory(job_key="a:b", deleted_at=NOW)
    make.JobFactory(job_key="a:b", deleted_at=NOW)
    make.JobFactory(job_key="a:b")


def triggered_at_one_instant():
    job = make.JobFactory()
    for kind in ("scheduled", "triggered", "triggered", "replay"):
        make.RunFactory(job=job, kind=kind, scheduled_for=NOW)


def two_triggers_of_the_api_and_one_of_a_runner():
    job = make.JobFactory()
    for managed_by in ("api", "api", "runner"):
        make.TriggerFactory(job=job, managed_by=managed_by)


def one_instance_after_the_other():
    runner = make.RunnerFactory()
    for deposed_at in (NOW, NOW, None):
        make.RunnerInstanceFactory(runner=runner, deposed_at=deposed_at)


ALLOWED = [
    replays_of_two_letters,
    a_deleted_job_and_its_successor,
    triggered_at_one_instant,
    two_triggers_of_the_api_and_one_of_a_runner,
    one_instance_after_the_other,
    once(make.JobFactory, lease_seconds=5, retry_jitter=1, max_concurrent=1),
    once(make.TriggerFactory, not_before=NOW, not_after=NOW),
    once(make.TriggerFactory, kind="cron", every=None, anchor_at=None, cron_expression="* * * * *"),
    once(make.TriggerFactory, kind="once", every=None, anchor_at=None, run_at=NOW),
    once(
        make.CalendarRuleFactory,
        range_start="2026-01-01",
        range_end="2026-01-01",
        window_start="22:00",
        window_end="6:00",
    ),
    once(make.QueueEntryFactory, state=QueueEntry.State.GATED),
    once(make.QueueEntryFactory, state=QueueEntry.State.HELD, attempt=3),
]


@pytest.mark.parametrize("neighbour", ALLOWED, ids=lambda fn: fn.__name__)
def test_a_neighbour_of_the_offence_is_allowed(neighbour):
    neighbour()
