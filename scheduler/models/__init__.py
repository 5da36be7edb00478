from scheduler.models.alerts import Alert, AlertChannel, AlertExemption, AlertRoute, AlertRule
from scheduler.models.job import ConcurrencyGroup, Job, Lane
from scheduler.models.maintenance import Maintenance
from scheduler.models.queue import QueueEntry, Slot
from scheduler.models.records import DeadLetter, IdempotencyKey, RunLog
from scheduler.models.run import Attempt, Run, SkippedSpan
from scheduler.models.tally import Tally
from scheduler.models.trigger import Trigger

__all__ = [
    "Alert",
    "AlertChannel",
    "AlertExemption",
    "AlertRoute",
    "AlertRule",
    "Attempt",
    "ConcurrencyGroup",
    "DeadLetter",
    "IdempotencyKey",
    "Job",
    "Lane",
    "Maintenance",
    "QueueEntry",
    "Run",
    "RunLog",
    "SkippedSpan",
    "Slot",
    "Tally",
    "Trigger",
]
