"""What this server is and how it does: for load balancers, for monitors, for people who write clients."""

from __future__ import annotations

import ipaddress
import os
from functools import lru_cache
from importlib.metadata import PackageNotFoundError, version

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from drf_spectacular.generators import SchemaGenerator
from drf_spectacular.renderers import OpenApiYamlRenderer
from drf_spectacular.utils import extend_schema
from prometheus_client import CONTENT_TYPE_LATEST, REGISTRY, generate_latest
from rest_framework.permissions import BasePermission
from rest_framework.request import Request
from rest_framework.response import Response

from runners.api.authentication import PUBLIC, HasScope
from runners.api.views import ApiView
from scheduler.api import openapi, schema, wire
from scheduler.queries.health import site_health


class Health(ApiView):
    required_scope = {"GET": PUBLIC}
    authentication_classes = []

    @openapi.documented("health", "Is this server well?", {200: schema.HealthAnswer}, public=True)
    def get(self, request: Request) -> Response:
        health = site_health(self.now)
        return Response(
            {
                "status": "ok",
                "runners_online": health.runners_online,
                "runners_stale": health.runners_stale,
                "runners_dead": health.runners_dead,
                "queued": health.queued,
                "scheduler_last_tick_at": wire.instant(health.scheduler_last_tick_at),
            }
        )


class Version(ApiView):
    required_scope = {"GET": PUBLIC}
    authentication_classes = []

    @openapi.documented("version", "Which Croniq is this?", {200: schema.VersionAnswer}, public=True)
    def get(self, request: Request) -> Response:
        return Response(
            {
                "version": installed_version(),
                "git_sha": os.environ.get("CRONIQ_GIT_SHA") or None,
                "build_time": os.environ.get("CRONIQ_BUILD_TIME") or None,
                "env": "development" if settings.DEBUG else "production",
            }
        )


@lru_cache(maxsize=1)
def installed_version() -> str:
    """Return the package's version; a clone that was never installed has that of its OpenAPI document."""
    try:
        return version("croniq")
    except PackageNotFoundError:
        return settings.SPECTACULAR_SETTINGS["VERSION"]


class OpenApi(ApiView):
    required_scope = {"GET": PUBLIC}
    authentication_classes = []

    @extend_schema(exclude=True)
    def get(self, request: Request) -> HttpResponse:
        return HttpResponse(openapi_text(), content_type="application/yaml; charset=utf-8")


@lru_cache(maxsize=1)
def openapi_text() -> bytes:
    """Return the OpenAPI document as YAML. Made once: anybody may ask for it, and it takes a fifth of a second."""
    return OpenApiYamlRenderer().render(openapi_document())


def openapi_document() -> dict:
    """Return the OpenAPI document of every path under the rest framework."""
    return SchemaGenerator().get_schema(request=None, public=True)


class MetricsAllowed(BasePermission):
    """An address of ``CRONIQ_METRICS_ALLOW``, or a key with ``metrics:read``."""

    def has_permission(self, request: Request, view: ApiView) -> bool:
        return is_allowed_address(request) or HasScope().has_permission(request, view)


def is_allowed_address(request: HttpRequest | Request) -> bool:
    try:
        address = ipaddress.ip_address(request.META.get("REMOTE_ADDR", ""))
    except ValueError:
        return False
    mapped = getattr(address, "ipv4_mapped", None)
    return any((mapped or address) in ipaddress.ip_network(net, strict=False) for net in settings.CRONIQ_METRICS_ALLOW)


class Metrics(ApiView):
    required_scope = {"GET": "metrics:read"}
    permission_classes = [MetricsAllowed]

    @extend_schema(exclude=True)
    def get(self, request: Request) -> HttpResponse:
        return HttpResponse(generate_latest(REGISTRY), content_type=CONTENT_TYPE_LATEST)
