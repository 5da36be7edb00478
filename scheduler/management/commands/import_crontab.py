"""Jobs from a crontab."""

from __future__ import annotations

import argparse
import os
import pwd
from datetime import datetime
from pathlib import Path
from typing import Any

from scheduler.domain.crontab import MOST_BYTES, parse_crontab
from scheduler.domain.crontab_jobs import PREFIX, LineJob, RunnerAccount, draft_of, file_prefix, jobs_of
from scheduler.domain.imports import Remark
from scheduler.management.importing import ImportCommand, Reading, content

NO_USER = "this machine knows no user {!r}; the machine of the runner has to"


class Command(ImportCommand):
    help = "Make command jobs of the lines of a crontab; what cannot be taken is listed with the reason."
    managed_by = "crontab"
    thing = "line"

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("file", metavar="FILE", help="a crontab; - is standard input: crontab -l | … -")
        parser.add_argument("--system", action="store_true", help="like /etc/crontab: a user before each command")
        parser.add_argument("--prefix", help="of the job keys (default: crontab:<name of the file>)")
        self.add_common_arguments(parser, zone_help="of the machine that the crontab is of")
        parser.add_argument("--runner-is-root", action="store_true", help="the runner runs as root: users are honoured")
        parser.add_argument("--as-user", metavar="NAME", help="the runner's account (default: that of this command)")

    def read(self, now: datetime, options: dict[str, Any]) -> Reading:
        crontab = parse_crontab(content(options["file"], MOST_BYTES), system=options["system"])
        prefix = options["prefix"] or _default_prefix(options["file"])
        lines, refused = jobs_of(
            crontab,
            prefix=prefix,
            source=_source(options["file"]),
            account=_account(options),
            timezone=options["timezone"] or "",
        )
        more = self.first_fields(options)
        return Reading(
            drafts=[draft_of(line, more) for line in lines],
            refused=[Remark(f"line {line.number}", line.line, line.reason) for line in refused],
            notes=[
                *_unknown_users(lines),
                *(Remark(f"line {note.number}", note.line, note.reason) for note in crontab.notes),
            ],
            prefixes=[prefix],
        )

    def last_words(self, options: dict[str, Any]) -> str:
        if not options["system"]:
            return ""
        return f"Their runner is taken to run as {_account(options).name!r} (--runner-is-root, --as-user)."


def _unknown_users(lines: list[LineJob]) -> list[Remark]:
    users = ((line.entry.number, line.action.get("user")) for line in lines)
    return [
        Remark(f"line {number}", "", NO_USER.format(user)) for number, user in users if user and not _is_known(user)
    ]


def _source(name: str) -> str:
    return "crontab" if name == "-" else Path(name).name


def _default_prefix(name: str) -> str:
    return PREFIX if name == "-" else file_prefix(Path(name).name)


def _account(options: dict[str, Any]) -> RunnerAccount:
    if options["runner_is_root"]:
        return RunnerAccount("root")
    if options["as_user"]:
        return RunnerAccount(options["as_user"])
    try:
        return RunnerAccount(pwd.getpwuid(os.geteuid()).pw_name)
    except KeyError:  # an account without a name, as in some containers
        return RunnerAccount(str(os.geteuid()))


def _is_known(user: str) -> bool:
    try:
        pwd.getpwnam(user)
    except KeyError:
        return False
    return True
