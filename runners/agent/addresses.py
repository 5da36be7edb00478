"""Where HTTP jobs may connect to: decided about the address that is connected to, not about what a name said earlier.

A name whose answer changes between the look and the connection (DNS rebinding) gains nothing: it is resolved once, and
what was looked at is what is connected to.
"""

from __future__ import annotations

import asyncio
import os
import re
import socket
from collections.abc import Iterable
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

import httpcore

from runners.agent.secrets import ActionRefused

Network = IPv4Network | IPv6Network
Address = IPv4Address | IPv6Address

NEVER: tuple[Network, ...] = tuple(
    ip_network(text)
    for text in (
        *("169.254.0.0/16", "fe80::/10"),  # link-local: the metadata of most clouds
        *("fd00:ec2::/32", "fd20:ce::/64", "100.100.100.200/32", "192.0.0.192/32", "168.63.129.16/32"),  # of the others
    )
)
"""Addresses that hand a machine's own credentials to whoever asks. Only an `--http-allow` with a network within one of
them opens it."""

CONNECT_SECONDS = 10.0
"""For each address of a name: one that does not answer shall not keep the next one from being tried."""

_NAME = re.compile(r"(?:\*\.)?[a-z0-9_](?:[a-z0-9_.-]{0,251}[a-z0-9_])?", re.ASCII)
_ENDS_IN_IPV4 = tuple(
    ip_network(text)
    for text in (
        *("64:ff9b::/96", "64:ff9b:1::/48"),  # NAT64, everybody's prefix and those of one network (RFC 6052, 8215)
        *("::/96", "::ffff:0:0:0/96"),  # IPv4-compatible (RFC 4291), IPv4-translated (RFC 2765)
    )
)
_NO_IPV4 = (IPv6Address("::"), IPv6Address("::1"))
_ISATAP = (0x0000_5EFE, 0x0200_5EFE)


@dataclass(frozen=True, slots=True)
class HostRules:
    """Hosts by name (``*.example.org``: all below it) and networks. Neither: every host but `NEVER`."""

    names: tuple[str, ...] = ()
    networks: tuple[Network, ...] = ()

    @classmethod
    def of(cls, texts: Iterable[str]) -> HostRules:
        """Read the values of ``--http-allow``. Raises ValueError with the one that is neither."""
        names, networks = [], []
        for text in texts:
            try:
                networks.append(ip_network(text.strip("[]")))
            except ValueError:
                name = _plain(text)
                if not _NAME.fullmatch(name) or ".." in name:
                    raise ValueError(text) from None
                names.append(name)
        return cls(tuple(names), tuple(networks))

    def refusal(self, host: str, address: Address) -> str | None:
        """Why a request to ``host`` may not connect to ``address``; None if it may."""
        address = _inner(address)
        listed = [network for network in self.networks if address in network]
        closed = [network for network in NEVER if address in network]
        if closed:
            if any(
                network.version == never.version and network.subnet_of(never) for network in listed for never in closed
            ):
                return None
            return f"{address} is an address that gives out a machine's credentials, and no --http-allow names it"
        if listed or not (self.names or self.networks) or self._has_name(_plain(host)):
            return None
        return f"{address} is not among what --http-allow names"

    def _has_name(self, host: str) -> bool:
        return any(host == name or (name[:2] == "*." and host.endswith(name[1:])) for name in self.names)


class GuardedNetwork(httpcore.AsyncNetworkBackend):
    """Connects to what the rules allow. Raises ActionRefused with the reason otherwise.

    As a context manager it closes at its end whatever it has connected: a TLS handshake that is cancelled leaves its
    connection open otherwise, and the server with it.
    """

    def __init__(self, rules: HostRules) -> None:
        self._rules = rules
        self._plain = httpcore.AnyIOBackend()
        self._streams: list[httpcore.AsyncNetworkStream] = []

    async def __aenter__(self) -> GuardedNetwork:
        return self

    async def __aexit__(self, *error: object) -> None:
        for stream in self._streams:
            await stream.aclose()

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[httpcore.SOCKET_OPTION] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        allowed, refusal = [], ""
        for address in await self.addresses_of(host, port):
            why = self._rules.refusal(host, ip_address(address))
            if why is None:
                allowed.append(address)
            refusal = refusal or why or ""
        if not allowed:
            raise ActionRefused(f"this runner does not connect to {host!r}: {refusal}")
        failure = ""
        for address in allowed:
            try:
                stream = await self._plain.connect_tcp(address, port, CONNECT_SECONDS)
            except httpcore.ConnectTimeout:
                failure = f"no answer within {CONNECT_SECONDS:g} s"
            except httpcore.ConnectError as error:
                failure = _reason(error)
            else:
                self._streams.append(stream)
                return stream
        where = host if host in allowed else f"{host} ({', '.join(allowed)})"
        raise httpcore.ConnectError(f"cannot connect to {where}, port {port}: {failure}")

    async def addresses_of(self, host: str, port: int) -> list[str]:
        """Return the addresses of a name, each once, in the resolver's order. Raises httpcore.ConnectError."""
        try:
            found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
        except (OSError, UnicodeError) as error:
            why = error.strerror if isinstance(error, OSError) and error.strerror else "it is no name of a host"
            raise httpcore.ConnectError(f"cannot resolve {host!r}: {why}") from None
        return list(dict.fromkeys(entry[4][0] for entry in found))


def _plain(host: str) -> str:
    return host.lower().removesuffix(".")


def _inner(address: Address) -> Address:
    """The IPv4 address that an IPv6 one stands for, where it stands for one."""
    if isinstance(address, IPv6Address):
        number = int(address)
        is_written_out = any(address in network for network in _ENDS_IN_IPV4) and address not in _NO_IPV4
        if is_written_out or (number >> 32) & 0xFFFF_FFFF in _ISATAP:
            return IPv4Address(number & 0xFFFF_FFFF)
        return address.ipv4_mapped or address.sixtofour or (address.teredo or (None, None))[1] or address
    return address


def _reason(error: BaseException) -> str:
    """What the system said; the libraries in between have words of their own."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, OSError) and cause.errno:
            return os.strerror(cause.errno)
        cause = cause.__cause__ or cause.__context__
    return str(error)
