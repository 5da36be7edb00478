"""Each index is used by the query that its comment in the model names."""

from __future__ import annotations

import re
from datetime import timedelta

import pytest
from django.apps import apps
from django.db import connection, models

from tests import factories as make
from tests.factories import NOW
from tests.schema.plans import forget_size, plan_of

pytestmark = pytest.mark.django_db

OURS = ("scheduler", "runners", "calendars")

QUERIES = {
    "alert_to_send": (
        "SELECT * FROM scheduler_alert WHERE channel_id = 1 AND next_at <= @INSTANT ORDER BY next_at LIMIT 1"
    ),
    "alert_exemption_in_effect": ("SELECT * FROM scheduler_alertexemption WHERE ended_at IS NULL AND until > @INSTANT"),
    "alert_open": "SELECT * FROM scheduler_alert WHERE rule_id = 1 AND ended_at IS NULL",
    "alert_by_job": "SELECT id FROM scheduler_alert WHERE rule_id = 1 AND job_key = 'a:b' AND began_at > @INSTANT",
    "audit_by_time": "SELECT * FROM runners_auditevent ORDER BY created_at DESC, id DESC LIMIT 100",
    "audit_by_target": (
        "SELECT * FROM runners_auditevent WHERE target_type = 'run' AND target_id = '1' ORDER BY id DESC LIMIT 100"
    ),
    "audit_by_history": "SELECT * FROM runners_auditevent WHERE history = 'job/1' ORDER BY id DESC LIMIT 100",
    "audit_by_action": "SELECT count(*) FROM runners_auditevent WHERE action = 'run.lost'",
    "sign_in_count_by_time": "SELECT * FROM runners_signincount WHERE began_at <= @INSTANT",
    "heartbeat_by_kind": "SELECT max(beat_at) FROM runners_heartbeat WHERE kind = 'serve'",
    "runner_by_last_poll": "SELECT * FROM runners_runner WHERE last_poll_at < @INSTANT",
    "instance_deposed_by_time": (
        "SELECT id FROM runners_runnerinstance WHERE deposed_at IS NOT NULL AND deposed_at < @INSTANT "
        "ORDER BY deposed_at LIMIT 10"
    ),
    "instance_by_deposed_at": (
        "SELECT count(*) FROM runners_runnerinstance "
        "WHERE runner_id = 1 AND deposed_at IS NOT NULL AND deposed_at > @INSTANT"
    ),
    "calendar_rule_by_position": "SELECT * FROM calendars_calendarrule WHERE calendar_id = 1 ORDER BY position",
    "job_by_tenant": (
        "SELECT * FROM scheduler_job WHERE tenant = 'default' AND deleted_at IS NULL ORDER BY job_key LIMIT 100"
    ),
    "queue_entry_claimable": (
        "SELECT run_id FROM scheduler_queueentry WHERE state = 0 AND lane_id = 1 AND available_at <= @INSTANT "
        "ORDER BY available_at, run_id LIMIT 10"
    ),
    "queue_entry_by_lease": (
        "SELECT run_id FROM scheduler_queueentry WHERE state IN (3, 4) AND lease_expires_at <= @INSTANT "
        "ORDER BY lease_expires_at LIMIT 10"
    ),
    "queue_entry_by_deadline": (
        "SELECT run_id FROM scheduler_queueentry WHERE state = 3 AND deadline_at <= @INSTANT "
        "ORDER BY deadline_at LIMIT 10"
    ),
    "queue_entry_by_holder": "SELECT run_id FROM scheduler_queueentry WHERE holder_id = 1 AND state IN (3, 4)",
    "queue_entry_gated": (
        "SELECT min(available_at) FROM scheduler_queueentry WHERE state = 1 AND lane_id = 1 AND available_at > @INSTANT"
    ),
    "slot_by_age": "SELECT run_id FROM scheduler_slot WHERE admitted_at <= @INSTANT",
    "queue_entry_waiting": (
        "SELECT count(*) FROM scheduler_queueentry WHERE job_id = 1 AND state IN (0, 1, 2) AND available_at <= @INSTANT"
    ),
    "run_by_time": "SELECT * FROM scheduler_run ORDER BY scheduled_for DESC, id DESC LIMIT 100",
    "run_by_job": "SELECT * FROM scheduler_run WHERE job_id = 1 ORDER BY scheduled_for DESC, id DESC LIMIT 100",
    "run_by_problem": (
        "SELECT * FROM scheduler_run WHERE problem = 'dead' ORDER BY scheduled_for DESC, id DESC LIMIT 100"
    ),
    "run_by_job_and_problem": (
        "SELECT scheduled_for FROM scheduler_run WHERE job_id = 1 AND problem = 'dead' "
        "ORDER BY scheduled_for DESC, id DESC LIMIT 100"
    ),
    "attempt_lost_by_cause": "SELECT count(*) FROM scheduler_attempt WHERE outcome = 'lost' AND cause = 'lease'",
    "skipped_span_by_job": "SELECT * FROM scheduler_skippedspan WHERE job_id = 1 ORDER BY first_at DESC LIMIT 10",
    "trigger_to_materialize": (
        "SELECT * FROM scheduler_trigger WHERE enabled AND next_materialize_at IS NOT NULL "
        "AND next_materialize_at <= @INSTANT ORDER BY next_materialize_at LIMIT 10"
    ),
    "idempotency_key_by_expiry": "SELECT id FROM scheduler_idempotencykey WHERE expires_at <= @INSTANT",
    "dead_letter_by_time": "SELECT * FROM scheduler_deadletter ORDER BY created_at DESC, id DESC LIMIT 100",
    "dead_letter_by_job": (
        "SELECT * FROM scheduler_deadletter WHERE job_id = 1 ORDER BY created_at DESC, id DESC LIMIT 100"
    ),
    "dead_letter_by_fingerprint": (
        "SELECT * FROM scheduler_deadletter WHERE fingerprint = 'exit code <n>' "
        "ORDER BY created_at DESC, id DESC LIMIT 50"
    ),
    "dead_letter_by_expiry": (
        "SELECT id FROM scheduler_deadletter WHERE expires_at IS NOT NULL AND expires_at <= @INSTANT"
    ),
    "run_log_by_run": "SELECT * FROM scheduler_runlog WHERE run_id = @RUN AND id > 5 ORDER BY id LIMIT 100",
}
"""Index → the query it is there for, with literal states: SQLite uses a partial index only where it can read them."""

