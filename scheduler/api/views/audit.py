"""/v1/audit: what happened, by whom."""

from __future__ import annotations

from rest_framework.request import Request
from rest_framework.response import Response

from runners.api.parameters import instant_of, instant_part, text_of
from runners.api.views import ApiView
from runners.models import AuditEvent
from runners.queries.audit import AuditFilter, audit_list
from scheduler.api import insights_schema, openapi, wire
from scheduler.api.paging import list_answer

_FILTERS = ("actor_type", "actor_id", "action", "target_type", "target_id")


def event_body(event: AuditEvent) -> wire.Body:
    return {
        "event_id": str(event.event_id),
        "actor_type": event.actor_type,
        "actor_id": event.actor_id,
        "action": event.action,
        "target_type": event.target_type,
        "target_id": event.target_id,
        "tenant": event.tenant,
        "diff": event.diff,
        "request_id": event.request_id or None,
        "created_at": wire.instant(event.created_at),
    }


class Audit(ApiView):
    required_scope = {"GET": "audit:read"}

    @openapi.documented(
        "listAuditEvents",
        "What happened, newest first. A key with a tenant sees the events of its tenant.",
        {200: openapi.listed(insights_schema.AuditEventAnswer)},
        parameters=[
            *(openapi.query(name) for name in _FILTERS),
            openapi.query("since", openapi.OpenApiTypes.DATETIME),
            openapi.query("until", openapi.OpenApiTypes.DATETIME),
            *openapi.PAGING,
        ],
        refuses=(400,),
    )
    def get(self, request: Request) -> Response:
        filters = AuditFilter(
            tenant=self.principal.tenant,
            since=instant_of(request, "since"),
            until=instant_of(request, "until"),
            **{name: text_of(request, name) for name in _FILTERS},
        )
        return list_answer(
            request,
            lambda limit, before: audit_list(filters, limit, before),
            body=event_body,
            key=lambda event: (event.created_at, event.pk),
            key_parts=(instant_part, pk_part),
        )


def pk_part(text: str) -> int:
    """Read a row's number of a cursor; raises ValueError."""
    number = int(text) if len(text) <= 19 else -1
    if not 0 <= number < 2**63:
        raise ValueError(text)
    return number
