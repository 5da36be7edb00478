"""Attempts to sign in are counted before the password is looked at, per address and per name, for all servers together.

Counted first, so that a hundred guesses at one moment are a hundred; and by the name that was entered, whether anybody
has it or not, so that a refusal tells nothing.
"""

from __future__ import annotations

import hashlib
import unicodedata
from datetime import datetime, timedelta
from ipaddress import IPv6Address, ip_address

from django.db.models import F

from croniq_site.kernel.database import write_transaction
from croniq_site.kernel.errors import TooManyRequests
from runners.models import SignInCount
from runners.services.audit import Event, record_events

WINDOW = timedelta(minutes=15)
MOST_PER_ACCOUNT = 10
MOST_PER_ADDRESS = 60
"""An office has one address. Its people together may err so often in a window; one name's less."""
MOST_FORGOTTEN = 100


def begin_sign_in(address: str, name: str, now: datetime) -> None:
    """Count an attempt. Raises TooManyRequests ``too_many_sign_ins`` where there were as many as there may be."""
    refused_until = None
    with write_transaction():
        # Always in this order: two attempts wait for each other, and in no circle.
        for key, most in ((_address_key(address), MOST_PER_ADDRESS), (_account_key(name), MOST_PER_ACCOUNT)):
            refused_until = _count(key, most, now)
            if refused_until is not None:
                break
    if refused_until is not None:
        seconds = max(1, round((refused_until - now).total_seconds()))
        raise TooManyRequests(
            f"Too many attempts to sign in. Try again in {-(-seconds // 60)} minutes.",
            code="too_many_sign_ins",
            retry_after_seconds=seconds,
        )


def end_sign_in(address: str, name: str) -> None:
    """The password was right: the name's errors are forgotten, and the address has one less."""
    with write_transaction():
        SignInCount.objects.filter(key=_address_key(address), attempts__gt=0).update(attempts=F("attempts") - 1)
        SignInCount.objects.filter(key=_account_key(name)).delete()


def spend_code(name: str, code: str, now: datetime) -> bool:
    """Let a one-time code of ``name`` open once within a window; False where it has, on whichever server, however it
    was written: ``123-456`` opens what ``123456`` does."""
    plain = "".join(filter(str.isalnum, code)).lower()
    digest = hashlib.sha256(f"{name}\n{plain}".encode("utf-8", "surrogatepass")).hexdigest()[:40]
    with write_transaction():
        row, is_new = SignInCount.objects.get_or_create(key=f"code:{digest}", defaults={"began_at": now})
        if is_new:
            return True
        return SignInCount.objects.filter(pk=row.pk, began_at__lte=now - WINDOW).update(began_at=now) == 1


def _count(key: str, most: int, now: datetime) -> datetime | None:
    """Count one more for ``key``; return until when there may be none, None where there may."""
    _, is_new = SignInCount.objects.get_or_create(key=key, defaults={"began_at": now})
    counts = SignInCount.objects.filter(key=key)
    if is_new:
        _forget(now)
    else:
        counts.filter(began_at__lte=now - WINDOW).update(attempts=0, began_at=now, refused_at=None)
    if counts.filter(attempts__lt=most).update(attempts=F("attempts") + 1):
        return None
    if counts.filter(refused_at__isnull=True).update(refused_at=now):
        kind, _, what = key.partition(":")
        record_events([Event("sign_in.refused", kind, what, diff={"attempts": most})], now)
    began_at = counts.values_list("began_at", flat=True).first() or now
    return began_at + WINDOW


def _forget(now: datetime) -> None:
    over = SignInCount.objects.select_for_update(skip_locked=True).filter(began_at__lte=now - 2 * WINDOW)
    ids = list(over.order_by("pk").values_list("pk", flat=True)[:MOST_FORGOTTEN])
    SignInCount.objects.filter(pk__in=ids).delete()


def _address_key(text: str) -> str:
    """An IPv6 network of one household counts as one address: it has as many as it likes."""
    try:
        address = ip_address(text)
    except ValueError:
        return "address:unknown"
    address = getattr(address, "ipv4_mapped", None) or address
    if isinstance(address, IPv6Address):
        return f"address:{IPv6Address(int(address) >> 64 << 64)}/64"
    return f"address:{address}"


def _account_key(name: str) -> str:
    # Its digest: a name may be a password that somebody entered in the wrong field.
    plain = unicodedata.normalize("NFKC", name).casefold()
    return f"account:{hashlib.sha256(plain.encode('utf-8', 'surrogatepass')).hexdigest()[:40]}"
