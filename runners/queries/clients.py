"""API clients and their keys, as lists."""

from __future__ import annotations

from django.db.models import QuerySet

from runners.models import ApiClient, ApiKey


def client_list(*, tenant: str | None = None, limit: int, after: str = "") -> list[ApiClient]:
    """Return at most ``limit`` clients by name, those after ``after``. A tenant sees its own."""
    return list(_clients(tenant).filter(name__gt=after).order_by("name")[:limit])


def client_of_id(client_id: int, tenant: str | None = None) -> ApiClient | None:
    return _clients(tenant).filter(pk=client_id).first()


def key_list(
    *, tenant: str | None = None, client_id: int | None = None, limit: int, before: int | None
) -> list[ApiKey]:
    """Return at most ``limit`` keys, live and ended, newest first, those before the key ``before``."""
    keys = _keys(tenant)
    if client_id is not None:
        keys = keys.filter(client_id=client_id)
    if before is not None:
        keys = keys.filter(pk__lt=before)
    return list(keys.order_by("-pk")[:limit])


def key_of_id(key_id: int, tenant: str | None = None) -> ApiKey | None:
    return _keys(tenant).filter(pk=key_id).first()


def _clients(tenant: str | None) -> QuerySet[ApiClient]:
    return ApiClient.objects.all() if tenant is None else ApiClient.objects.filter(tenant=tenant)


def _keys(tenant: str | None) -> QuerySet[ApiKey]:
    keys = ApiKey.objects.select_related("client")
    return keys if tenant is None else keys.filter(client__tenant=tenant)
