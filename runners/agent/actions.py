"""What a run executes: the action that travels in the assignment's metadata, read strictly (design §10)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from runners.agent.http_action import HttpAction, http_of
from runners.agent.secrets import ActionRefused, Value, value_of

__all__ = ["ACTION_KEY", "ActionRefused", "CommandAction", "HttpAction", "action_of", "public_metadata"]

ACTION_KEY = "__runner_exec"
RESERVED_PREFIX = "__"
_EXECUTES = "this runner only executes commands and HTTP requests"


@dataclass(frozen=True, slots=True)
class CommandAction:
    """A process to start. ``cwd`` None means the runner's own directory, ``~`` the home directory of the process;
    ``user`` None the runner's own account; ``stdin`` what the process reads, None nothing."""

    argv: tuple[str, ...]
    cwd: str | None = None
    env: Mapping[str, Value] = field(default_factory=dict)
    user: str | None = None
    stdin: str | None = None


def action_of(metadata: Mapping[str, Any]) -> CommandAction | HttpAction:
    """Return the action that the reserved key of ``metadata`` describes. Raises ActionRefused for anything else."""
    action = metadata.get(ACTION_KEY)
    if action is None:
        raise ActionRefused(f"the job has no action, so it needs a runner whose code has a handler for it; {_EXECUTES}")
    if not isinstance(action, Mapping):
        raise ActionRefused("the action is not an object")
    kind = action.get("type")
    if kind == "handler":
        raise ActionRefused(
            f"the action's type is 'handler', so it needs a runner whose code has a handler for it; {_EXECUTES}"
        )
    if kind == "http":
        return http_of(action)
    if kind != "command":
        raise ActionRefused(f"this runner cannot execute actions of type {kind!r}, only 'command' and 'http'")
    return CommandAction(
        argv=_argv(action),
        cwd=_text(action, "cwd"),
        env=_environment(action),
        user=_text(action, "user"),
        stdin=_text(action, "stdin"),
    )


def public_metadata(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """Return ``metadata`` without the reserved keys: what a job's own code may see."""
    return {key: value for key, value in metadata.items() if not key.startswith(RESERVED_PREFIX)}


def _argv(action: Mapping[str, Any]) -> tuple[str, ...]:
    argv, shell = action.get("argv"), action.get("shell")
    if (argv is None) == (shell is None):
        raise ActionRefused("a command action has either 'argv' or 'shell'")
    if shell is not None:
        if not isinstance(shell, str) or not shell.strip():
            raise ActionRefused("'shell' is not a text")
        return ("/bin/sh", "-c", without_nul("shell", shell))
    if not isinstance(argv, list) or not argv or not all(isinstance(word, str) for word in argv) or not argv[0]:
        raise ActionRefused("'argv' is not a list of texts that begins with the program")
    return tuple(without_nul("argv", word) for word in argv)


def _text(action: Mapping[str, Any], name: str) -> str | None:
    value = action.get(name)
    if value is None or value == "":
        return None
    if not isinstance(value, str):
        raise ActionRefused(f"{name!r} is not a text")
    return without_nul(name, value)


def _environment(action: Mapping[str, Any]) -> dict[str, Value]:
    env = action.get("env") or {}
    if not isinstance(env, Mapping):
        raise ActionRefused("'env' is not an object of texts")
    values = {name: value_of("env", value) for name, value in env.items()}
    for name, value in values.items():
        if not name or "=" in name:
            raise ActionRefused(f"'env' has {name!r}, which is no name of a variable")
        without_nul("env", name + (value if isinstance(value, str) else value.prefix))
    return values


def without_nul(name: str, value: str) -> str:
    """Return ``value``. Raises ActionRefused, naming the field, where no process could be given it."""
    if "\0" in value:
        raise ActionRefused(f"{name!r} has a NUL character")
    return value
