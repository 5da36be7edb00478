"""What a job's process sees of the runner's environment: an allow-list, never the runner's secrets (design §10)."""

from __future__ import annotations

import json
import os
import pwd
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from croniq_site.kernel.secret_names import VARIABLE
from runners.agent.actions import ActionRefused, public_metadata

ALLOWED = frozenset({"PATH", "HOME", "LANG", "TZ", "TMPDIR", "USER", "LOGNAME", "SHELL"})
ALLOWED_PREFIX = "LC_"
SECRET = frozenset(
    {
        "CRONIQ_RUNNER_KEY",
        "CRONIQ_RUNNER_KEY_FILE",
        "CRONIQ_SECRET_KEY",
        "CRONIQ_SECRET_KEY_FILE",
        "DATABASE_URL",
        "DATABASE_URL_FILE",
    }
)
"""Names that no option lets through. A job that has a database of its own names it in its action's ``env``."""


def is_secret(name: str) -> bool:
    """Whether a variable is Croniq's own, or one of the secrets that only a job which refers to it gets."""
    return name in SECRET or name.startswith(VARIABLE)


@dataclass(frozen=True, slots=True)
class Account:
    """The account that a process runs under when it is not the runner's own."""

    name: str
    uid: int
    gid: int
    groups: tuple[int, ...]
    home: str
    shell: str


def account_named(name: str) -> Account:
    """Look up an account to change to. Raises ActionRefused when it does not exist or this runner may not change."""
    if os.geteuid() != 0:
        raise ActionRefused(f"the action asks for user {name!r}, but only a runner that runs as root can change users")
    try:
        entry = pwd.getpwnam(name)
    except KeyError:
        raise ActionRefused(f"the action asks for user {name!r}, which does not exist on this machine") from None
    groups = tuple(os.getgrouplist(entry.pw_name, entry.pw_gid))
    return Account(entry.pw_name, entry.pw_uid, entry.pw_gid, groups, entry.pw_dir, entry.pw_shell)


def inherited(environ: Mapping[str, str], allow: Iterable[str] = ()) -> dict[str, str]:
    """Return the part of the runner's environment that every job sees: the allow-list and the names in ``allow``."""
    names = ALLOWED | frozenset(allow)
    return {
        name: value
        for name, value in environ.items()
        if (name in names or name.startswith(ALLOWED_PREFIX)) and not is_secret(name)
    }


def run_variables(
    *, job_key: str, execution_id: str, attempt: int, scheduled_for: datetime | None, metadata: Mapping[str, Any]
) -> dict[str, str]:
    """Return what a process is told about its run: ``CRONIQ_*``; instants as on the wire (UTC, ``Z``, microseconds)."""
    variables = {
        "CRONIQ_JOB_KEY": job_key,
        "CRONIQ_EXECUTION_ID": execution_id,
        "CRONIQ_ATTEMPT": str(attempt),
        # Not escaped to ASCII: one variable is limited to 128 KiB, and \uXXXX would make 64 KiB of metadata burst it.
        "CRONIQ_METADATA": json.dumps(public_metadata(metadata), ensure_ascii=False, separators=(",", ":")),
    }
    if scheduled_for is not None:
        variables["CRONIQ_SCHEDULED_FOR"] = _instant_text(scheduled_for)
    return variables


def run_headers(execution_id: str, attempt: int, scheduled_for: datetime | None) -> dict[str, str]:
    """Return what the receiver of an HTTP job is told about its run. A retry has the same key: it is the same run."""
    headers = {
        "Idempotency-Key": execution_id,
        "X-Croniq-Execution-Id": execution_id,
        "X-Croniq-Attempt": str(attempt),
    }
    if scheduled_for is not None:
        headers["X-Croniq-Scheduled-For"] = _instant_text(scheduled_for)
    return headers


def _instant_text(instant: datetime) -> str:
    return instant.astimezone(UTC).isoformat(timespec="microseconds").removesuffix("+00:00") + "Z"


def child_environment(
    base: Mapping[str, str], *, account: Account | None, action_env: Mapping[str, str], run: Mapping[str, str]
) -> dict[str, str]:
    """Join what a process sees; the later wins: the runner's, the account's, the action's, the run's identity."""
    env = dict(base)
    if account is not None:
        env |= {"HOME": account.home, "USER": account.name, "LOGNAME": account.name, "SHELL": account.shell}
    return env | dict(action_env) | dict(run)
