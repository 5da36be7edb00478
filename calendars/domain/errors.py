"""The refusal of a schedule or a calendar: it always names one field."""

from __future__ import annotations

from croniq_site.kernel.errors import InvalidInput


class InvalidField(InvalidInput):
    """Refuse one field of a schedule or calendar; the API answers it as 400 with the field named."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(message, fields={field: [message]})
        self.field = field
