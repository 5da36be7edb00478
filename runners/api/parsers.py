"""Bodies: JSON objects in UTF-8, of a bounded size, that both databases can store."""

from __future__ import annotations

import json
import math
import re
from typing import Any

from rest_framework.parsers import BaseParser

from croniq_site.kernel.errors import InvalidInput, TooLarge
from croniq_site.kernel.json_bounds import has_more_values, is_deeper_than

MOST_BYTES = 1024 * 1024
MOST_DEPTH = 40
"""Metadata may nest 32 deep; a body is that and the little around it."""
MOST_READ_DEPTH = 200
"""What nests deeper than this is not read, and no field of it is named: the reader goes into each level."""
MOST_VALUES = 100_000

_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")


class JsonObjectParser(BaseParser):
    """Parse one JSON object of at most ``most_bytes``. Refuses what a column could not keep, naming the field."""

    media_type = "application/json"
    most_bytes = MOST_BYTES

    def parse(self, stream: Any, media_type: str | None = None, parser_context: Any = None) -> dict[str, Any]:
        raw = stream.read(self.most_bytes + 1)
        if len(raw) > self.most_bytes:
            raise TooLarge(f"The body may have {self.most_bytes} bytes at most.")
        return json_object(raw)


def json_object(raw: bytes) -> dict[str, Any]:
    """Return the JSON object that ``raw`` is. Raises InvalidInput, and TooLarge for more than `MOST_VALUES`."""
    if is_deeper_than(raw, MOST_READ_DEPTH):
        raise InvalidInput(f"The body nests deeper than {MOST_DEPTH} levels.", code="invalid_json")
    if has_more_values(raw, MOST_VALUES):
        raise TooLarge(f"The body holds more than {MOST_VALUES} values.")
    try:
        body = json.loads(
            raw.decode("utf-8"), object_pairs_hook=_object, parse_constant=_refuse_constant, parse_float=_finite
        )
    except ValueError as error:  # not UTF-8, not JSON, a number of thousands of digits
        raise InvalidInput(f"The body is not JSON: {str(error)[:200]}.", code="invalid_json") from None
    if not isinstance(body, dict):
        raise InvalidInput("The body must be a JSON object.", code="invalid_json")
    for name, value in body.items():
        if problem := _problem_of(name) or _problem_of(value):
            # The name itself may be what cannot be shown.
            raise InvalidInput.of(_UNSTORABLE.sub("\ufffd", name)[:100], problem)
    return body


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a name stands twice in an object")
    return found


def _refuse_constant(name: str) -> float:
    raise ValueError(f"{name} is not a JSON number")


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"{text[:40]} is larger than a number can be")
    return value


def _problem_of(value: Any) -> str | None:
    """Say why ``value`` cannot be stored. Level by level, not by recursion: depth is what the sender chooses."""
    level, depth = [value], 0
    while level:
        depth += 1
        if depth > MOST_DEPTH:
            return f"This nests deeper than {MOST_DEPTH} levels."
        below: list[Any] = []
        for item in level:
            if isinstance(item, str) and _UNSTORABLE.search(item):
                return "Text must not contain NUL or lone surrogates."
            if isinstance(item, dict):
                below.extend(item.keys())
                below.extend(item.values())
            elif isinstance(item, list):
                below.extend(item)
        level = below
    return None
