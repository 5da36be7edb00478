"""What retention would throw away now, counted; nothing is locked or changed."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta

from django.conf import settings
from django.contrib.sessions.models import Session
from django.db.models import Exists, OuterRef

from runners.models import AuditEvent, Heartbeat, Runner, RunnerInstance
from scheduler.models import AlertExemption, DeadLetter, IdempotencyKey, Job, QueueEntry, Run, RunLog, SkippedSpan, Slot
from scheduler.services.alerts.causes import KEPT as ALERTS_KEPT
from scheduler.services.alerts.causes import over_and_said
from scheduler.services.newest import beyond_newest
from scheduler.services.retention import DEPOSED_KEPT, HEARTBEATS_KEPT


def prunable(now: datetime, kind: str) -> int:
    """Count one of `KINDS`, as if it were the first to go: a run that is only kept by a letter or a replay which goes
    now is not counted; it goes with the next round. Lines that go with their run are not counted as lines."""
    return KINDS[kind](now)


def _older(rows, field: str, seconds: float, now: datetime) -> int:
    return rows.filter(**{f"{field}__lt": now - timedelta(seconds=seconds)}).count() if seconds > 0 else 0


def _old_runs(now: datetime) -> int:
    seconds = settings.CRONIQ_RUN_RETENTION_SECONDS
    ended = Run.objects.filter(
        ~Exists(QueueEntry.objects.filter(run=OuterRef("pk"))),
        ~Exists(DeadLetter.objects.filter(run=OuterRef("pk"))),
        ~Exists(Slot.objects.filter(run=OuterRef("pk"))),
        ~Exists(Run.objects.filter(replay_of=OuterRef("pk"))),
        verdict__isnull=False,
        scheduled_for__lt=now - timedelta(seconds=seconds),
    )
    return _older(ended, "finished_at", seconds, now)


def _beyond_newest(now: datetime) -> int:
    kept = settings.CRONIQ_KEEP_RUNS
    if kept is None:
        return 0
    jobs = Job.objects.order_by("pk").values_list("pk", flat=True)
    return sum(beyond_newest(job_id, kept, now).count() for job_id in jobs.iterator())


def _unheld_instances(now: datetime) -> int:
    held = QueueEntry.objects.filter(holder=OuterRef("pk"), state__in=_HELD)
    return RunnerInstance.objects.filter(~Exists(held), deposed_at__lt=now - DEPOSED_KEPT).count()


def _dead_runners(now: datetime) -> int:
    dead = Runner.objects.filter(
        ~Exists(QueueEntry.objects.filter(holder__runner=OuterRef("pk"), state__in=_HELD)),
        ~Exists(RunnerInstance.objects.filter(runner=OuterRef("pk"), deposed_at__gte=now - DEPOSED_KEPT)),
    )
    return _older(dead, "last_poll_at", settings.CRONIQ_RUNNER_RETENTION_SECONDS, now)


def _old_heartbeats(now: datetime) -> int:
    later = Heartbeat.objects.filter(kind=OuterRef("kind"), beat_at__gt=OuterRef("beat_at"))
    return Heartbeat.objects.filter(Exists(later), beat_at__lt=now - HEARTBEATS_KEPT).count()


def _keys(now: datetime) -> int:
    return IdempotencyKey.objects.filter(expires_at__lte=now, run__verdict__isnull=False).count()


def _letters(now: datetime) -> int:
    return DeadLetter.objects.filter(expires_at__lte=now).count()


def _events(now: datetime) -> int:
    seconds = settings.CRONIQ_AUDIT_RETENTION_SECONDS
    until = (now - timedelta(seconds=seconds)).replace(hour=0, minute=0, second=0, microsecond=0)
    return AuditEvent.objects.filter(created_at__lt=until).count() if seconds > 0 else 0


def _lines(now: datetime) -> int:
    return _older(RunLog.objects, "logged_at", settings.CRONIQ_LOG_RETENTION_SECONDS, now)


def _spans(now: datetime) -> int:
    return _older(SkippedSpan.objects, "recorded_at", settings.CRONIQ_RUN_RETENTION_SECONDS, now)


def _sessions(now: datetime) -> int:
    return Session.objects.filter(expire_date__lt=now).count()


def _alerts(now: datetime) -> int:
    exemptions = AlertExemption.objects.filter(until__lt=now - ALERTS_KEPT).count()
    return over_and_said().filter(created_at__lt=now - ALERTS_KEPT).count() + exemptions


_HELD = (QueueEntry.State.CLAIMED, QueueEntry.State.STOPPING)
# In the names and the order of the reaper's chores.
KINDS: dict[str, Callable[[datetime], int]] = {
    "idempotency_keys": _keys,
    "dead_letters": _letters,
    "log_lines": _lines,
    "runs": _old_runs,
    "newest_runs": _beyond_newest,
    "gaps": _spans,
    "audit": _events,
    "instances": _unheld_instances,
    "runners": _dead_runners,
    "heartbeats": _old_heartbeats,
    "sessions": _sessions,
    "alerts": _alerts,
}