LOOKED_UP = {
    "sign_in_count_one_per_key": "SELECT * FROM runners_signincount WHERE key = 'x'",
    "api_key_one_per_digest": "SELECT * FROM runners_apikey WHERE digest = 'x'",
    "instance_one_per_id": "SELECT * FROM runners_runnerinstance WHERE runner_id = 1 AND instance_id = 'x'",
    "instance_one_current_per_runner": (
        "SELECT * FROM runners_runnerinstance WHERE runner_id = 1 AND deposed_at IS NULL"
    ),
    "calendar_one_per_name": "SELECT * FROM calendars_calendar WHERE tenant = 'default' AND name = 'x'",
    "lane_one_per_route": "SELECT * FROM scheduler_lane WHERE tenant = 'default' AND route = 'x' AND priority = 0",
    "job_one_live_per_key": "SELECT * FROM scheduler_job WHERE job_key = 'a:b' AND deleted_at IS NULL",
    "run_one_per_occurrence": (
        "SELECT id FROM scheduler_run WHERE job_id = 1 AND kind = 'scheduled' AND scheduled_for = @INSTANT"
    ),
    "attempt_one_per_number": "SELECT * FROM scheduler_attempt WHERE run_id = @RUN ORDER BY attempt",
    "slot_one_run_per_number": "SELECT n FROM scheduler_slot WHERE budget = 'job:1' ORDER BY n",
    "slot_one_per_run_and_budget": "SELECT id FROM scheduler_slot WHERE run_id = @RUN",
    "idempotency_key_one_run": "SELECT run_id FROM scheduler_idempotencykey WHERE job_id = 1 AND key = 'x'",
    "runner_one_owner_per_id": "SELECT * FROM runners_runner WHERE runner_id = 'x'",
    "trigger_one_registered_per_job": "SELECT * FROM scheduler_trigger WHERE job_id = 1 AND managed_by = 'runner'",
}
"""Unique constraints that also serve a look-up."""


def our_models() -> list[type[models.Model]]:
    return [model for app in OURS for model in apps.get_app_config(app).get_models()]


def test_every_index_is_in_the_table():
    assert {index.name for model in our_models() for index in model._meta.indexes} == set(QUERIES)


