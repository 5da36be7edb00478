"""How often clients may ask, by their key and by their address; what wrong keys cost.

Counted in each server process by itself: with N of them behind one address a limit is up to N times as large. A count
that they shared would be a statement of the database for each request, which is what the limit is to save. `/v1/work/`
is not counted: a runner asks as often as it has work, and an ack is never 429.
"""

from __future__ import annotations

import math

from django.conf import settings
from rest_framework.request import Request
from rest_framework.throttling import BaseThrottle

from croniq_site.kernel.errors import CroniqError, TooManyRequests, Unavailable
from croniq_site.kernel.rates import Buckets, network_of
from runners.domain.scopes import Principal

MOST_GOOD = 4096
LONGEST_HEADER = 255
PROBES = frozenset({"/health", "/ready", "/version", "/metrics"})


def is_judged(path: str) -> bool:
    """Whether an answer here that is no 401 says that the key is good: not where nobody looks at it."""
    return path.startswith("/v1/") and not path.startswith(("/v1/openapi", "/v1/docs"))


def too_often(seconds: float, message: str) -> TooManyRequests:
    return TooManyRequests(message, code="rate_limited", retry_after_seconds=max(1, math.ceil(seconds)))


class Addresses:
    """``CRONIQ_RATE_PER_ADDRESS``: of everything but the work protocol and the probes."""

    def __init__(self) -> None:
        self._buckets = Buckets()

    def check(self, address: str, path: str) -> None:
        """Count a request. Raises TooManyRequests."""
        rate = settings.CRONIQ_RATE_PER_ADDRESS
        if rate is not None and path not in PROBES and (seconds := self._buckets.take(network_of(address), rate)):
            raise too_often(seconds, "Too many requests from this address.")


class PerKey(BaseThrottle):
    """``CRONIQ_RATE_PER_KEY``: of one API client, whichever of its keys it uses."""

    buckets = Buckets()

    def allow_request(self, request: Request, view: object) -> bool:
        rate = settings.CRONIQ_RATE_PER_KEY
        if rate is None or not isinstance(request.user, Principal):
            return True
        if seconds := self.buckets.take(str(request.user.client_id), rate):
            raise too_often(seconds, f"Too many requests of the API client {request.user.name!r}.")
        return True


class Guesses:
    """``CRONIQ_RATE_WRONG_KEYS``: an address that sends wrong keys is not listened to for a while.

    A key cannot be guessed; this is about what the guesses cost. A key that has opened something here is let in from
    whatever address, so nobody's runners stop because somebody behind the same address sends nonsense.
    """

    def __init__(self) -> None:
        self._buckets = Buckets()
        self._good: dict[str, None] = {}

    def is_known(self, header: str) -> bool:
        """Whether the key in this header has opened something here; it may be revoked since."""
        return header in self._good

    def check(self, address: str, *, is_runner: bool = False) -> None:
        """Before a key that is not known is looked up. Raises TooManyRequests; for a runner, which has no use for 429,
        Unavailable."""
        rate = settings.CRONIQ_RATE_WRONG_KEYS
        if rate is not None and (seconds := self._buckets.wait(network_of(address), rate)):
            message = "Too many wrong API keys came from this address."
            refusal: CroniqError = too_often(seconds, message)
            if is_runner:
                refusal = Unavailable(message, retry_after_seconds=refusal.retry_after_seconds)
            raise refusal

    def good(self, header: str) -> None:
        """The key in this header opened something."""
        if len(header) > LONGEST_HEADER:
            return
        if len(self._good) >= MOST_GOOD:
            del self._good[next(iter(self._good))]
        self._good[header] = None

    def wrong(self, address: str) -> None:
        """A key that came from there opened nothing."""
        rate = settings.CRONIQ_RATE_WRONG_KEYS
        if rate is not None:
            self._buckets.take(network_of(address), rate)

    def forget(self) -> None:
        self._buckets.forget()
        self._good.clear()


ADDRESSES = Addresses()
GUESSES = Guesses()
