"""Capabilities that Croniq itself gives a meaning. Nobody may ask for one in a job; a poll says them as any other."""

from __future__ import annotations

from collections.abc import Set

RESERVED_PREFIX = "croniq:"
COMMAND = "croniq:command"
"""Executes commands. A job of one prefers it, so that a runner with nothing but handlers comes last."""
HTTP = "croniq:http"
"""Executes HTTP requests, and is preferred in the same way."""
COMMAND_ONLY = "croniq:command-only"
"""Has no handlers: such a runner is offered nothing but jobs with an action that it says it executes."""


def executed_only(has: Set[str]) -> frozenset[str]:
    """What a lane must prefer one of, so that a runner which has these is offered it; empty: it may prefer anything."""
    if COMMAND_ONLY not in has:
        return frozenset()
    return frozenset(has & {COMMAND, HTTP}) or frozenset([COMMAND])


def may_take(has: Set[str], require: Set[str], prefer: Set[str]) -> bool:
    """Whether a runner with these capabilities (its pin among them) is offered what requires and prefers those."""
    must = executed_only(has)
    return require <= has and (not must or bool(must & prefer))
