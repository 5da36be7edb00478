"""Sends one message over one URL of apprise, in a process of its own: it can be ended, its memory is given back, and
what it may connect to is decided below apprise, at the socket, and it opens no file but those of Python.

Reads a JSON object from its standard input: ``url``, ``title``, ``body``, ``allow`` (as CRONIQ_ALERT_HTTP_ALLOW). Exits
with 0 if the service took it, else says in one line why. Knows no Django and no database.
"""

from __future__ import annotations

import json
import mimetypes
import os
import socket
import ssl
import sys
from ipaddress import ip_address
from typing import Any

from runners.agent.addresses import HostRules

_LEAVES = ("subprocess.Popen", "os.system", "os.exec", "os.fork", "os.forkpty", "os.posix_spawn", "os.spawn")
_TELLS = ("syslog.openlog", "syslog.syslog")
_OPENED = tuple(
    path
    for path in (
        *(os.path.join(folder, "") for folder in (sys.prefix, sys.base_prefix, sys.exec_prefix, "/usr/share/zoneinfo")),
        *(ssl.get_default_verify_paths().openssl_cafile, ssl.get_default_verify_paths().openssl_capath),
        *(os.environ.get(name) for name in ("SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE")),
        *(*mimetypes.knownfiles, os.devnull),
    )
    if path
)
"""What libraries load while they send: modules, certificates, names of types. A URL may name other files: a template of
what is said, a key."""


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
        """From now on the rules hold in this process, it begins no other one, tells this machine nothing and opens none
        of its files. There is no way back."""
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
        elif event in _TELLS:
            self._refuse("it would tell this machine, not somebody")
        elif event == "open" and not (isinstance(args[0], int) or _is_known(args[0])):
            self._refuse("it would open a file of this machine")

    def _refuse(self, refusal: str) -> None:
        self.refusal = refusal
        raise Closed(refusal)


def _is_known(path: str | bytes) -> bool:
    return os.path.abspath(os.fsdecode(path)).startswith(_OPENED)


def failure() -> str | None:
    """Do what is asked; why it was not done, None if it was."""
    said = json.load(sys.stdin)
    import apprise  # here, before the guard: it may look at the machine while it is loaded

    asset = apprise.AppriseAsset(app_id="Croniq", async_mode=False, secure_logging=True)
    # One URL: as a list, which has commas in it, it would be several services, whose schemes nobody has looked at.
    service = apprise.Apprise.instantiate(said["url"], asset=asset)
    if service is None:
        return "no service of apprise takes this URL"
    guard = Guard(HostRules.of(said["allow"]))
    guard.close()
    if apprise.Apprise(service, asset=asset).notify(title=said["title"], body=said["body"]):
        return None
    return f"refused: {guard.refusal}" if guard.refusal else "the service did not take it"


if __name__ == "__main__":
    why = failure()
    sys.stdout.write(f"{why}\n" if why else "")
    sys.stdout.flush()
    os._exit(1 if why else 0)  # threads that a service has left do not keep it
