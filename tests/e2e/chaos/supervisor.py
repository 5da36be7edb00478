"""Keeps the processes of an installation running, and kills one of them now and then."""

from __future__ import annotations

import signal
import subprocess
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random

from tests.e2e.installation import Installation

Start = Callable[[int], subprocess.Popen]
"""Starts the n-th process of a member, counted from 0."""


@dataclass
class Member:
    """One of the processes, whichever lives now. ``killed_at`` (monotonic, just before the signal): by the number of
    the process."""

    name: str
    start: Start
    process: subprocess.Popen
    killed_at: list[float] = field(default_factory=list)


class Supervisor:
    def __init__(self, site: Installation, random: Random) -> None:
        self.site, self.random = site, random
        self.members: list[Member] = []
        self.kills: Counter[str] = Counter()
        self.deposed = 0

    def add(self, name: str, start: Start) -> Member:
        member = Member(name, start, start(0))
        self.members.append(member)
        return member

    def kill_one(self) -> None:
        """SIGKILL a member of whatever kind, wherever it is in its work, and start it again at once."""
        member = self.random.choice(self.members)
        member.killed_at.append(time.monotonic())
        self.site.stop(member.process, signal.SIGKILL)
        self.kills[member.name.split("-")[0]] += 1
        member.process = member.start(len(member.killed_at))

    def check(self) -> None:
        """Nobody ends unless he is killed; but for a runner that a dead one has deposed, which is started again.

        A runner that is killed with its very first poll on its way to one server, and is back by way of the other
        one before that poll is read, is taken over by it: it looks like a newer process.
        """
        for member in self.members:
            if member.process.poll() is None:
                continue
            log = self.site.log_of(member.process)
            assert "PollInstanceConflictError" in log, f"{member.name} ended by itself:\n{log[-4000:]}"
            self.deposed += 1
            member.killed_at.append(time.monotonic())
            member.process = member.start(len(member.killed_at))
