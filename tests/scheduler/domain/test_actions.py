"""What a caller may say that a job executes, and the one form in which it is stored."""

from __future__ import annotations

from typing import Any

import pytest

from croniq_site.kernel.capabilities import COMMAND, HTTP
from croniq_site.kernel.errors import InvalidInput
from scheduler.domain.actions import action_of, action_text, capabilities_for, needs_exec

URL = "https://example.org/a?b=c"
SECRET = {"secret": "TOKEN", "prefix": "x"}


def stored(**action: Any) -> dict[str, Any]:
    return action_of("action", {"type": "http", "url": URL} | action)


@pytest.mark.parametrize(
    ("action", "kept"),
    [
        ({}, {"method": "GET"}),
        ({"method": "delete"}, {"method": "DELETE"}),
        ({"body": "x"}, {"method": "POST", "body": "x"}),
        ({"json": {}}, {"method": "POST", "json": {}}),
        ({"json": 0, "method": "PUT"}, {"method": "PUT", "json": 0}),
        ({"json": {"a": [SECRET]}}, {"method": "POST", "json": {"a": [SECRET]}}),
        ({"json": {"secret": "B", "other": 1}}, {"method": "POST", "json": {"secret": "B", "other": 1}}),
        ({"headers": {}}, {"method": "GET"}),
        ({"headers": {"X-A": "b c", "Y": SECRET}}, {"method": "GET", "headers": {"X-A": "b c", "Y": SECRET}}),
        ({"body": {"secret": "T", "prefix": ""}}, {"method": "POST", "body": {"secret": "T"}}),
        ({"url": SECRET}, {"method": "GET", "url": SECRET}),
        ({"expected_status": 204}, {"method": "GET", "expected_status": [204]}),
        ({"expected_status": "2XX"}, {"method": "GET", "expected_status": ["200-299"]}),
        ({"expected_status": [200, "301", "400-404"]}, {"method": "GET", "expected_status": [200, 301, "400-404"]}),
        ({"timeout": "1.5m"}, {"method": "GET", "timeout": "90s"}),
        ({"timeout": 0.5}, {"method": "GET", "timeout": "0.5s"}),
        ({"follow_redirects": False}, {"method": "GET"}),
        ({"follow_redirects": True}, {"method": "GET", "follow_redirects": "same_host"}),
        ({"follow_redirects": "any"}, {"method": "GET", "follow_redirects": "any"}),
        ({"max_response": 0}, {"method": "GET", "max_response": 0}),
        ({"url": "http://[::1]:8080"}, {"method": "GET", "url": "http://[::1]:8080"}),
    ],
)  # fmt: skip
def test_a_request_has_one_form(action: dict[str, Any], kept: dict[str, Any]) -> None:
    once = stored(**action)
    assert once == {"type": "http", "url": URL} | kept
    assert action_of("action", once) == once


