"""Refusals that a caller is told about. Everything else that is raised is a fault of ours."""

from __future__ import annotations

from collections.abc import Mapping, Sequence


class CroniqError(Exception):
    """A refusal with a machine code, one sentence a person can act on, and the HTTP status that says it.

    ``fields`` (only with 400) names what was wrong with which input field: ``{field: [sentence, …]}``.
    """

    status = 400
    code = "invalid"

    def __init__(
        self,
        message: str,
        *,
        code: str | None = None,
        fields: Mapping[str, Sequence[str]] | None = None,
        retry_after_seconds: int | None = None,
        extra: Mapping[str, object] | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.code = code or type(self).code
        self.fields = {name: list(texts) for name, texts in (fields or {}).items()}
        self.retry_after_seconds = retry_after_seconds
        self.extra = dict(extra or {})

    def as_body(self) -> dict[str, object]:
        """The JSON body of the refusal, as in the wire protocol."""
        body: dict[str, object] = {"error": self.code, "message": self.message, **self.extra}
        if self.fields:
            body["fields"] = self.fields
        return body


class InvalidInput(CroniqError):
    status, code = 400, "invalid"

    @classmethod
    def of(cls, field: str, message: str, *, code: str | None = None) -> InvalidInput:
        """Refuse one field."""
        return cls(message, code=code, fields={field: [message]})


class Unauthorized(CroniqError):
    status, code = 401, "unauthorized"


class Forbidden(CroniqError):
    status, code = 403, "forbidden"


class NotFound(CroniqError):
    status, code = 404, "not_found"


class Conflict(CroniqError):
    status, code = 409, "conflict"


class TooLarge(CroniqError):
    status, code = 413, "too_large"


class TooManyRequests(CroniqError):
    status, code = 429, "queue_full"


class Unavailable(CroniqError):
    """A passing fault, of the database above all. Never one of 401, 403, 409: those end a runner."""

    status, code = 503, "unavailable"
