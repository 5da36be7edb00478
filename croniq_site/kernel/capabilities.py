"""Capabilities that Croniq itself gives a meaning. Nobody may ask for one in a job; a poll says them as any other."""

RESERVED_PREFIX = "croniq:"
COMMAND = "croniq:command"
"""Executes commands. A job of one prefers it, so that a runner with nothing but handlers comes last."""
HTTP = "croniq:http"
"""Executes HTTP requests, and is preferred in the same way."""
COMMAND_ONLY = "croniq:command-only"
"""Has no handlers: such a runner is offered nothing but jobs with an action that it says it executes."""
