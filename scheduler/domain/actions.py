"""What a job runs, as a caller writes it (design §10). A job without an action runs a handler in a runner's code."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Mapping
from typing import Any

from croniq_site.kernel.capabilities import COMMAND, HTTP
from croniq_site.kernel.errors import InvalidInput
from croniq_site.kernel.text import cleaned
from scheduler.domain.http_action import HTTP_FIELDS, http_of
from scheduler.domain.inputs import text_of
from scheduler.domain.secret_refs import text_or_secret

ACTION_MOST_BYTES = 64 * 1024
PATH_MOST = 4096
_COMMAND_FIELDS = {"type", "argv", "shell", "cwd", "env", "user", "stdin"}
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)


def action_of(field: str, value: Any) -> dict[str, Any]:
    """The action in its one stored form: ``{}`` for a handler, else the command or request, what is unset left out."""
    if not isinstance(value, Mapping):
        raise InvalidInput.of(field, 'An action is an object such as {"type": "command", "argv": ["/bin/true"]}.')
    if not value:
        return {}
    kind = value.get("type")
    if kind == "handler":
        _refuse_more(field, value, {"type"})
        return {}
    if kind == "command":
        _refuse_more(field, value, _COMMAND_FIELDS)
        action = _command(field, value)
    elif kind == "http":
        _refuse_more(field, value, HTTP_FIELDS)
        action = http_of(field, value)
    else:
        raise InvalidInput.of(field, "The type of an action is handler, command or http.")
    if len(json.dumps(action).encode()) > ACTION_MOST_BYTES:
        raise InvalidInput.of(field, f"An action takes {ACTION_MOST_BYTES} bytes at most.")
    return action


def needs_exec(action: Mapping[str, Any]) -> bool:
    """Whether setting this action needs the scope ``jobs:exec``: it says itself what is executed."""
    return bool(action)


def capabilities_for(action: Mapping[str, Any]) -> list[str]:
    """The capability of runners that execute this action; none for a handler."""
    return [HTTP if action["type"] == "http" else COMMAND] if action else []


def action_text(action: Mapping[str, Any]) -> str:
    """What is executed, for a page: a command line, a request's first line; "" for a handler."""
    if action.get("type") == "http":
        url = action["url"]
        return f"{action['method']} {url if isinstance(url, str) else 'secret ' + url['secret']}"
    return action.get("shell") or shlex.join(map(str, action.get("argv") or ()))


def _command(field: str, value: Mapping[str, Any]) -> dict[str, Any]:
    action = {"type": "command", **_program(field, value)}
    for name, most in (("cwd", PATH_MOST), ("user", 255), ("stdin", ACTION_MOST_BYTES)):
        if value.get(name) not in (None, ""):
            action[name] = text_of(f"{field}.{name}", value[name], most=most)
    if value.get("env"):
        action["env"] = _environment(f"{field}.env", value["env"])
    return action


def _program(field: str, value: Mapping[str, Any]) -> dict[str, Any]:
    argv, shell = value.get("argv"), value.get("shell")
    if (argv is None) == (shell is None):
        raise InvalidInput.of(field, "A command has either argv or shell.")
    if shell is not None:
        if not text_of(f"{field}.shell", shell, most=ACTION_MOST_BYTES).strip():
            raise InvalidInput.of(f"{field}.shell", "A shell command is not empty.")
        return {"shell": shell}
    if not isinstance(argv, list) or not argv or not argv[0]:
        raise InvalidInput.of(f"{field}.argv", "argv is a list of texts that begins with the program.")
    return {"argv": [text_of(f"{field}.argv", word, most=ACTION_MOST_BYTES) for word in argv]}


def _environment(field: str, value: Any) -> dict[str, Any]:
    if not isinstance(value, Mapping):
        raise InvalidInput.of(field, 'env is an object of texts and of {"secret": "NAME"}.')
    for name in value:
        if not isinstance(name, str) or not _VARIABLE.fullmatch(name):
            raise InvalidInput.of(field, f"{str(name)[:64]!r} is no name of an environment variable.")
    return {name: text_or_secret(field, text, most=ACTION_MOST_BYTES) for name, text in value.items()}


def _refuse_more(field: str, value: Mapping[str, Any], known: set[str]) -> None:
    for name in value:
        if name not in known:
            shown = cleaned(str(name)[:64], 256)
            raise InvalidInput.of(f"{field}.{shown}", f"An action of this type has no {shown!r}.")
