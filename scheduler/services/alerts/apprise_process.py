"""Sends one message over one URL of apprise, in a process of its own: it can be ended, its memory is given back, and
what it may connect to is decided below apprise, at the socket.

Reads a JSON object from its standard input: ``url``, ``title``, ``body``, ``allow`` (as CRONIQ_ALERT_HTTP_ALLOW). Exits
with 0 if the service took it, else says in one line why. Knows no Django and no database.
"""

from __future__ import annotations

import json
import os
import socket
import sys
from ipaddress import ip_address
from typing import Any

from runners.agent.addresses import HostRules

_LEAVES = ("subprocess.Popen", "os.system", "os.exec", "os.fork", "os.forkpty", "os.posix_spawn", "os.spawn")


class Closed(OSError):
    """The rules let nobody connect to that; libraries take it for a network that is down."""


class Guard:
    """Looks at each address that a socket of this process is to reach, and at each name before.

    A name is resolved once for each connection, and only the addresses that the rules allow are answered: so what was
    looked at is what is connected to, also after a redirect.
    """

    def __init__(self, rules: HostRules) -> None:
        self._rules, self._resolve = rules, socket.getaddrinfo
        self._open: set[str] = set()
        self.refusal = ""

    def close(self) -> None:
        """From now on the rules hold in this process, and it begins no other one. There is no way back."""
        socket.getaddrinfo = self._allowed_addresses  # type: ignore[assignment]
        sys.addaudithook(self._look)

    def _allowed_addresses(self, host: Any, *args: Any, **options: Any) -> list[Any]:
        name = host.decode("ascii", "replace") if isinstance(host, bytes) else str(host)
        found, refusal = [], ""
        for entry in self._resolve(host, *args, **options):
            refusal = self._rules.refusal(name, ip_address(entry[4][0].partition("%")[0])) or ""
            if not refusal:
                self._open.add(entry[4][0])
                found.append(entry)
        if not found:
            self._refuse(refusal)
        return found

    def _look(self, event: str, args: tuple[Any, ...]) -> None:
        if event in ("socket.connect", "socket.sendto", "socket.sendmsg"):
            sock, address = args
            if address is None:  # it was connected before
                return
            if sock.family not in (socket.AF_INET, socket.AF_INET6):
                self._refuse("that is a socket of this machine")
            if address[0] not in self._open:
                host = address[0].partition("%")[0]
                try:
                    refusal = self._rules.refusal(host, ip_address(host))
                except ValueError:
                    refusal = "its address is none"
                if refusal:
                    self._refuse(refusal)
        elif event in _LEAVES:
            self._refuse("it would begin another process")

    def _refuse(self, refusal: str) -> None:
        self.refusal = refusal
        raise Closed(refusal)


def failure() -> str | None:
    """Do what is asked; why it was not done, None if it was."""
    said = json.load(sys.stdin)
    import apprise  # here, before the guard: it may look at the machine while it is loaded

    service = apprise.Apprise(asset=apprise.AppriseAsset(app_id="Croniq", async_mode=False, secure_logging=True))
    if not service.add(said["url"]):
        return "no service of apprise takes this URL"
    guard = Guard(HostRules.of(said["allow"]))
    guard.close()
    if service.notify(title=said["title"], body=said["body"]):
        return None
    return f"it does not connect: {guard.refusal}" if guard.refusal else "the service did not take it"


if __name__ == "__main__":
    why = failure()
    sys.stdout.write(f"{why}\n" if why else "")
    sys.stdout.flush()
    os._exit(1 if why else 0)  # threads that a service has left do not keep it
