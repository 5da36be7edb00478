"""What this server is and how it does: for load balancers, for monitors, for people who write clients."""

from __future__ import annotations

import os
from functools import lru_cache
from importlib.metadata import PackageNotFoundError, version

from django.conf import settings
from django.http import HttpResponse
from drf_spectacular.generators import SchemaGenerator
from drf_spectacular.renderers import OpenApiYamlRenderer
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import extend_schema
from prometheus_client import CONTENT_TYPE_LATEST
from rest_framework.permissions import BasePermission
from rest_framework.request import Request
from rest_framework.response import Response

from croniq_site.kernel.database import patient_for
from croniq_site.kernel.errors import Forbidden
from runners.api import authentication, parameters
from runners.api.authentication import PUBLIC, HasScope
from runners.api.views import ApiView
from scheduler.api import openapi, schema, wire
from scheduler.metrics.access import is_allowed_address
from scheduler.metrics.exposition import exposition
from scheduler.queries import readiness
from scheduler.queries.health import site_health
from scheduler.queries.readiness import Readiness, Tick


class Health(ApiView):
    required_scope = {"GET": PUBLIC}
    authentication_classes = []

    @openapi.documented("health", "Is this server well?", {200: schema.HealthAnswer}, public=True)
    def get(self, request: Request) -> Response:
        with patient_for(readiness.LOCK_SECONDS):
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


class Ready(ApiView):
    required_scope = {"GET": PUBLIC}
    authentication_classes = []

    @openapi.documented(
        "ready",
        "May this server have traffic? 503 if not: the database or its migrations. A silent worker is `degraded` and "
        "200, because taking the servers away would not help; 503 with `?workers=1`.",
        {200: schema.ReadyAnswer, 503: schema.ReadyAnswer},
        parameters=[openapi.query("workers", OpenApiTypes.BOOL, says="Answer 503 for silent workers too.")],
        public=True,
    )
    def get(self, request: Request) -> Response:
        workers_count = parameters.flag_of(request, "workers")
        found = readiness.readiness(authentication.CLOCK)
        is_ready = found.is_whole if workers_count else found.can_serve
        status = "ready" if found.is_whole else "degraded" if is_ready else "not_ready"
        return Response({"status": status, "checks": _checks(found)}, status=200 if is_ready else 503)


def _checks(found: Readiness) -> dict[str, dict]:
    def tick(of: Tick) -> dict:
        age = None if of.age_seconds is None else round(of.age_seconds, 1)
        return {"ok": of.is_ok if found.is_reachable else None, "age_seconds": age}

    pending = found.lacking
    return {
        "database": {"ok": found.is_reachable},
        "migrations": {"ok": None if pending is None else pending == 0, "pending": pending},
        "materializer": tick(found.materializer),
        "reaper": tick(found.reaper),
    }


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
    """An address of ``CRONIQ_METRICS_ALLOW``, or a key with ``metrics:read`` that is not of one tenant: the series name
    everybody's jobs."""

    def has_permission(self, request: Request, view: ApiView) -> bool:
        if is_allowed_address(request.META):
            return True
        if not HasScope().has_permission(request, view):
            return False
        if request.user.tenant is not None:
            raise Forbidden(f"Metrics are of all tenants; this key is of the tenant {request.user.tenant!r}.")
        return True


class Metrics(ApiView):
    required_scope = {"GET": "metrics:read"}
    permission_classes = [MetricsAllowed]

    @extend_schema(exclude=True)
    def get(self, request: Request) -> HttpResponse:
        with patient_for(readiness.LOCK_SECONDS):
            text = exposition(self.now, installed_version())
        return HttpResponse(text, content_type=CONTENT_TYPE_LATEST)
