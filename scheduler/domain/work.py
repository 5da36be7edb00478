"""What is said between a runner and the server, as values. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from uuid import UUID

HEAD_START = timedelta(seconds=2)
"""How much sooner a due run is seen by runners that have what its lane prefers than by all the others."""


@dataclass(frozen=True)
class Claimed:
    """A run that its holder now has. ``attempt`` is 1-based and fences what the holder says about it."""

    run_id: UUID
    job_id: int
    lane_id: int
    attempt: int
    holder_id: int
    available_at: datetime
    scheduled_for: datetime
    lease_seconds: float
    timeout_seconds: float
    metadata: dict | None  # the run's own; None: the job's only


@dataclass(frozen=True)
class Buried:
    """A due run whose attempts were used up: ended as dead instead of being handed out."""

    run_id: UUID
    job_id: int
    lane_id: int
    attempt: int


@dataclass(frozen=True)
class ClaimOutcome(Sequence):
    """What a claim did: the claimed runs, as a sequence; ``buried`` rides along, also when nothing was claimed."""

    claimed: tuple[Claimed, ...] = ()
    buried: tuple[Buried, ...] = ()

    def __len__(self) -> int:
        return len(self.claimed)

    def __getitem__(self, index):
        return self.claimed[index]

    def __iter__(self) -> Iterator[Claimed]:
        return iter(self.claimed)


@dataclass(frozen=True)
class Ask:
    """One poll's wish: at most ``limit`` runs for the instance ``holder_id``; never one of ``listed``."""

    holder_id: int
    limit: int
    listed: frozenset[UUID] = frozenset()


class LossCause(StrEnum):
    """Why a claim ended without a verdict."""

    LEASE = "lease"
    TAKEOVER = "takeover"
    LOST_ANSWER = "lost_answer"
    DISCONNECTED = "disconnected"  # the poll's connection was gone before the answer: no loss of an attempt


class AckStatus(StrEnum):
    SUCCESS = "success"
    FAILURE = "failure"


@dataclass(frozen=True)
class Ack:
    """A holder's verdict on a run. ``error`` is cleaned already; ``duration_ms`` as the runner measured it."""

    run_id: UUID
    attempt: int
    runner_id: str
    status: AckStatus
    error: str = ""
    duration_ms: int | None = None


class AckAnswer(StrEnum):
    """What became of an ack."""

    ACCEPTED = "accepted"
    REPEATED = "repeated"  # the same ack was accepted before: 200, nothing changes
    WOUND_DOWN = "wound_down"  # the run was final already; its slots and entry are gone now: 200
    STALE = "stale"  # not (or no longer) this runner's claim, or another verdict: 409 stale_claim
    UNKNOWN = "unknown"  # no such run: 404


@dataclass(frozen=True)
class LogLine:
    """One line from a handler; ``level``, ``message`` and ``fields`` are cleaned already."""

    message: str
    level: str = "info"
    fields: dict = field(default_factory=dict)
