"""The rules of zones and holidays by which everything was planned last."""

from __future__ import annotations

from runners.models import AuditEvent

FOLLOWED = "site.rules_followed"
"""The action of the event that a materializer leaves once all jobs are planned by its rules."""


def followed_versions() -> dict[str, str] | None:
    """The versions of the packages that gave the rules; None if nobody ever wrote it down."""
    event = AuditEvent.objects.filter(action=FOLLOWED).order_by("-id").first()
    return None if event is None else event.diff.get("versions")
