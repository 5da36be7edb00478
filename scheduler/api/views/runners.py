"""/v1/runners: who does the work."""

from __future__ import annotations

from rest_framework.request import Request
from rest_framework.response import Response

from croniq_site.kernel.errors import NotFound
from runners.api.parameters import choice_of, name_in_path
from runners.api.views import ApiView
from scheduler.api import openapi, schema, wire
from scheduler.api.paging import list_answer
from scheduler.api.views.jobs import actor_of
from scheduler.domain.job_fields import refuse_unknown
from scheduler.queries.runners import STATUSES, runner_list
from scheduler.services.drain import Drained, drain_runner, resume_runner
from scheduler.services.identities import release_identity


class Runners(ApiView):
    required_scope = {"GET": "runners:read"}

    @openapi.documented(
        "listRunners",
        "The runners, by id. A tenant sees those of its own API clients.",
        {200: openapi.listed(schema.RunnerAnswer)},
        parameters=[openapi.query("status", enum=list(STATUSES)), *openapi.PAGING],
        refuses=(400,),
    )
    def get(self, request: Request) -> Response:
        status = choice_of(request, "status", STATUSES)
        return list_answer(
            request,
            lambda limit, after: runner_list(
                self.now, tenant=self.principal.tenant, status=status, limit=limit, after=after[0] if after else ""
            ),
            body=wire.runner_body,
            key=lambda runner: (runner.runner_id,),
            key_parts=(str,),
        )


class OneRunner(ApiView):
    required_scope = {"DELETE": "runners:write"}

    @openapi.documented(
        "releaseRunner",
        "Release a runner's identity: its claims go back, and whoever uses the id next owns it.",
        {204: None},
        refuses=(404,),
    )
    def delete(self, request: Request, runner_id: str) -> Response:
        released = release_identity(
            name_in_path(runner_id, "runner"), self.now, actor_of(self), tenant=self.principal.tenant
        )
        if released is None:
            raise NotFound(f"There is no runner {runner_id!r}.")
        return Response(status=204)


class Drain(ApiView):
    required_scope = {"POST": "runners:write"}

    @openapi.documented(
        "drainRunner",
        "Let a runner finish what it holds and take no more, also when it starts anew, until it is resumed. Again "
        "changes the reason alone.",
        {200: schema.DrainAnswer},
        body=schema.DrainBody,
        refuses=(400, 404, 413),
    )
    def post(self, request: Request, runner_id: str) -> Response:
        refuse_unknown(self.body, {"reason"})
        name, reason = name_in_path(runner_id, "runner"), self.body.get("reason", "")
        return _answer(drain_runner(name, self.now, actor_of(self), reason=reason, tenant=self.principal.tenant), name)


class Resume(ApiView):
    required_scope = {"POST": "runners:write"}

    @openapi.documented(
        "resumeRunner",
        "Let a drained runner take work again. Again changes nothing.",
        {200: schema.DrainAnswer},
        refuses=(400, 404, 413),
    )
    def post(self, request: Request, runner_id: str) -> Response:
        refuse_unknown(self.body, set())
        name = name_in_path(runner_id, "runner")
        return _answer(resume_runner(name, self.now, actor_of(self), tenant=self.principal.tenant), name)


def _answer(done: Drained | None, runner_id: str) -> Response:
    if done is None:
        raise NotFound(f"There is no runner {runner_id!r}.")
    at = wire.instant(done.drained_at)
    return Response({"runner_id": done.runner_id, "drained_at": at, "drain_reason": done.reason})
