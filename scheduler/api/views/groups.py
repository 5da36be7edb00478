"""/v1/concurrency-groups (ours): limits that several jobs share. A group is named by its name within its tenant."""

from __future__ import annotations

from rest_framework.request import Request
from rest_framework.response import Response

from croniq_site.kernel.errors import InvalidInput
from runners.api.parameters import name_in_path
from runners.api.views import ApiView
from scheduler.api import openapi, schema, wire
from scheduler.api.paging import list_answer
from scheduler.api.views.jobs import actor_of
from scheduler.domain.inputs import slug_of
from scheduler.domain.job_fields import refuse_unknown
from scheduler.queries.groups import group_list
from scheduler.services.groups import delete_group, save_group
from scheduler.services.jobs import DEFAULT_TENANT

_TENANT = openapi.query("tenant", says="Of a key without a tenant: whose group it is; default is 'default'.")


class Groups(ApiView):
    required_scope = {"GET": "jobs:read"}

    @openapi.documented(
        "listConcurrencyGroups",
        "The concurrency groups, by name.",
        {200: openapi.listed(schema.GroupAnswer)},
        parameters=[*openapi.PAGING],
        refuses=(400,),
    )
    def get(self, request: Request) -> Response:
        return list_answer(
            request,
            lambda limit, after: group_list(tenant=self.principal.tenant, limit=limit, after=after),
            body=wire.group_body,
            key=lambda group: (group.name, group.tenant),
            key_parts=(str, str),
        )


class OneGroup(ApiView):
    required_scope = {"PUT": "jobs:write", "DELETE": "jobs:write"}

    @openapi.documented(
        "saveConcurrencyGroup",
        "Make a concurrency group, or give it another limit: 201 or 200.",
        {200: schema.GroupAnswer, 201: schema.GroupAnswer},
        body=schema.GroupBody,
        parameters=[_TENANT],
        refuses=(400, 404, 409, 413),
    )
    def put(self, request: Request, name: str) -> Response:
        name, tenant = name_in_path(name, "concurrency group"), self._tenant(request)
        refuse_unknown(self.body, {"name", "tenant", "max_concurrent"})
        for field, value in (("name", name), ("tenant", tenant)):
            if self.body.get(field, value) != value:
                raise InvalidInput.of(field, f"The path says which group it is; {field} cannot be another there.")
        limit = self.body.get("max_concurrent")
        is_new = save_group(name, limit, self.now, actor_of(self), tenant)
        body = {"name": name, "tenant": tenant, "max_concurrent": limit}
        return Response(body, status=201 if is_new else 200)

    @openapi.documented(
        "deleteConcurrencyGroup",
        "Delete a concurrency group that no job needs.",
        {204: None},
        parameters=[_TENANT],
        refuses=(400, 404, 409),
    )
    def delete(self, request: Request, name: str) -> Response:
        name = name_in_path(name, "concurrency group")
        delete_group(name, self.now, actor_of(self), self._tenant(request))
        return Response(status=204)

    def _tenant(self, request: Request) -> str:
        if self.principal.tenant is not None:
            return self.principal.tenant
        return slug_of("tenant", request.GET.get("tenant", DEFAULT_TENANT))
