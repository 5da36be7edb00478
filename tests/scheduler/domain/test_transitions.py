"""The table of states and events, as a table."""

from __future__ import annotations

import pytest

from scheduler.domain.transitions import (
    EDGES,
    TERMINAL,
    WAITING,
    Event,
    NoTransition,
    State,
    ending_state,
    mermaid,
    next_state,
    resting_state,
)


def test_what_is_not_in_the_table_is_no_transition():
    for state in State:
        for event in Event:
            if (state, event) not in EDGES:
                with pytest.raises(NoTransition):
                    next_state(state, event)


def test_where_there_is_a_choice_only_a_target_of_the_table_can_be_chosen():
    assert next_state(State.CLAIMED, Event.RETRY) is State.READY
    assert next_state(State.CLAIMED, Event.RETRY, State.HELD) is State.HELD
    with pytest.raises(NoTransition):
        next_state(State.CLAIMED, Event.RETRY, State.DEAD)


def test_a_verdict_is_for_ever_but_a_skip_can_be_made_up_for():
    assert [edge for edge in EDGES if edge[0] in TERMINAL] == [(State.SKIPPED, Event.MAKE_UP)]


def test_every_state_that_is_no_verdict_leads_to_one():
    def verdicts_from(state, seen):
        for (source, _), targets in EDGES.items():
            if source is state:
                for target in set(targets) - seen:
                    seen.add(target)
                    verdicts_from(target, seen)
        return seen & set(TERMINAL)

    for state in State:
        if state not in TERMINAL:
            assert verdicts_from(state, set())


def test_every_event_happens_somewhere():
    assert {event for _, event in EDGES} == set(Event)


def test_where_a_run_rests():
    assert resting_state(is_limited=False, is_held=False) is State.READY
    assert resting_state(is_limited=True, is_held=False) is State.GATED
    assert resting_state(is_limited=False, is_held=True) is State.HELD
    assert resting_state(is_limited=True, is_held=True) is State.HELD


def test_how_a_run_ends():
    assert ending_state(dead_letters=True) is State.DEAD
    assert ending_state(dead_letters=False) is State.FAILED


def test_the_diagram_shows_each_edge_once():
    lines = mermaid().splitlines()
    assert lines[0] == "stateDiagram-v2"
    assert len(lines) == len(set(lines))
    for (state, event), targets in EDGES.items():
        for target in targets:
            (line,) = [line for line in lines if line.strip().startswith(f"{state.value} --> {target.value}:")]
            assert event.value in line.partition(": ")[2].split(", ")
    for state in WAITING:
        assert f"    [*] --> {state.value}" in lines
