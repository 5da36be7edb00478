"""An HTTP action as it comes with an assignment, read strictly, and the request that it becomes on this runner."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import SplitResult, urlsplit

from runners.agent.secrets import ActionRefused, Secrets, Value, value_of

METHODS = {"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"}
SUCCESS = ((200, 299),)
RESPONSE_BYTES = 64 * 1024
REDIRECTS = ("none", "same_host", "any")

_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+", re.ASCII)
_HEADER_TEXT = re.compile(r"[\x20-\x7e\t]*", re.ASCII)
_RUNNERS_OWN = {"connection", "content-length", "expect", "te", "trailer", "transfer-encoding", "upgrade"}


@dataclass(frozen=True, slots=True)
class HttpAction:
    """A request to send. ``expected``: the statuses of success, ranges with both ends; ``timeout_seconds`` None means
    the run's own; ``redirects`` one of `REDIRECTS`; ``max_response``: bytes of the answer that the log keeps."""

    method: str
    url: Value
    headers: Mapping[str, Value] = field(default_factory=dict)
    body: Value | None = None
    json: Any = None
    expected: tuple[tuple[int, int], ...] = SUCCESS
    timeout_seconds: float | None = None
    redirects: str = "none"
    max_response: int = RESPONSE_BYTES

    def expects(self, status: int) -> bool:
        return any(low <= status <= high for low, high in self.expected)


@dataclass(frozen=True, slots=True)
class Request:
    """What goes over the wire, secrets in their places."""

    method: str
    url: str
    headers: tuple[tuple[str, str], ...]
    content: bytes | None


def http_of(action: Mapping[str, Any]) -> HttpAction:
    """Read an action of type http. Raises ActionRefused, naming the field."""
    method, headers, most = (
        action.get("method"),
        action.get("headers") or {},
        action.get("max_response", RESPONSE_BYTES),
    )
    if method not in METHODS:
        raise ActionRefused(f"'method' is {method!r}, not one of {', '.join(sorted(METHODS))}")
    if not isinstance(headers, Mapping):
        raise ActionRefused("'headers' is not an object of texts")
    for name in headers:
        if not _TOKEN.fullmatch(name) or name.lower() in _RUNNERS_OWN:
            raise ActionRefused(f"'headers' has {name!r}, which no action may set")
    if isinstance(most, bool) or not isinstance(most, int) or most < 0:
        raise ActionRefused("'max_response' is not a number of bytes")
    redirects = action.get("follow_redirects") or "none"
    if redirects not in REDIRECTS:
        raise ActionRefused(f"'follow_redirects' is {redirects!r}, not one of {', '.join(REDIRECTS)}")
    return HttpAction(
        method=method,
        url=value_of("url", action.get("url")),
        headers={name: value_of("headers", value) for name, value in headers.items()},
        body=None if action.get("body") is None else value_of("body", action["body"]),
        json=action.get("json"),
        expected=tuple(map(_status, action.get("expected_status") or ())) or SUCCESS,
        timeout_seconds=_seconds(action.get("timeout")),
        redirects=redirects,
        max_response=most,
    )


def request_of(action: HttpAction, secrets: Secrets, identity: Mapping[str, str]) -> Request:
    """Put the secrets in their places; ``identity``: headers that say which run this is. What the action says of
    ``Idempotency-Key`` counts, of the others the run's own. Raises ActionRefused."""
    url = secrets.reveal(action.url)
    if isinstance(action.url, str):
        target_of(url)
    else:
        parts = target_of(url, shown=f"the secret {action.url.name!r}")
        secrets.hide(path_of(parts))  # an answer may repeat it without the host
    headers = {"Accept": "*/*", "Accept-Encoding": "identity", "User-Agent": "croniq"}
    content = None
    if action.json is not None:
        content = json.dumps(secrets.reveal_json(action.json), ensure_ascii=False).encode("utf-8", "replace")
        headers["Content-Type"] = "application/json"
    elif action.body is not None:
        content = secrets.reveal(action.body).encode("utf-8", "replace")
    elif action.method in ("POST", "PUT", "PATCH"):
        content = b""
    own = {name: _header(name, secrets.reveal(value)) for name, value in action.headers.items()}
    of_run = {name: value for name, value in identity.items() if name != "Idempotency-Key"}
    return Request(action.method, url, tuple(_joined(headers, identity, own, of_run).items()), content)


def target_of(url: str, shown: str | None = None) -> SplitResult:
    """The parts of a URL that can be requested. Raises ActionRefused, which calls it ``shown``; None: shows it."""
    try:
        parts = urlsplit(url)
        is_usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_usable = False
    if not is_usable or not url.isascii() or not url.isprintable() or set(" \\") & set(url):
        raise ActionRefused(f"{shown or repr(url[:200])} is no URL of the form https://host/path")
    if "@" in parts.netloc:
        raise ActionRefused("a URL with a user in it is not sent; name a secret in 'headers'")
    return parts


def path_of(parts: SplitResult) -> str:
    """What of a URL stands in the request line: all of its path, also what follows a semicolon, and its query."""
    return (parts.path or "/") + (f"?{parts.query}" if parts.query else "")


def _joined(*sources: Mapping[str, str]) -> dict[str, str]:
    """The later wins, whatever the case of its name."""
    joined: dict[str, tuple[str, str]] = {}
    for source in sources:
        joined |= {name.lower(): (name, value) for name, value in source.items()}
    return dict(joined.values())


def _header(name: str, value: str) -> str:
    if not _HEADER_TEXT.fullmatch(value):
        raise ActionRefused(f"the header {name} cannot be sent: its value is not one line of printable ASCII")
    return value.strip()


def _status(item: Any) -> tuple[int, int]:
    low, _, high = str(item).partition("-")
    try:
        return int(low), int(high or low)
    except ValueError:
        raise ActionRefused(f"'expected_status' has {item!r}, which is no status") from None


def _seconds(value: Any) -> float | None:
    if value is None:
        return None
    try:
        seconds = float(str(value).removesuffix("s"))
    except ValueError:
        seconds = 0.0
    if not seconds > 0:
        raise ActionRefused(f"'timeout' is {value!r}, which is no duration")
    return seconds
