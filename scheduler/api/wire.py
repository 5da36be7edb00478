"""Rows as the wire says them: instants RFC 3339 in UTC with microseconds, durations in seconds with their unit."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, time
from typing import Any

from calendars.models import Calendar, CalendarRule
from scheduler.domain.inputs import public_metadata
from scheduler.domain.words import lacking_words
from scheduler.models import ConcurrencyGroup, Job, Trigger
from scheduler.queries.jobs import JobState
from scheduler.queries.letters import LetterRow
from scheduler.queries.logs import LogRow
from scheduler.queries.runners import RunnerRow
from scheduler.queries.runs import AttemptRow, RunDetail, RunRow

Body = dict[str, Any]


def instant(value: datetime | None) -> str | None:
    if value is None:
        return None
    return value.astimezone(UTC).isoformat(timespec="microseconds").removesuffix("+00:00") + "Z"


def duration(seconds: float | None) -> str | None:
    """Return ``"300s"`` or ``"0.5s"``: one number, one unit, never an exponent."""
    if seconds is None:
        return None
    text = f"{seconds:.6f}".rstrip("0").rstrip(".")
    return f"{text}s"


def wall_time(value: time | None) -> str | None:
    return None if value is None else value.strftime("%H:%M" if not value.second else "%H:%M:%S")


def job_body(job: Job) -> Body:
    return {
        "job_key": job.job_key,
        "tenant": job.tenant,
        "description": job.description,
        "metadata": public_metadata(job.metadata),
        "action": job.action or None,
        "tags": job.tags,
        "managed_by": job.managed_by,
        "timeout": duration(job.timeout_seconds),
        "lease": duration(job.lease_seconds),
        "max_retries": job.max_retries,
        "max_losses": job.max_losses,
        "retry": {
            "strategy": job.retry_strategy,
            "base": duration(job.retry_base_seconds),
            "step": duration(job.retry_step_seconds),
            "cap": duration(job.retry_cap_seconds),
            "jitter": job.retry_jitter,
        },
        "require": job.require,
        "prefer": job.prefer,
        "pin": job.pin or None,
        "priority": job.priority,
        "max_concurrent": job.max_concurrent,
        "concurrency_group": job.concurrency_group.name if job.concurrency_group else None,
        "overlap": job.overlap,
        "coalesce": job.coalesce,
        "max_queue_depth": job.max_queue_depth,
        "queue_ttl": duration(job.queue_ttl_seconds),
        "catch_up": job.catch_up,
        "misfire_grace": duration(job.misfire_grace_seconds),
        "max_catch_up": job.max_catch_up,
        "dead_letter_enabled": job.dead_letter_enabled,
        "dead_letter_retention": duration(job.dead_letter_retention_seconds),
        "dead_letter_operator_hint": job.dead_letter_operator_hint,
        "dead_letter_replay_max_age": duration(job.dead_letter_replay_max_age_seconds),
        "is_active": job.is_active,
        **pause_of(job),
        "created_at": instant(job.created_at),
        "updated_at": instant(job.updated_at),
    }


def pause_of(job: Job) -> Body:
    return {
        "paused_at": instant(job.paused_at),
        "paused_until": instant(job.paused_until),
        "paused_reason": job.paused_reason,
    }


def group_body(group: ConcurrencyGroup) -> Body:
    return {"name": group.name, "tenant": group.tenant, "max_concurrent": group.max_concurrent}


SDK_RENEWS_SAFELY_SECONDS = 45
"""The SDKs renew every 15 s by default: a lease of three of these outlives a renewal that fails."""


def saved_job_body(job: Job, lacking: Iterable[str] = ()) -> Body:
    """One job as a write answers it: with what the writer should think about. ``lacking``: what no live runner has."""
    warnings = [lacking_words(name) for name in lacking]
    if job.lease_seconds < SDK_RENEWS_SAFELY_SECONDS and not job.action:
        warnings.append(
            f"A lease of {duration(job.lease_seconds)} is short: SDK runners renew every 15 s unless told otherwise, "
            "and a run whose lease ends is given to another runner."
        )
    return {**job_body(job), "warnings": warnings}


def job_state_body(state: JobState) -> Body:
    return {
        "job_key": state.job_key,
        "status": state.status,
        "paused_until": instant(state.paused_until),
        "paused_reason": state.paused_reason,
        "next_fire_at": instant(state.next_fire_at),
        "last_fired_at": instant(state.last_fired_at),
        "fire_count": state.fire_count,
        "overdue": state.overdue,
        "config_error": state.config_error or None,
    }


def schedule_body(trigger: Trigger) -> Body:
    """One trigger; its job and calendar must have been selected with it."""
    window = None
    if trigger.window_start is not None or trigger.window_end is not None:
        window = {"start": wall_time(trigger.window_start), "end": wall_time(trigger.window_end)}
    return {
        "trigger_id": str(trigger.id),
        "job_key": trigger.job.job_key,
        "cron_expression": trigger.cron_expression or None,
        "every": None if trigger.every is None else duration(trigger.every.total_seconds()),
        "anchor": instant(trigger.anchor_at),
        "run_at": instant(trigger.run_at),
        "timezone": trigger.timezone or None,
        "calendar": trigger.calendar.name if trigger.calendar else None,
        "on_blocked": trigger.on_blocked,
        "window": window,
        "not_before": instant(trigger.not_before),
        "not_after": instant(trigger.not_after),
        "enabled": trigger.enabled,
        "managed_by": trigger.managed_by,
        "config_error": trigger.config_error or None,
        "created_at": instant(trigger.created_at),
        "updated_at": instant(trigger.updated_at),
    }


def calendar_body(calendar: Calendar) -> Body:
    """One calendar with its rules, which must have been prefetched."""
    return {
        "id": calendar.pk,
        "name": calendar.name,
        "tenant": calendar.tenant,
        "timezone": calendar.timezone,
        "description": calendar.description,
        "rules": [_rule_body(rule) for rule in calendar.rules.all()],
        "managed_by": calendar.managed_by,
        "created_at": instant(calendar.created_at),
        "updated_at": instant(calendar.updated_at),
    }


def _rule_body(rule: CalendarRule) -> Body:
    return {
        "effect": rule.effect,
        "name": rule.name,
        "weekdays": rule.weekdays,
        "month_days": rule.month_days,
        "yearly_dates": rule.yearly_dates,
        "dates": rule.dates,
        "range_start": rule.range_start and rule.range_start.isoformat(),
        "range_end": rule.range_end and rule.range_end.isoformat(),
        "window_start": wall_time(rule.window_start),
        "window_end": wall_time(rule.window_end),
        "holiday_country": rule.holiday_country,
        "holiday_subdivision": rule.holiday_subdivision,
        "holiday_categories": rule.holiday_categories,
        "holiday_observed": rule.holiday_observed,
    }


def execution_body(run: RunRow) -> Body:
    return {
        "id": str(run.id),
        "job_key": run.job_key,
        "state": run.state,
        "attempt": run.attempt,
        "scheduled_for": instant(run.scheduled_for),
        "fire_at": instant(run.fire_at),
        "runner_id": run.runner_id or None,
        "claimed_at": instant(run.claimed_at),
        "completed_at": instant(run.completed_at),
        "duration_ms": run.duration_ms,
        "error": run.error or None,
        "created_at": instant(run.created_at),
    }


def execution_detail_body(detail: RunDetail) -> Body:
    return {
        **execution_body(detail.row),
        "kind": detail.row.kind,
        "reason": detail.row.reason or None,
        "replay_of": None if detail.replay_of is None else str(detail.replay_of),
        "occurrence_at": instant(detail.occurrence_at),
        "metadata": public_metadata(detail.metadata),
        "attempts": [_attempt_body(attempt) for attempt in detail.attempts],
    }


def _attempt_body(attempt: AttemptRow) -> Body:
    return {
        "attempt": attempt.attempt,
        "outcome": attempt.outcome,
        "cause": attempt.cause or None,
        "runner_id": attempt.runner_id or None,
        "claimed_at": instant(attempt.claimed_at),
        "ended_at": instant(attempt.ended_at),
        "duration_ms": attempt.duration_ms,
        "error": attempt.error or None,
    }


def log_body(line: LogRow) -> Body:
    return {
        "id": line.id,
        "execution_id": str(line.run_id),
        "timestamp": instant(line.logged_at),
        "level": line.level,
        "message": line.message,
        "fields": line.fields,
        "attempt": line.attempt,
    }


def runner_body(runner: RunnerRow) -> Body:
    return {
        "runner_id": runner.runner_id,
        "status": runner.status,
        "capabilities": runner.capabilities,
        "tags": runner.tags,
        "max_inflight": runner.max_inflight,
        "inflight": runner.inflight,
        "last_poll_at": instant(runner.last_poll_at),
        "takeovers": runner.takeovers,
        "flapping": runner.flapping,
        "drained_at": instant(runner.drained_at),
        "drain_reason": runner.drain_reason,
    }


def letter_body(letter: LetterRow) -> Body:
    return {
        "id": str(letter.id),
        "execution_id": str(letter.run_id),
        "job_key": letter.job_key,
        "error": letter.error or None,
        "attempt": letter.attempt,
        "dead_reason": letter.dead_reason,
        "scheduled_for": instant(letter.scheduled_for),
        "fire_at": instant(letter.fire_at),
        "metadata": public_metadata(letter.metadata),
        "created_at": instant(letter.created_at),
        "expires_at": instant(letter.expires_at),
        "replayed_as": None if letter.replayed_as is None else str(letter.replayed_as),
    }
