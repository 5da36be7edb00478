"""What an HTTP job sends and which answers are its success, as a caller writes it (design §10)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from croniq_site.kernel.errors import InvalidInput
from scheduler.domain.inputs import check_json, choice_of, seconds_of, whole_number_of
from scheduler.domain.secret_refs import check_references, text_or_secret

HTTP_FIELDS = {
    *("type", "method", "url", "headers", "body", "json"),
    *("expected_status", "timeout", "follow_redirects", "max_response"),
}
METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
URL_MOST = 4096
HEADERS_MOST = 64
HEADER_MOST = 8 * 1024
BODY_MOST = 64 * 1024
RESPONSE_MOST_BYTES = 10 * 1024 * 1024
"""What the server keeps of a run's log."""
STATUSES_MOST = 64
RUNNERS_OWN = {"connection", "content-length", "expect", "te", "trailer", "transfer-encoding", "upgrade"}
"""Headers that belong to the connection: a caller who sets one could make two requests of one."""

_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,255}", re.ASCII)
_HEADER_TEXT = re.compile(r"[\x20-\x7e\t]*", re.ASCII)
_RANGE = re.compile(r"([1-5]\d\d)(?:-([1-5]\d\d))?", re.ASCII)
_CLASS = re.compile(r"([1-5])xx", re.ASCII | re.IGNORECASE)


def http_of(field: str, value: Mapping[str, Any]) -> dict[str, Any]:
    """The request in its one stored form: what is unset is left out, but for the method."""
    body, as_json = value.get("body"), value.get("json")
    if body is not None and as_json is not None:
        raise InvalidInput.of(field, "A request has either body or json.")
    action: dict[str, Any] = {"type": "http", "method": _method(f"{field}.method", value, body is as_json is None)}
    action["url"] = url_of(f"{field}.url", value.get("url"))
    if value.get("headers"):
        action["headers"] = _headers(f"{field}.headers", value["headers"])
    if body is not None:
        action["body"] = text_or_secret(f"{field}.body", body, most=BODY_MOST)
    if as_json is not None:
        check_json(f"{field}.json", as_json)
        check_references(f"{field}.json", as_json)
        action["json"] = as_json
    if value.get("expected_status") is not None:
        action["expected_status"] = _statuses(f"{field}.expected_status", value["expected_status"])
    if value.get("timeout") is not None:
        action["timeout"] = f"{seconds_of(f'{field}.timeout', value['timeout']):.6f}".rstrip("0").rstrip(".") + "s"
    if value.get("follow_redirects") not in (None, False):
        action["follow_redirects"] = _redirects(f"{field}.follow_redirects", value["follow_redirects"])
    if value.get("max_response") is not None:
        most = whole_number_of(f"{field}.max_response", value["max_response"], 0, RESPONSE_MOST_BYTES)
        action["max_response"] = most
    return action


def url_of(field: str, value: Any) -> str | dict[str, str]:
    """An http or https URL of printable ASCII, without a user in it; or the name of a secret that is one."""
    url = text_or_secret(field, value, most=URL_MOST)
    if isinstance(url, dict):
        return url
    if not url.isascii() or not url.isprintable() or " " in url or "\\" in url:
        raise InvalidInput.of(
            field, "A URL has no spaces and nothing but ASCII: write %20 and the like, and xn--… for a host."
        )
    try:
        parts = urlsplit(url)
        is_usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_usable = False
    if not is_usable:
        raise InvalidInput.of(field, "A URL is of the form https://host/path or http://host:port/path.")
    if "@" in parts.netloc:
        raise InvalidInput.of(
            field, 'A URL has no user and no password; send them in a header: {"Authorization": {"secret": "NAME"}}.'
        )
    return url


def _method(field: str, value: Mapping[str, Any], has_no_body: bool) -> str:
    method = value.get("method")
    if method is None:
        return "GET" if has_no_body else "POST"
    return choice_of(field, method.upper() if isinstance(method, str) else method, METHODS)


def _headers(field: str, value: Any) -> dict[str, Any]:
    if not isinstance(value, Mapping):
        raise InvalidInput.of(field, 'headers is an object such as {"Accept": "text/plain"}.')
    if len(value) > HEADERS_MOST:
        raise InvalidInput.of(field, f"A request has {HEADERS_MOST} headers at most.")
    seen: set[str] = set()
    for name in value:
        if not isinstance(name, str) or not _TOKEN.fullmatch(name):
            raise InvalidInput.of(field, f"{str(name)[:64]!r} is no name of a header.")
        if name.lower() in RUNNERS_OWN:
            raise InvalidInput.of(field, f"The header {name} is set by the runner.")
        if name.lower() in seen:
            raise InvalidInput.of(field, f"The header {name} is there twice.")
        seen.add(name.lower())
    return {name: _header(field, name, text) for name, text in value.items()}


def _header(field: str, name: str, value: Any) -> str | dict[str, str]:
    text = text_or_secret(field, value, most=HEADER_MOST)
    plain = text if isinstance(text, str) else text.get("prefix", "")
    if not _HEADER_TEXT.fullmatch(plain) or (isinstance(text, str) and plain != plain.strip()):
        raise InvalidInput.of(field, f"The header {name} is one line of printable ASCII without a space at either end.")
    return text


def _statuses(field: str, value: Any) -> list[int | str]:
    """A list of numbers and ranges: ``[200, "300-399"]``; a single one and ``"2xx"`` are taken too."""
    items = value if isinstance(value, list) else [value]
    if not 0 < len(items) <= STATUSES_MOST:
        raise InvalidInput.of(field, f"{field} is a list of 1 to {STATUSES_MOST} statuses.")
    return [_status(field, item) for item in items]


def _status(field: str, item: Any) -> int | str:
    text = str(item) if isinstance(item, int | str) and not isinstance(item, bool) else ""
    if match := _CLASS.fullmatch(text):
        return f"{match[1]}00-{match[1]}99"
    match = _RANGE.fullmatch(text)
    if match is None or int(match[2] or match[1]) < int(match[1]):
        raise InvalidInput.of(field, 'A status is a number such as 204, a range such as "200-299", or "2xx".')
    return text if match[2] else int(text)


def _redirects(field: str, value: Any) -> str:
    """true stands for the host of the URL only: a request that goes elsewhere may take its secrets along."""
    if value is True:
        return "same_host"
    if value not in ("same_host", "any"):
        raise InvalidInput.of(field, f'{field} is false, true (on the same host) or "any".')
    return value
