"""/v1/dead-letters: runs that used up their attempts."""

from __future__ import annotations

from uuid import UUID

from rest_framework.request import Request
from rest_framework.response import Response

from croniq_site.kernel.errors import NotFound
from runners.api.parameters import instant_part, text_of, uuid_in_path
from runners.api.views import ApiView
from scheduler.api import openapi, schema, wire
from scheduler.api.paging import list_answer
from scheduler.queries.letters import letter_detail, letter_list


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
    required_scope = {"GET": "dead-letters:read"}

    @openapi.documented("getDeadLetter", "One dead letter.", {200: schema.LetterAnswer}, refuses=(400, 404))
    def get(self, request: Request, letter_id: str) -> Response:
        letter = letter_detail(uuid_in_path(letter_id), self.principal.tenant)
        if letter is None:
            raise NotFound(f"There is no dead letter {letter_id}.")
        return Response(wire.letter_body(letter))
