"""Capabilities that Croniq itself gives a meaning. Nobody may ask for one in a job; a poll says them as any other."""

RESERVED_PREFIX = "croniq:"
COMMAND = "croniq:command"
"""Executes actions. A job with an action prefers it, so that a runner with nothing but handlers comes last."""
COMMAND_ONLY = "croniq:command-only"
"""Has no handlers: such a runner is offered nothing but jobs with an action."""
