"""How often somebody may ask: a bucket of tokens for each name, in the memory of this process."""

from __future__ import annotations

import ipaddress
import threading
import time
from dataclasses import dataclass

MOST_NAMES = 20_000
"""Names that are remembered; of more, those that asked longest ago are forgotten, and begin anew."""


@dataclass(frozen=True)
class Rate:
    """``count`` requests at once, and as many again in each ``seconds``."""

    count: int
    seconds: float


class Buckets:
    """Safe from several threads. ``tick`` is an instant of `time.monotonic`, now unless given."""

    def __init__(self) -> None:
        self._left: dict[str, tuple[float, float]] = {}
        self._lock = threading.Lock()

    def take(self, name: str, rate: Rate, tick: float | None = None) -> float:
        """Take one token and return 0; without one, return in how many seconds there is one again."""
        tick = time.monotonic() if tick is None else tick
        with self._lock:
            left = self._filled(name, rate, tick)
            if left < 1:
                return (1 - left) * rate.seconds / rate.count
            self._left.pop(name, None)
            if len(self._left) >= MOST_NAMES:
                del self._left[next(iter(self._left))]
            self._left[name] = left - 1, tick
            return 0.0

    def wait(self, name: str, rate: Rate, tick: float | None = None) -> float:
        """In how many seconds there is a token, without taking it; 0: there is one."""
        if name not in self._left:
            return 0.0
        tick = time.monotonic() if tick is None else tick
        with self._lock:
            left = self._filled(name, rate, tick)
        return 0.0 if left >= 1 else (1 - left) * rate.seconds / rate.count

    def forget(self) -> None:
        with self._lock:
            self._left.clear()

    def _filled(self, name: str, rate: Rate, tick: float) -> float:
        left, since = self._left.get(name, (float(rate.count), tick))
        return min(float(rate.count), left + max(0.0, tick - since) * rate.count / rate.seconds)


def network_of(address: str) -> str:
    """Return whom an address belongs to: itself, of IPv6 its /64, which one customer has whole."""
    try:
        found = ipaddress.ip_address(address)
    except ValueError:
        return address[:64]
    if isinstance(found, ipaddress.IPv6Address):
        if found.ipv4_mapped:
            return str(found.ipv4_mapped)
        return str(ipaddress.ip_network((found, 64), strict=False))
    return address
