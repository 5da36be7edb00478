"""What may become of a run: the one table of states and events. Pure.

A run that is unfinished, or whose handler still winds down, has the state of its queue entry; one without an entry has
its verdict. Two rules of the job choose among targets: where an attempt's run rests before the next one (`ready`;
`gated` of a limited job; `held` of a paused one), and how it ends when its attempts are used up (`dead`; `failed` where
dead letters are off).
"""

from __future__ import annotations

from enum import StrEnum


class State(StrEnum):
    READY = "ready"
    GATED = "gated"
    HELD = "held"
    CLAIMED = "claimed"
    STOPPING = "stopping"
    COMPLETED = "completed"
    FAILED = "failed"
    DEAD = "dead"
    CANCELLED = "cancelled"
    SKIPPED = "skipped"


class Event(StrEnum):
    ADMIT = "admit"  # due, and all its budgets have a slot for it
    PASS_OVER = "pass over"  # noqa: S105 - nobody claimed it, and others wait for its slots
    HOLD = "hold"  # its job is paused
    LET_GO = "let go"  # the pause is over, and the run was tried before it or is still to fall due
    SKIP = "skip"  # a fire that is left out: job busy, queue full, fell due in a pause or in maintenance, skip next
    MAKE_UP = "make up"  # a backfill takes the skip back
    CLAIM = "claim"
    BURY = "bury"  # due, but its attempts are used up
    SUCCEED = "succeed"
    RETRY = "retry"  # the attempt failed or timed out, others are left
    FAIL = "fail"  # the last attempt failed
    TIME_OUT = "time out"  # the last attempt's deadline passed; its handler is told to stop
    LOSE = "lose"  # lease, takeover or lost answer, attempts are left
    LOSE_LAST = "lose last"
    GIVE_BACK = "give back"  # the connection was gone before the answer: as if never claimed
    CANCEL = "cancel"
    WIND_DOWN = "wind down"  # the handler of a final run is gone: ack, poll without it, or lease's end


WAITING = (State.READY, State.GATED, State.HELD)
TERMINAL = (State.COMPLETED, State.FAILED, State.DEAD, State.CANCELLED, State.SKIPPED)
USED_UP = (State.DEAD, State.FAILED)

EDGES: dict[tuple[State, Event], tuple[State, ...]] = {
    (State.GATED, Event.ADMIT): (State.READY,),
    (State.READY, Event.PASS_OVER): (State.GATED,),
    (State.READY, Event.SKIP): (State.SKIPPED,),
    (State.GATED, Event.SKIP): (State.SKIPPED,),
    (State.HELD, Event.SKIP): (State.SKIPPED,),
    (State.READY, Event.HOLD): (State.HELD,),
    (State.GATED, Event.HOLD): (State.HELD,),
    (State.HELD, Event.LET_GO): (State.READY, State.GATED),
    (State.SKIPPED, Event.MAKE_UP): (State.READY, State.GATED),
    (State.READY, Event.CLAIM): (State.CLAIMED,),
    **{(waiting, Event.BURY): USED_UP for waiting in WAITING},
    (State.CLAIMED, Event.SUCCEED): (State.COMPLETED,),
    (State.CLAIMED, Event.RETRY): WAITING,
    (State.CLAIMED, Event.FAIL): USED_UP,
    (State.CLAIMED, Event.TIME_OUT): (State.STOPPING,),
    (State.CLAIMED, Event.LOSE): WAITING,
    (State.CLAIMED, Event.LOSE_LAST): USED_UP,
    (State.CLAIMED, Event.GIVE_BACK): (*WAITING, State.CANCELLED),  # of a deleted job it ends
    (State.CLAIMED, Event.CANCEL): (State.STOPPING,),
    **{(waiting, Event.CANCEL): (State.CANCELLED,) for waiting in WAITING},
    # The verdict that was given when the run began to stop.
    (State.STOPPING, Event.WIND_DOWN): (State.CANCELLED, *USED_UP),
}
"""(state, event) → the states it may lead to; the first unless a rule of the job chooses another."""


class NoTransition(ValueError):
    """The event changes nothing in this state."""


def next_state(state: State, event: Event, chosen: State | None = None) -> State:
    """Return where ``event`` leads from ``state``; ``chosen`` picks among several targets (None: the first).

    Raises NoTransition for what is not in the table.
    """
    targets = EDGES.get((state, event))
    if targets is None:
        raise NoTransition(f"{event.value!r} changes nothing in the state {state.value!r}")
    if chosen is None:
        return targets[0]
    if chosen not in targets:
        raise NoTransition(f"{event.value!r} never leads from {state.value!r} to {chosen.value!r}")
    return chosen


def resting_state(*, is_limited: bool, is_held: bool) -> State:
    """Return where a run waits for its next attempt: held wins over gated, or a resume would start a paused job."""
    if is_held:
        return State.HELD
    return State.GATED if is_limited else State.READY


def ending_state(*, dead_letters: bool) -> State:
    """Return the verdict of a run whose attempts are used up."""
    return State.DEAD if dead_letters else State.FAILED


def mermaid() -> str:
    """Return the table as a Mermaid state diagram, in the order of the table (README shows it; a test compares)."""
    lines = ["stateDiagram-v2"]
    lines += [f"    [*] --> {state.value}" for state in WAITING]
    labels: dict[tuple[State, State], list[str]] = {}
    for (state, event), targets in EDGES.items():
        for target in targets:
            labels.setdefault((state, target), []).append(event.value)
    lines += [f"    {a.value} --> {b.value}: {', '.join(events)}" for (a, b), events in labels.items()]
    lines += [f"    {state.value} --> [*]" for state in TERMINAL if any(state in t for t in EDGES.values())]
    return "\n".join(lines) + "\n"
