"""All rows of the app, to prove that nothing changed."""

from __future__ import annotations

from django.apps import apps

from runners.models import AuditEvent
from runners.services.audit import Actor

SYSTEM_ACTOR = Actor("system", "")


def everything() -> dict[str, list[dict]]:
    """Return every row of the scheduler's tables and of the audit."""
    models = [*apps.get_app_config("scheduler").get_models(), AuditEvent]
    return {model.__name__: list(model.objects.order_by("pk").values()) for model in models}
