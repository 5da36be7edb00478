"""Know of the times in which no runner could reach us: what was not renewed then is not the runners' fault."""

from __future__ import annotations

from datetime import datetime, timedelta

from django.db.models import Max

from croniq_site.kernel.database import write_transaction
from runners.models import Heartbeat, Outage
from runners.services.audit import Event, record_events

SILENCE = timedelta(seconds=5)
"""Longer than this without a heartbeat of any ``serve`` (each beats every two seconds) is an outage."""


def note_outage(now: datetime) -> datetime | None:
    """Write it down if no ``serve`` had a heartbeat for 5 s, and return when the latest outage ended (so far).

    Whoever wants to end claims calls it first, and every ``serve`` before its own heartbeat, in that transaction: the
    heartbeat hides the silence from all others. None: no outage is known of, nor where nobody ever served.
    """
    _forget_the_future(now)
    last = Heartbeat.objects.filter(kind="serve").aggregate(at=Max("beat_at"))["at"]
    if last is not None and now - last > SILENCE:
        with write_transaction():
            outage, is_new = Outage.objects.get_or_create(began_at=last, defaults={"ended_at": now})
            if is_new:
                record_events([Event("site.outage", "site", "serve", diff={"began_at": last.isoformat()})], now)
            elif outage.ended_at < now:
                # Others may have missed it later than this, by a clock that is read before the lock is had.
                Outage.objects.filter(pk=outage.pk, ended_at__lt=now).update(ended_at=now)
    return Outage.objects.order_by("-began_at").values_list("ended_at", flat=True).first()


def _forget_the_future(now: datetime) -> None:
    """The clock was stepped back: an outage that is said to end later than now ended now, if it had begun by then.
    Else all that falls due until then would count as missed in it."""
    later = Outage.objects.filter(ended_at__gt=now + SILENCE)
    if later.exists():
        later.filter(began_at__gt=now).delete()
        later.update(ended_at=now)
