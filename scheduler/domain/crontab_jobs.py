"""The jobs that the lines of a crontab become: their keys, what runs, and as whom."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from croniq_site.kernel.errors import InvalidInput
from croniq_site.kernel.text import cleaned
from scheduler.domain.actions import action_of
from scheduler.domain.crontab import Crontab, Entry, Remark
from scheduler.domain.imports import DESCRIPTION_MOST_BYTES, SLUG_MOST, Draft, NotTaken, digest_of
from scheduler.domain.imports import slug_of as slug_of_text
from scheduler.domain.job_fields import job_key_of

PREFIX = "crontab"
SHELL = "/bin/sh"
TAGS = ["crontab"]

AS_CRON = {"timeout": "24h", "max_retries": 0, "max_losses": 0, "catch_up": "none"}
"""Cron starts each fire once, never again, and nothing that it missed."""

_PATH = re.compile(r"(?:^|[\s;|&(\"'=])(/[^\s;|&)\"'<>]+)")
_NOT_TELLING = ("/bin/sh", "/dev/", "/proc/", "/run/", "/sys/", "/tmp/", "/usr/bin/test", "/var/")  # noqa: S108


@dataclass(frozen=True, slots=True)
class RunnerAccount:
    """The account of the runner that will run the jobs: root becomes whoever a line names, any other only itself."""

    name: str = "root"

    @property
    def is_root(self) -> bool:
        return self.name == "root"


@dataclass(frozen=True, slots=True)
class LineJob:
    """A line as a job; ``timezone`` "" means the server's."""

    entry: Entry
    job_key: str
    description: str
    action: Mapping[str, Any]
    timezone: str


def jobs_of(
    crontab: Crontab, *, prefix: str, source: str, account: RunnerAccount, timezone: str = ""
) -> tuple[list[LineJob], list[Remark]]:
    """The jobs of a crontab's lines, and the lines that could not be taken, in their order.

    ``timezone``: that of the machine, for lines without one. Refuses (`InvalidInput` ``prefix``) a prefix that gives no
    job key.
    """
    job_key_of("prefix", f"{prefix}:{'x' * (SLUG_MOST + 16)}")
    jobs: list[LineJob] = []
    refused = list(crontab.refused)
    seen: Counter[str] = Counter()
    for entry in crontab.entries:
        slug = slug_of(entry)
        seen[slug] += 1
        if seen[slug] > 1:
            slug = f"{slug}-{seen[slug]}"
        description = cleaned(f"{source}: {entry.command.strip()}", DESCRIPTION_MOST_BYTES)
        try:
            action = _action(entry, account)
        except (NotTaken, InvalidInput) as error:
            refused.append(Remark(entry.number, entry.line, str(error)))
            continue
        jobs.append(LineJob(entry, f"{prefix}:{slug}", description, action, entry.timezone or timezone))
    return jobs, sorted(refused, key=lambda remark: remark.number)


def slug_of(entry: Entry) -> str:
    """A name that says what runs, the same for the same user, command and input, whatever line and schedule."""
    paths = [path for path in _PATH.findall(entry.command) if not path.startswith(_NOT_TELLING)]
    words = paths[-1].rstrip("/").rpartition("/")[2] if paths else entry.command
    return f"{slug_of_text(words) or 'command'}-{digest_of(entry.user, entry.command, entry.stdin or '')}"


def file_prefix(name: str) -> str:
    """The default prefix of the keys of a file's jobs: `crontab:<name of the file>`."""
    slug = slug_of_text(name)
    return f"{PREFIX}:{slug}" if slug else PREFIX


def _action(entry: Entry, account: RunnerAccount) -> dict[str, Any]:
    shell = entry.environment.get("SHELL") or SHELL
    action: dict[str, Any] = {"type": "command", "cwd": "~", "env": dict(entry.environment), "stdin": entry.stdin}
    if shell == SHELL:
        action["shell"] = entry.command
    else:
        action["argv"] = [shell, "-c", entry.command]
    if account.is_root:
        action["user"] = entry.user
    elif entry.user not in ("", account.name):
        raise NotTaken(f"only a runner that runs as root runs it as {entry.user!r}; this one runs as {account.name!r}")
    return action_of("action", action)


def draft_of(line: LineJob, more: Mapping[str, Any] | None = None) -> Draft:
    """The line as an import takes it; ``more``: further fields of a new job."""
    return Draft(
        job_key=line.job_key,
        where=f"line {line.entry.number}",
        what=line.entry.command,
        fields={"action": line.action},
        schedule={"cron_expression": line.entry.expression, "timezone": line.timezone or None},
        first={**AS_CRON, "description": line.description, "tags": TAGS, **(more or {})},
    )
