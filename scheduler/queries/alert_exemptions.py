"""What somebody has said for a time about what rules tell."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from scheduler.domain.alerts import matches
from scheduler.models import AlertExemption, AlertRule

Effect = AlertExemption.Effect


@dataclass(frozen=True)
class Exemptions:
    """Those in effect at an instant, the newest first: of two overrides the newer one holds."""

    rows: Sequence[AlertExemption]

    def is_disabled(self, rule: AlertRule, job_key: str) -> bool:
        return any(True for _ in self._of(Effect.DISABLE, rule, job_key))

    def snoozed_until(self, rule: AlertRule, job_key: str) -> datetime | None:
        return max((row.until for row in self._of(Effect.SNOOZE, rule, job_key)), default=None)

    def throttle_of(self, rule: AlertRule, job_key: str) -> timedelta:
        said = (row.throttle_seconds for row in self._of(Effect.OVERRIDE, rule, job_key))
        return timedelta(seconds=next((s for s in said if s is not None), rule.throttle_seconds))

    def grace_of(self, rule: AlertRule, job_key: str) -> timedelta:
        said = (row.grace_seconds for row in self._of(Effect.OVERRIDE, rule, job_key))
        return timedelta(seconds=next((s for s in said if s is not None), rule.grace_seconds))

    def shortest_grace(self, rule: AlertRule) -> timedelta:
        """No job's is shorter."""
        said = [row.grace_seconds for row in self.rows if _is_of(row, rule)]
        return timedelta(seconds=min([s for s in said if s is not None] + [rule.grace_seconds]))

    def _of(self, effect: str, rule: AlertRule, job_key: str):
        for row in self.rows:
            # What is about no job is exempted only together with all jobs.
            is_meant = matches(row.job_glob, job_key) if job_key else row.job_glob == "*"
            if row.effect == effect and _is_of(row, rule) and is_meant:
                yield row


def _is_of(row: AlertExemption, rule: AlertRule) -> bool:
    return row.tenant == rule.tenant and row.rule_id in (None, rule.pk)


def exemptions_at(now: datetime) -> Exemptions:
    """One query."""
    rows = AlertExemption.objects.filter(ended_at__isnull=True, until__gt=now)
    return Exemptions(list(rows.order_by("-pk")))
