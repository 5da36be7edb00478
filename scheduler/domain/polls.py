"""What a runner asks for and what the server knows once it has let the runner in, as values. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from uuid import UUID


@dataclass(frozen=True)
class PollRequest:
    """A poll as it was sent. ``instance_id`` empty: the one anonymous instance of that runner.

    ``listed`` maps each listed run to the text under which the runner listed it (the answer must use the same);
    ``unknown`` are listed texts that are no run's id. ``free`` is how many runs the answer may hold at most.
    """

    runner_id: str
    instance_id: str = ""
    capabilities: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    max_inflight: int = 1
    listed: Mapping[UUID, str] = field(default_factory=dict)
    unknown: tuple[str, ...] = ()
    free: int = 1

    @property
    def is_anonymous(self) -> bool:
        return not self.instance_id


@dataclass(frozen=True)
class OpenPoll:
    """A poll that was let in. ``holder_id`` is the instance that may claim for it; ``cancel`` the listed runs that it
    does not hold (any more); ``is_drained``: it waits as others do, and no run is looked for."""

    holder_id: int
    cancel: frozenset[UUID] = frozenset()
    is_drained: bool = False


@dataclass(frozen=True)
class Renewal:
    """A holder's wish to keep a run longer; ``attempt`` None: whichever it has."""

    run_id: UUID
    runner_id: str
    attempt: int | None = None
