"""Django's own models in its admin, whose forms save them without a service of ours: what they save is in the audit."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from django.db.models import Model
from django.forms import ModelForm
from django.http import HttpRequest

from croniq_site.kernel.clock import DatabaseClock
from runners.admin import actor_of
from runners.domain.differences import difference
from runners.services.audit import Event, record_events

_NOT_TOLD = {"id", "password", "data", "extra_data", "last_login", "date_joined", "created_at", "last_used_at"}
"""What says nothing, or is a secret."""


class ToldInTheAudit:
    """For a `ModelAdmin`: each row that is added, changed or deleted is an event of the user who did it, in the
    transaction in which it is done (the admin's own)."""

    def save_model(self, request: HttpRequest, obj: Model, form: ModelForm, change: bool) -> None:
        request.croniq_before = _told(type(obj)._base_manager.get(pk=obj.pk)) if change else {}
        super().save_model(request, obj, form, change)

    def log_addition(self, request: HttpRequest, obj: Model, message: Any) -> Any:
        self._tell(request, "created", obj, difference({}, _told(obj)))
        return super().log_addition(request, obj, message)

    def log_change(self, request: HttpRequest, obj: Model, message: Any) -> Any:
        # A password is changed by a page of its own, which saves nothing else.
        before = getattr(request, "croniq_before", None)
        diff = {"password": "changed"} if before is None else difference(before, _told(obj))
        if diff:
            self._tell(request, "updated", obj, diff)
        return super().log_change(request, obj, message)

    def log_deletions(self, request: HttpRequest, queryset: Iterable[Model]) -> Any:
        for obj in queryset:
            self._tell(request, "deleted", obj, difference(_told(obj), {}))
        return super().log_deletions(request, queryset)

    def _tell(self, request: HttpRequest, verb: str, obj: Model, diff: dict[str, Any]) -> None:
        # "group" is what limits jobs.
        kind = "user" if obj._meta.label == "auth.User" else obj._meta.label_lower.replace(".", "_")
        record_events([Event(f"{kind}.{verb}", kind, str(obj), actor_of(request), diff=diff)], DatabaseClock().now())


def _told(obj: Model) -> dict[str, Any]:
    plain = {field.name: field.value_from_object(obj) for field in obj._meta.concrete_fields}
    many = {field.name: sorted(map(str, getattr(obj, field.name).all())) for field in obj._meta.many_to_many}
    return {name: value for name, value in {**plain, **many}.items() if name not in _NOT_TOLD}
