"""Secrets by reference: resolved here, from the runner's own environment or files, and hidden in all that it says."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

from croniq_site.kernel.secret_names import RULE, VARIABLE, is_secret_name

MASK = "***"
MOST_BYTES = 64 * 1024
_LEAST_PART = 8


class ActionRefused(Exception):
    """This runner will not, or cannot, execute the action; the text is the run's error."""


@dataclass(frozen=True, slots=True)
class SecretRef:
    """The name of a secret, and what stands before its value."""

    name: str
    prefix: str = ""


Value = str | SecretRef


def value_of(field: str, value: Any) -> Value:
    """Read a text or a reference of an action. Raises ActionRefused, naming ``field``."""
    if isinstance(value, str):
        return value
    if not is_reference(value):
        raise ActionRefused(f"{field!r} is not a text and no reference to a secret")
    name, prefix = value["secret"], value.get("prefix", "")
    if not is_secret_name(name) or not isinstance(prefix, str):
        raise ActionRefused(f"{field!r}: {RULE}")
    return SecretRef(name, prefix)


def is_reference(value: Any) -> bool:
    return isinstance(value, Mapping) and "secret" in value and value.keys() <= {"secret", "prefix"}


class Secrets:
    """The secrets of one run: looked up when they are asked for, so that a file that changed is read anew."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._environ = environ
        self._revealed: set[str] = set()

    def reveal(self, value: Value) -> str:
        """Return the text that ``value`` stands for. Raises ActionRefused, naming a secret that is not here."""
        if isinstance(value, str):
            return value
        secret = self._look_up(value.name)
        self._revealed.add(secret)
        return value.prefix + secret

    def reveal_json(self, value: Any) -> Any:
        """Return a JSON value with each reference in it, at any depth, replaced by its text."""
        if is_reference(value):
            return self.reveal(value_of("json", value))
        if isinstance(value, Mapping):
            return {key: self.reveal_json(child) for key, child in value.items()}
        if isinstance(value, list):
            return [self.reveal_json(child) for child in value]
        return value

    def hide(self, text: str) -> None:
        """Hide also this part of a secret, unless it is too short to be one."""
        if len(text) >= _LEAST_PART:
            self._revealed.add(text)

    def mask(self) -> Mask:
        """Return what hides every secret that has been revealed so far."""
        return Mask(self._revealed)

    def _look_up(self, name: str) -> str:
        variable = VARIABLE + name
        secret, path = self._environ.get(variable), self._environ.get(f"{variable}_FILE")
        if secret is None and path:
            variable += "_FILE"
            try:
                with Path(path).open("rb") as file:
                    data = file.read(MOST_BYTES + 1)
                secret = data.decode()
            except (OSError, ValueError) as error:
                why = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
                raise ActionRefused(f"the file of the secret {name!r} ({variable}) cannot be read: {why}") from None
            if len(data) > MOST_BYTES:
                raise ActionRefused(f"the file of the secret {name!r} ({variable}) has more than {MOST_BYTES} bytes")
            secret = secret.removesuffix("\n").removesuffix("\r")  # the end of a line that an editor wrote
        if secret is None:
            raise ActionRefused(
                f"this runner has no secret {name!r}: neither {variable} nor {variable}_FILE is set in its environment"
            )
        if not secret:
            raise ActionRefused(f"the secret {name!r} ({variable}) is empty")
        return secret


class Mask:
    """Hides secrets in bytes and texts. Also in the forms in which answers repeat them: as in JSON and as in a URL."""

    def __init__(self, secrets: Iterable[str]) -> None:
        forms = {form for text in secrets for form in _forms(text) if form}
        # The longest first: of two of which one begins with the other, none may leave its end behind.
        self._secrets = sorted((form.encode("utf-8", "surrogateescape") for form in forms), key=len, reverse=True)
        self._pattern = re.compile(b"|".join(map(re.escape, self._secrets))) if self._secrets else None

    def text(self, text: str) -> str:
        if self._pattern is None:
            return text
        masked = self._pattern.sub(MASK.encode(), text.encode("utf-8", "surrogateescape"))
        return masked.decode("utf-8", "surrogateescape")

    def stream(self) -> MaskedStream:
        return MaskedStream(self._secrets, self._pattern)


def _forms(text: str) -> tuple[str, ...]:
    escaped = (json.dumps(text, ensure_ascii=ascii)[1:-1] for ascii in (True, False))
    return text, *escaped, quote(text, safe=""), quote(text)


class MaskedStream:
    """Hides secrets in bytes that come in pieces: the end of a piece that may be the beginning of one waits."""

    def __init__(self, secrets: list[bytes], pattern: re.Pattern[bytes] | None) -> None:
        self._secrets, self._pattern = secrets, pattern
        self._rest = b""

    def feed(self, data: bytes) -> bytes:
        """Take the next bytes; return what can be shown now."""
        if self._pattern is None:
            return data
        data = self._rest + data
        shown = bytearray()
        at, waits = 0, self._beginning_at(data, 0)
        # A match before `waits` is whole and cannot become a longer one: that would be a beginning itself.
        while (match := self._pattern.search(data, at)) is not None and match.start() < waits:
            shown += data[at : match.start()] + MASK.encode()
            at = match.end()
            if at > waits:
                waits = self._beginning_at(data, at)
        shown += data[at:waits]
        self._rest = data[waits:]
        return bytes(shown)

    def finish(self) -> bytes:
        """Return what has waited, when nothing follows."""
        rest, self._rest = self._rest, b""
        return self._pattern.sub(MASK.encode(), rest) if self._pattern is not None else rest

    def _beginning_at(self, data: bytes, start: int) -> int:
        """Return the first place from ``start`` at which the rest of ``data`` is the beginning of a secret."""
        first = len(data)
        for secret in self._secrets:
            at = data.find(secret[:1], max(start, len(data) - len(secret) + 1))
            while 0 <= at < first:
                if secret.startswith(data[at:]):
                    first = at
                at = data.find(secret[:1], at + 1)
        return first
