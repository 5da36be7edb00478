"""Lanes are interned: the same tenant, route and priority is the same row, for ever."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable

from django.db.models import Exists, OuterRef

from croniq_site.kernel.errors import InvalidInput
from scheduler.domain.actions import capabilities_for
from scheduler.domain.job_fields import PIN_PREFIX
from scheduler.models import Job, Lane, QueueEntry
from scheduler.services.wake import wake

LANES_PER_TENANT = 1000
"""A claim looks into each lane that its runner satisfies; a caller that invents capabilities must not make it slow."""


def lane_for(tenant: str, require: Iterable[str], prefer: Iterable[str], priority: int, pin: str = "") -> Lane:
    """Return the lane, made if it is new. Safe in any number at once. Refuses (``require``) a tenant's 1,001st in use.

    A new lane is made known to the servers when the caller's transaction commits.
    """
    required = sorted({*require, *([PIN_PREFIX + pin] if pin else [])})
    preferred = sorted(set(prefer) - set(required))
    identity = {"tenant": tenant, "route": route_of(required, preferred), "priority": priority}
    lane = Lane.objects.filter(**identity).first()
    if lane is not None:
        return lane
    if Lane.objects.filter(tenant=tenant).count() >= LANES_PER_TENANT <= _lanes_in_use(tenant):
        raise InvalidInput.of(
            "require",
            f"The tenant has {LANES_PER_TENANT} different routes already (require, prefer, pin, priority); use one of "
            "them.",
        )
    # Of two that make it at once the database lets one through; the other reads the winner's.
    Lane.objects.bulk_create([Lane(**identity, require=required, prefer=preferred)], ignore_conflicts=True)
    lane = Lane.objects.get(**identity)
    wake([lane.pk])
    return lane


def _lanes_in_use(tenant: str) -> int:
    # Routes of jobs that are gone (a pin to a machine of last year) must not keep new ones out for ever.
    jobs = Job.objects.filter(lane=OuterRef("pk"), deleted_at__isnull=True)
    entries = QueueEntry.objects.filter(lane=OuterRef("pk"))
    return Lane.objects.filter(Exists(jobs) | Exists(entries), tenant=tenant).count()


def lane_of(job: Job, require: Iterable[str] = (), prefer: Iterable[str] = ()) -> Lane:
    """Return the lane of a job's runs; ``require`` and ``prefer`` are a trigger's own, which replace the job's.

    What executes its action is preferred for a job that has one: whoever has only handlers would fail it.
    """
    implied = capabilities_for(job.action)
    return lane_for(job.tenant, require or job.require, [*(prefer or job.prefer), *implied], job.priority, job.pin)


def route_of(require: list[str], prefer: list[str]) -> str:
    """SHA-256, hexadecimal, of the canonical JSON of the two sorted lists."""
    return hashlib.sha256(json.dumps([require, prefer]).encode()).hexdigest()