@pytest.mark.parametrize(
    ("field", "action"),
    [
        ("action.url", {"url": None}),
        ("action.url", {"url": 5}),
        ("action.url", {"url": ""}),
        ("action.url", {"url": "example.org"}),
        ("action.url", {"url": "ftp://example.org"}),
        ("action.url", {"url": "file:///etc/passwd"}),
        ("action.url", {"url": "http://"}),
        ("action.url", {"url": "http://a:0/"}),
        ("action.url", {"url": "http://a:65536/"}),
        ("action.url", {"url": "http://[::1"}),
        ("action.url", {"url": "http://me:too@a/"}),
        ("action.url", {"url": "http://a/ b"}),
        ("action.url", {"url": "http://a\\@b/"}),
        ("action.url", {"url": "http://a/\r\nX: y"}),
        ("action.url", {"url": "http://a/\tb"}),
        ("action.url", {"url": "http://ä/"}),
        ("action.url", {"url": "http://a/" + "x" * 4096}),
        ("action.url", {"url": {"secret": "KEY"}}),
        ("action.url", {"url": {"secret": "A_FILE"}}),
        ("action.method", {"method": "TRACE"}),
        ("action.method", {"method": "CONNECT"}),
        ("action.method", {"method": "GET\r\n"}),
        ("action.method", {"method": 1}),
        ("action.headers", {"headers": ["X"]}),
        ("action.headers", {"headers": {"": "x"}}),
        ("action.headers", {"headers": {"A B": "x"}}),
        ("action.headers", {"headers": {"A\n": "x"}}),
        ("action.headers", {"headers": {"Ä": "x"}}),
        ("action.headers", {"headers": {"A": "x\r\nB: y"}}),
        ("action.headers", {"headers": {"A": "x\ny"}}),
        ("action.headers", {"headers": {"A": "x\x00"}}),
        ("action.headers", {"headers": {"A": " x"}}),
        ("action.headers", {"headers": {"A": "ü"}}),
        ("action.headers", {"headers": {"A": 1}}),
        ("action.headers", {"headers": {"A": "1", "a": "2"}}),
        ("action.headers", {"headers": {"Content-Length": "1"}}),
        ("action.headers", {"headers": {"transfer-encoding": "chunked"}}),
        ("action.headers", {"headers": {"A": {"secret": "a b"}}}),
        ("action.headers", {"headers": {"A": {"secret": "T", "prefix": "x\r\n"}}}),
        ("action.headers", {"headers": {"A": {"secret": "T", "suffix": "x"}}}),
        ("action.headers", {"headers": {f"A{n}": "x" for n in range(65)}}),
        ("action.body", {"body": 5}),
        ("action.body", {"body": "\x00"}),
        ("action.body", {"body": {"a": "b"}}),
        ("action.json", {"json": {"a": {"secret": 5}}}),
        ("action.json", {"json": [{"a": [{"secret": 5}]}]}),
        ("action.json", {"json": {"secret": "hello there"}}),
        ("action.json", {"json": float("nan")}),
        ("action.json", {"json": "\ud800"}),
        ("action", {"body": "x", "json": {}}),
        ("action", {"body": "x" * 65_500}),
        ("action.expected_status", {"expected_status": []}),
        ("action.expected_status", {"expected_status": [99]}),
        ("action.expected_status", {"expected_status": [600]}),
        ("action.expected_status", {"expected_status": "300-200"}),
        ("action.expected_status", {"expected_status": [True]}),
        ("action.expected_status", {"expected_status": {"a": 1}}),
        ("action.expected_status", {"expected_status": [200] * 65}),
        ("action.timeout", {"timeout": 0}),
        ("action.timeout", {"timeout": "soon"}),
        ("action.follow_redirects", {"follow_redirects": "sometimes"}),
        ("action.follow_redirects", {"follow_redirects": 1}),
        ("action.max_response", {"max_response": -1}),
        ("action.max_response", {"max_response": 10 * 1024 * 1024 + 1}),
        ("action.max_response", {"max_response": True}),
        ("action.argv", {"argv": ["true"]}),
    ],
)  # fmt: skip
def test_what_cannot_be_sent_is_refused_by_the_name_of_its_field(field: str, action: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput) as refused:
        stored(**action)
    assert list(refused.value.fields) == [field]


@pytest.mark.parametrize("json", [None, 5])
def test_a_json_value_of_a_thousand_levels_is_refused(json: Any) -> None:
    for _ in range(1000):
        json = [json]
    with pytest.raises(InvalidInput) as refused:
        stored(json=json)
    assert list(refused.value.fields) == ["action.json"]


def test_a_commands_environment_takes_secrets_by_name() -> None:
    action = {"type": "command", "argv": ["true"], "env": {"A": "b", "T": {"secret": "TOKEN", "prefix": "x"}}}
    assert action_of("action", action) == action
    for value in ({"secret": "KEY"}, {"secret": "a-b"}, {"secret": "A", "more": 1}, ["A"], None):
        with pytest.raises(InvalidInput) as refused:
            action_of("action", action | {"env": {"T": value}})
        assert list(refused.value.fields) == ["action.env"]


@pytest.mark.parametrize(
    ("action", "capabilities", "text"),
    [
        ({}, [], ""),
        ({"type": "handler"}, [], ""),
        ({"type": "command", "argv": ["a b", "c"]}, [COMMAND], "'a b' c"),
        ({"type": "command", "shell": "a | b"}, [COMMAND], "a | b"),
        ({"type": "http", "url": URL}, [HTTP], f"GET {URL}"),
        ({"type": "http", "url": {"secret": "HOOK"}, "body": "x"}, [HTTP], "POST secret HOOK"),
    ],
)
def test_who_executes_it_and_what_a_page_says_of_it(action: dict, capabilities: list[str], text: str) -> None:
    action = action_of("action", action)
    assert (capabilities_for(action), action_text(action)) == (capabilities, text)
    assert needs_exec(action) is bool(capabilities)
