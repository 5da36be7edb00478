"""Reading many fields of one input: whoever wrote it is told at once of all that is wrong with it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from croniq_site.kernel.errors import InvalidInput

T = TypeVar("T")


class AllAtOnce:
    """What was wrong so far, by field; of each field the first thing."""

    def __init__(self) -> None:
        self.wrong: dict[str, list[str]] = {}

    def read(self, parse: Callable[..., T], field: str, *values: Any, **options: Any) -> T | None:
        """Return ``parse(field, …)``; None if that is refused, which is remembered."""
        try:
            return parse(field, *values, **options)
        except InvalidInput as refused:
            for name, sentences in (refused.fields or {field: [refused.message]}).items():
                self.wrong.setdefault(name, sentences)
            return None

    def refuse(self, field: str, sentence: str) -> None:
        self.wrong.setdefault(field, [sentence])

    def end(self) -> None:
        """Raise InvalidInput with all of it if anything was wrong."""
        if self.wrong:
            message = " ".join(dict.fromkeys(" ".join(sentences) for sentences in self.wrong.values()))
            raise InvalidInput(message, fields=self.wrong)
