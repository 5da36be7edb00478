"""Who was let in a moment ago and holds nothing: he is let in again without a look at the database."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from uuid import UUID

from scheduler.domain.polls import OpenPoll, PollRequest
from scheduler.services.wake import Ids

FRESH_SECONDS = 1.0
"""How long after a look in the database a runner is let in without another. It bounds all that a lost signal can cost,
and `last_poll_at` is written down by the looks."""
KNOWN_SECONDS = 60.0
"""How long it is let in before the look that it is due: that one is made within `FRESH_SECONDS`, for all who came
meanwhile at once. Two thousand runners that wait come back seventy times a second."""
MOST_SEATS = 50_000


@dataclass
class Seat:
    """An instance as a look found it. ``held`` is all that it may hold: what it listed then and what was claimed for it
    here since, without what it has ended by an ack that was accepted here. Too much in it costs a look and no more."""

    request: PollRequest
    holder_id: int
    looked_at: float
    held: set[UUID] = field(default_factory=set)


class Presence:
    """The instances whose newest poll is at this server. Used in the event loop's thread only.

    An instance that was deposed, or whose claims somebody else ended, or that went to another server, is forgotten with
    the signal that says so. What is here is never the right to a run: the claim looks at the instance again.
    """

    def __init__(self, fresh_seconds: float = FRESH_SECONDS, known_seconds: float = KNOWN_SECONDS) -> None:
        self._fresh_seconds, self._known_seconds = fresh_seconds, known_seconds
        self._seats: dict[tuple[int, str], Seat] = {}
        self._by_holder: dict[int, tuple[int, str]] = {}
        self._unseen: dict[int, PollRequest] = {}

    def let_in(self, client_id: int, request: PollRequest) -> OpenPoll | None:
        """Return what a look would: for an instance that is as it was, that lists nothing and that has nothing it could
        have lost. None: look."""
        seat = self._seats.get((client_id, request.runner_id))
        if seat is None or seat.held or request.listed or request.unknown:
            return None
        age = time.monotonic() - seat.looked_at
        if age >= self._known_seconds or not _is_same(seat.request, request):
            return None
        if age >= self._fresh_seconds:
            self._unseen[seat.holder_id] = request
        return OpenPoll(seat.holder_id)

    @property
    def has_unseen(self) -> bool:
        return bool(self._unseen)

    def take_unseen(self) -> dict[int, PollRequest]:
        """Return, by holder, the polls that were let in before the look that they are due: it is the caller's now."""
        taken, self._unseen = self._unseen, {}
        return taken

    def seen(self, holder_ids: Iterable[int], at: float) -> None:
        """A look that began at ``at`` found that these are still current."""
        for holder_id in holder_ids:
            key = self._by_holder.get(holder_id)
            if key is not None:
                self._seats[key].looked_at = at

    def looked(self, client_id: int, request: PollRequest, opened: OpenPoll, at: float) -> None:
        """A look that began at ``at`` let this poll in. One that is drained is looked at each time."""
        key = client_id, request.runner_id
        if len(self._seats) >= MOST_SEATS:
            self.forget(None)
        before = self._seats.get(key)
        if before is not None:
            self._by_holder.pop(before.holder_id, None)
        if opened.is_drained:
            self._seats.pop(key, None)
            return
        self._seats[key] = Seat(request, opened.holder_id, at, set(request.listed))
        self._by_holder[opened.holder_id] = key

    def claimed(self, holder_id: int, run_ids: Iterable[UUID]) -> None:
        """These are the instance's now; whether it will hear of them is not known."""
        key = self._by_holder.get(holder_id)
        if key is not None:
            self._seats[key].held.update(run_ids)

    def acked(self, client_id: int, runner_id: str, run_id: UUID) -> None:
        """The runner's ack for this run was accepted."""
        seat = self._seats.get((client_id, runner_id))
        if seat is not None:
            seat.held.discard(run_id)

    def forget(self, holder_ids: Ids | Iterable[int]) -> None:
        """Look again at these instances (None: at all of them)."""
        if holder_ids is None:
            self._seats, self._by_holder = {}, {}
            return
        for holder_id in holder_ids:
            key = self._by_holder.pop(holder_id, None)
            if key is not None:
                del self._seats[key]


def _is_same(one: PollRequest, other: PollRequest) -> bool:
    return one is other or (
        one.instance_id == other.instance_id
        and one.max_inflight == other.max_inflight
        and one.capabilities == other.capabilities
        and one.tags == other.tags
    )
