"""/v1/dead-letters: runs that used up their attempts."""

from __future__ import annotations

from uuid import UUID

from rest_framework.request import Request
from rest_framework.response import Response

from croniq_site.kernel.errors import InvalidInput, NotFound
from runners.api.parameters import instant_part, text_of, uuid_in_path
from runners.api.views import ApiView
from scheduler.api import openapi, schema, wire
from scheduler.api.bulk import Asked, asked_of, bulk_answer
from scheduler.api.paging import list_answer
from scheduler.api.views.jobs import actor_of
from scheduler.domain.inputs import flag_of, uuids_of
from scheduler.domain.job_fields import job_key_of, refuse_unknown
from scheduler.queries.bulk import MOST, letters_to_delete
from scheduler.queries.letters import letter_detail, letter_list
from scheduler.services.bulk import Done
from scheduler.services.letters import delete_letter, delete_letters, replay_letter


class DeadLetters(ApiView):
    required_scope = {"GET": "dead-letters:read"}

    @openapi.documented(
        "listDeadLetters",
        "The dead letters, newest first.",
        {200: openapi.listed(schema.LetterAnswer)},
        parameters=[openapi.query("job_key"), *openapi.PAGING],
        refuses=(400,),
    )
    def get(self, request: Request) -> Response:
        job_key = text_of(request, "job_key")
        return list_answer(
            request,
            lambda limit, before: letter_list(
                tenant=self.principal.tenant, job_key=job_key, limit=limit, before=before
            ),
            body=wire.letter_body,
            key=lambda letter: (letter.created_at, letter.id),
            key_parts=(instant_part, UUID),
        )


class OneDeadLetter(ApiView):
    required_scope = {"GET": "dead-letters:read", "DELETE": "dead-letters:write"}

    @openapi.documented("getDeadLetter", "One dead letter.", {200: schema.LetterAnswer}, refuses=(400, 404))
    def get(self, request: Request, letter_id: str) -> Response:
        letter = letter_detail(uuid_in_path(letter_id), self.principal.tenant)
        if letter is None:
            raise NotFound(f"There is no dead letter {letter_id}.")
        return Response(wire.letter_body(letter))

    @openapi.documented("deleteDeadLetter", "Throw a dead letter away.", {204: None}, refuses=(400, 404))
    def delete(self, request: Request, letter_id: str) -> Response:
        delete_letter(uuid_in_path(letter_id), self.now, actor_of(self), self.principal)
        return Response(status=204)


class ReplayDeadLetter(ApiView):
    required_scope = {"POST": "dead-letters:write"}

    @openapi.documented(
        "replayDeadLetter",
        "Run what died once more, with fresh attempts. A letter is replayed once: again answers the same run.",
        {200: schema.ReplayAnswer},
        body=schema.ReplayBody,
        refuses=(400, 404, 409),
    )
    def post(self, request: Request, letter_id: str) -> Response:
        refuse_unknown(self.body, {"force"})
        force = flag_of("force", self.body.get("force", False))
        replay = replay_letter(uuid_in_path(letter_id), self.now, actor_of(self), self.principal, force=force)
        return Response(
            {
                "execution_id": str(replay.run_id),
                "attempt": 1,
                "scheduled_for": wire.instant(replay.scheduled_for),
            }
        )


class DeleteDeadLetters(ApiView):
    required_scope = {"POST": "dead-letters:write"}

    @openapi.documented(
        "deleteDeadLetters",
        "Throw dead letters away: those of ids, or all; of one job where job_key is given. With dry_run it only "
        "counts; with expected it is done to what is there only if it is so many.",
        {200: schema.BulkDeleteAnswer},
        body=schema.BulkDeleteBody,
        refuses=(400, 409, 413),
    )
    def post(self, request: Request) -> Response:
        asked = asked_of(self.body, {"ids", "all", "job_key"}, is_named=True)
        if asked.dry_run or asked.expected is not None:
            return self._counted(asked)
        deleted = delete_letters(
            self.now,
            actor_of(self),
            self.principal,
            ids=self.body.get("ids"),
            everything=self.body.get("all"),
            job_key=self.body.get("job_key"),
        )
        return Response({"deleted": deleted})

    def _counted(self, asked: Asked) -> Response:
        ids, job_key = self.body.get("ids"), self.body.get("job_key")
        if (ids is not None) == flag_of("all", self.body.get("all", False)):
            raise InvalidInput.of("ids", "Say which letters: either their ids, or all.")
        found = letters_to_delete(
            self.principal.tenant,
            None if job_key is None else job_key_of("job_key", job_key),
            None if ids is None else uuids_of("ids", ids, most=MOST),
        )
        answer = bulk_answer(asked, found, self._delete)
        answer.data["deleted"] = answer.data["changed"]
        return answer

    def _delete(self, ids: list[UUID]) -> Done:
        deleted = delete_letters(self.now, actor_of(self), self.principal, ids=ids)
        return Done(ids[:deleted], [])