def test_what_is_looked_up_by_is_a_unique_constraint():
    unique = {
        constraint.name
        for model in our_models()
        for constraint in model._meta.constraints
        if isinstance(constraint, models.UniqueConstraint)
    }
    assert set(LOOKED_UP) <= unique


@pytest.mark.parametrize("name", [*QUERIES, *LOOKED_UP])
def test_the_query_of_an_index_uses_it(name):
    query = (QUERIES | LOOKED_UP)[name]
    table = re.search(r"FROM (\w+)", query)[1]
    forget_size(table)
    if name in FILLED:
        FILLED[name]()
        with connection.cursor() as cursor:
            cursor.execute(f"ANALYZE {table}")
    plan = plan_of(written(query))
    assert any(f"{start}{known}" in plan for known in names_of(name) for start in ("INDEX ", "using ")), plan
    # In the order asked for, not sorted afterwards.
    assert "TEMP B-TREE" not in plan
    assert "Sort" not in plan


def many_instances() -> None:
    runner = make.RunnerFactory(pk=1)
    make.RunnerInstance.objects.bulk_create(
        make.RunnerInstance(
            runner=runner,
            instance_id=str(n),
            first_seen_at=NOW,
            last_poll_at=NOW,
            deposed_at=NOW - timedelta(days=n),
        )
        for n in range(1000)
    )


def many_jobs_of_another_tenant() -> None:
    job = make.JobFactory()
    make.Job.objects.bulk_create(
        make.Job(job_key=f"a:{n}", tenant="other", lane=job.lane, created_at=NOW, updated_at=NOW) for n in range(1000)
    )


def many_alerts_that_are_over() -> None:
    rule = make.AlertRuleFactory(pk=1)
    channel = make.channel_of(rule)
    make.Alert.objects.bulk_create(
        make.AlertFactory.build(rule=rule, channel=channel, ended_at=NOW) for _ in range(1000)
    )


def many_alerts_of_a_rule() -> None:
    rule = make.AlertRuleFactory(pk=1)
    channel = make.channel_of(rule)
    make.Alert.objects.bulk_create(
        make.AlertFactory.build(rule=rule, channel=channel, job_key=f"a:{n}", began_at=NOW) for n in range(1000)
    )


FILLED = {
    "alert_by_job": many_alerts_of_a_rule,
    "alert_open": many_alerts_that_are_over,
    "instance_by_deposed_at": many_instances,
    "job_by_tenant": many_jobs_of_another_tenant,
}
"""Where another index would do as well for an empty table."""


def written(query: str) -> str:
    """Write the literals as this database keeps them."""
    as_text = {
        "sqlite": ("2026-03-01 12:00:00", "00000000000070008000000000000000"),
        "postgresql": ("2026-03-01 12:00:00+00", "00000000-0000-7000-8000-000000000000"),
    }[connection.vendor]
    return query.replace("@INSTANT", f"'{as_text[0]}'").replace("@RUN", f"'{as_text[1]}'")


def names_of(name: str) -> list[str]:
    """Return the names that the index may have: SQLite names those of unconditional unique constraints itself."""
    if connection.vendor != "sqlite" or name in QUERIES:
        return [name]
    (model, constraint) = next(
        (model, one) for model in our_models() for one in model._meta.constraints if one.name == name
    )
    columns = [model._meta.get_field(field).column for field in constraint.fields]
    with connection.cursor() as cursor:
        cursor.execute("SELECT name FROM pragma_index_list(%s) WHERE origin = 'u'", [model._meta.db_table])
        automatic = [found for (found,) in cursor.fetchall()]
        names = [name]
        for found in automatic:
            cursor.execute("SELECT name FROM pragma_index_info(%s) ORDER BY seqno", [found])
            if [column for (column,) in cursor.fetchall()] == columns:
                names.append(found)
    return names


def test_no_index_of_the_runs_names_a_column_that_success_changes(database):
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT sql FROM sqlite_master WHERE type = 'index' AND tbl_name = 'scheduler_run'"
            if database == "sqlite"
            else "SELECT indexdef FROM pg_indexes WHERE tablename = 'scheduler_run'"
        )
        texts = " ".join(text or "" for (text,) in cursor.fetchall())
    words = set(re.findall(r"\w+", texts))
    assert {"scheduled_for", "problem", "kind"} <= words
    assert not words & {"verdict", "attempt", "runner_id", "claimed_at", "finished_at", "duration_ms", "error"}
