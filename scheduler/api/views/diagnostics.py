"""/v1/system/diagnostics: what `manage.py doctor` shows."""

from __future__ import annotations

from rest_framework.request import Request
from rest_framework.response import Response

from croniq_site.kernel.errors import Forbidden
from runners.api.views import ApiView
from scheduler.api import insights_schema, openapi, wire
from scheduler.api.views.site import installed_version
from scheduler.queries.diagnostics import diagnostics


class SystemDiagnostics(ApiView):
    required_scope = {"GET": "admin"}

    @openapi.documented(
        "getDiagnostics",
        "Which versions decide here, which processes are alive, and a sentence for each thing that somebody should "
        "look at, as `manage.py doctor` says it. `ok` is its exit code. Of all tenants: for keys without one.",
        {200: insights_schema.DiagnosticsAnswer},
    )
    def get(self, request: Request) -> Response:
        if self.principal.tenant is not None:
            raise Forbidden(f"Diagnostics are of all tenants; this key is of the tenant {self.principal.tenant!r}.")
        found = diagnostics(self.now, installed_version())
        return Response(
            {
                "ok": not found.problems,
                "versions": found.versions,
                "pending_migrations": found.pending_migrations,
                "processes": [
                    {
                        "kind": process.kind,
                        "last_beat_at": wire.instant(process.beat_at),
                        "last_pass_at": wire.instant(process.tick_at),
                    }
                    for process in found.processes
                ],
                "maintenance": found.maintenance is not None,
                "dead_letters": found.dead_letters,
                "retention": found.retention,
                "advice": found.advice,
                "problems": found.problems,
            }
        )
