"""How a person likes to see pages."""

from __future__ import annotations

from datetime import datetime

from django.contrib.auth import get_user_model

from calendars.domain.zones import load_zone
from croniq_site.kernel.database import write_transaction
from croniq_site.kernel.errors import NotFound
from runners.models import Preferences
from runners.services.audit import Actor, Event, record_events


def choose_time_zone(user_id: int, time_zone: str, now: datetime, actor: Actor) -> None:
    """Let somebody see instants in a zone; empty: in his browser's. Raises InvalidInput ``time_zone``, NotFound."""
    if time_zone:
        load_zone(time_zone, field="time_zone")
    with write_transaction():
        user = get_user_model().objects.select_for_update(no_key=True).filter(pk=user_id).first()
        if user is None:
            raise NotFound("There is no such user.")
        row = Preferences.objects.filter(user=user).first() or Preferences(user=user)
        if row.time_zone == time_zone:
            return
        diff = {"time_zone": [row.time_zone, time_zone]}
        row.time_zone = time_zone
        row.save()
        record_events([Event("user.updated", "user", user.get_username(), actor, diff=diff)], now)
