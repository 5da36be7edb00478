"""/v1/executions/bulk-cancel and bulk-replay, /v1/dead-letters/bulk-replay: many runs with one request."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from rest_framework.request import Request
from rest_framework.response import Response

from croniq_site.kernel.errors import InvalidInput
from runners.api.views import ApiView
from scheduler.api import bulk_schema, openapi
from scheduler.api.bulk import asked_of, bulk_answer
from scheduler.api.views.jobs import actor_of
from scheduler.domain.inputs import choice_of, flag_of, name_of, text_of, uuids_of
from scheduler.domain.trigger_fields import instant_of
from scheduler.queries.bulk import (
    MOST,
    REPEATABLE,
    STOPPABLE,
    entry_states,
    letters_to_replay,
    runs_to_cancel,
    runs_to_replay,
)
from scheduler.queries.runs import RunFilter
from scheduler.services.bulk import cancel_many, one_by_one
from scheduler.services.letters import replay_letter
from scheduler.services.replays import replay_run

_FILTERS = {"ids", "job_key", "state", "runner_id", "since", "until"}


def _ids_of(body: dict[str, Any]) -> list[UUID] | None:
    ids = body.get("ids")
    return None if ids is None else uuids_of("ids", ids, most=MOST)


def _filter_of(view: ApiView, states: Sequence[str], *, planned: bool) -> RunFilter:
    """Read the filters of the list of runs from a body; null is as good as missing."""
    readers = {
        "job_key": name_of,
        "runner_id": name_of,
        "since": instant_of,
        "until": instant_of,
        "state": lambda field, value: choice_of(field, value, states),
    }
    given = {name: read(name, view.body[name]) for name, read in readers.items() if view.body.get(name) is not None}
    return RunFilter(tenant=view.principal.tenant, planned=planned, **given)


class CancelExecutions(ApiView):
    required_scope = {"POST": "executions:cancel"}

    @openapi.documented(
        "cancelExecutions",
        "Cancel all unfinished runs that match: first with dry_run, which counts, then with what it counted. A run "
        "that was claimed or ended since is left alone.",
        {200: bulk_schema.BulkAnswer},
        body=bulk_schema.BulkCancelBody,
        refuses=(400, 409, 413),
    )
    def post(self, request: Request) -> Response:
        ids = _ids_of(self.body)
        asked = asked_of(self.body, {*_FILTERS, "planned", "reason"}, is_named=ids is not None)
        planned = ids is not None or flag_of("planned", self.body.get("planned", False))
        filters = _filter_of(self, STOPPABLE, planned=planned)
        reason = text_of("reason", self.body.get("reason", ""), most=255)
        return bulk_answer(
            asked,
            runs_to_cancel(self.now, filters, ids),
            lambda found: cancel_many(found, entry_states(filters.state), self.now, actor_of(self), reason),
        )


class ReplayExecutions(ApiView):
    required_scope = {"POST": "jobs:trigger"}

    @openapi.documented(
        "replayExecutions",
        "Do all ended runs that match once more, with fresh attempts: first with dry_run, which counts, then with what "
        "it counted. Each is replayed once, also by two requests.",
        {200: bulk_schema.BulkAnswer},
        body=bulk_schema.BulkReplayBody,
        refuses=(400, 409, 413),
    )
    def post(self, request: Request) -> Response:
        ids = _ids_of(self.body)
        asked = asked_of(self.body, _FILTERS, is_named=ids is not None)
        filters = _filter_of(self, REPEATABLE, planned=True)
        return bulk_answer(
            asked,
            runs_to_replay(self.now, filters, ids),
            lambda found: one_by_one(found, lambda run_id: replay_run(run_id, self.now, actor_of(self))),
        )


class ReplayDeadLetters(ApiView):
    required_scope = {"POST": "dead-letters:write"}

    @openapi.documented(
        "replayDeadLetters",
        "Run what died once more: the letters of ids, or all; of one job where job_key is given. First with dry_run, "
        "which counts, then with what it counted.",
        {200: bulk_schema.BulkAnswer},
        body=bulk_schema.BulkLettersBody,
        refuses=(400, 409, 413),
    )
    def post(self, request: Request) -> Response:
        ids = _ids_of(self.body)
        asked = asked_of(self.body, {"ids", "all", "job_key", "force"}, is_named=ids is not None)
        if (ids is None) == (flag_of("all", self.body.get("all", False)) is False):
            raise InvalidInput.of("ids", "Say which letters: either their ids, or all.")
        force = flag_of("force", self.body.get("force", False))
        job_key = self.body.get("job_key")

        def replay(letter_id: UUID) -> bool:
            return replay_letter(letter_id, self.now, actor_of(self), self.principal, force=force).is_new

        return bulk_answer(
            asked,
            letters_to_replay(self.principal.tenant, None if job_key is None else name_of("job_key", job_key), ids),
            lambda found: one_by_one(found, replay),
        )
