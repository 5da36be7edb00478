"""Attempts to sign in are counted before the password is looked at, per address and per name, for all servers together.

Counted first, so that a hundred guesses at one moment are a hundred; and by the name that was entered, whether anybody
has it or not, so that a refusal tells nothing. A browser in which somebody signed in with the name has a count of its
own, which no stranger can use up (OWASP's device cookies): who guesses keeps nobody out of where he has signed in.
"""

from __future__ import annotations

import hashlib
import unicodedata
from datetime import datetime, timedelta
from enum import StrEnum
from ipaddress import IPv6Address, ip_address

from django.core.signing import BadSignature, Signer
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
KNOWN_FOR = timedelta(days=180)
"""So long after a sign-in its browser has a count of its own."""
MARK_COOKIE = "croniq_known"


class Way(StrEnum):
    """What is tried, each with a count of its own for the name; the value is a part of the count's key."""

    PASSWORD = ""
    KNOWN = "known-"  # a password, from a browser in which somebody has signed in with the name
    CODE = "code-"  # of a second factor


def begin_sign_in(address: str, name: str, now: datetime, way: Way = Way.PASSWORD) -> None:
    """Count an attempt. Raises TooManyRequests ``too_many_sign_ins`` where there were as many as there may be."""
    refused_until = None
    counts = [(_account_key(name, way), MOST_PER_ACCOUNT)]
    if way != Way.KNOWN:  # whose address a stranger may share
        counts.insert(0, (_address_key(address), MOST_PER_ADDRESS))
    with write_transaction():
        # Always in this order: two attempts wait for each other, and in no circle.
        for key, most in counts:
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


def end_sign_in(address: str, name: str, way: Way = Way.PASSWORD) -> None:
    """It was right: the name's errors on this way are forgotten, and the address has one less."""
    with write_transaction():
        if way != Way.KNOWN:
            SignInCount.objects.filter(key=_address_key(address), attempts__gt=0).update(attempts=F("attempts") - 1)
        SignInCount.objects.filter(key=_account_key(name, way)).delete()


def forget_errors(name: str) -> None:
    """Let a name that is refused be tried again, on each way: its password is another one now."""
    SignInCount.objects.filter(key__in=[_account_key(name, way) for way in Way]).delete()


def mark_of(name: str, now: datetime) -> str:
    """What a browser keeps as `MARK_COOKIE` after somebody signed in with ``name``. It opens nothing."""
    return _marks().sign_object({"name": _account_key(name), "at": int(now.timestamp())})


def is_mark_of(mark: str, name: str, now: datetime) -> bool:
    """Was ``mark`` made here for ``name``, and not longer than `KNOWN_FOR` ago?"""
    try:
        said = _marks().unsign_object(mark)
    except (BadSignature, ValueError):  # also of what is no UTF-8
        return False
    return said["name"] == _account_key(name) and now.timestamp() - said["at"] < KNOWN_FOR.total_seconds()


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


def _marks() -> Signer:
    return Signer(salt="croniq.known_browser")


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


def _account_key(name: str, way: Way = Way.PASSWORD) -> str:
    # Its digest: a name may be a password that somebody entered in the wrong field.
    plain = unicodedata.normalize("NFKC", name).casefold()
    return f"account:{way}{hashlib.sha256(plain.encode('utf-8', 'surrogatepass')).hexdigest()[:40]}"
