"""Who may read `/metrics` without a key: whoever sits at an allowed address, not whoever is passed on from there."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping

from django.conf import settings

_PASSED_ON = (
    "HTTP_FORWARDED",
    "HTTP_VIA",
    "HTTP_X_FORWARDED_FOR",
    "HTTP_X_FORWARDED_HOST",
    "HTTP_X_FORWARDED_PROTO",
    "HTTP_X_REAL_IP",
)
"""Headers that only a proxy sends."""


def is_allowed_address(meta: Mapping[str, str]) -> bool:
    """Look at a WSGI environment: is its address in ``CRONIQ_METRICS_ALLOW``?

    The address of a request that a proxy passed on is the client's only if the web server trusts the proxy
    (``CRONIQ_TRUSTED_PROXIES``) and the proxy names it: then it is the last one of ``X-Forwarded-For``, and never this
    host. Any other request that was passed on comes from nobody knows where.
    """
    address = _address(meta.get("REMOTE_ADDR", ""))
    if address is None:
        return False
    if any(meta.get(name) for name in _PASSED_ON):
        named = _address(meta.get("HTTP_X_FORWARDED_FOR", "").rpartition(",")[2])
        if address.is_loopback or named != address:
            return False
    return any(address in ipaddress.ip_network(net, strict=False) for net in settings.CRONIQ_METRICS_ALLOW)


def _address(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        address = ipaddress.ip_address(text.strip())
    except ValueError:
        return None
    return getattr(address, "ipv4_mapped", None) or address
