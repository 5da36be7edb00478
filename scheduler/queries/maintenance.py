"""Whether all dispatch is held."""

from __future__ import annotations

from scheduler.models import Maintenance


def current_maintenance() -> Maintenance | None:
    """Return the maintenance that is on, or that is just being ended; None while runs are handed out."""
    return Maintenance.objects.filter(is_on=True).first()
