"""Pages hold no inline script or style and ask no other host: the Content-Security-Policy would refuse them."""

from __future__ import annotations

import re

import pytest

from tests.architecture.tree import PACKAGES, files, name

_ATTRIBUTES = r"src|href|srcset|action|formaction|poster|data|content|hx-(?:get|post|put|patch|delete|push-url)"
RULES = {
    "inline script": re.compile(r"<script\b(?![^>]*\ssrc\s*=)", re.IGNORECASE),
    "inline style": re.compile(r"<style\b|\sstyle\s*=", re.IGNORECASE),
    "event attribute": re.compile(r"<[^>]*\s(?:on[a-z]+|hx-on[\w:.-]*)\s*=|javascript:", re.IGNORECASE),
    "another host": re.compile(
        rf"\s(?:{_ATTRIBUTES})\s*=\s*[\"']?\s*(?:https?:)?//|@import|url\(\s*[\"']?(?:https?:)?//|fetch\(\s*[\"'`]https?:",
        re.IGNORECASE,
    ),
    "unescaped text": re.compile(r"\|\s*safe\b|autoescape\s+off"),
}


def findings(text: str) -> list[str]:
    return [rule for rule, pattern in RULES.items() if pattern.search(text)]


def test_no_page_breaks_a_rule():
    pages = list(files(".html", ".css", ".js", within=("templates", "static", *PACKAGES)))
    assert "templates/base.html" in {name(path) for path in pages}
    wrong = {name(path): found for path in pages if (found := findings(path.read_text(encoding="utf-8")))}
    assert wrong == {}


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("<script>alert(1)</script>", "inline script"),
        ('<script type="module">', "inline script"),
        ("<style>p {}</style>", "inline style"),
        ('<p style="color: red">', "inline style"),
        ('<a onclick="x()">', "event attribute"),
        ('<a hx-on:click="x()">', "event attribute"),
        ('<a href="javascript:x()">', "event attribute"),
        ('<script src="https://cdn.example/x.js"></script>', "another host"),
        ("<img src=//cdn.example/x.png>", "another host"),
        ("p { background: url(https://cdn.example/x.png) }", "another host"),
        ('@import "x.css";', "another host"),
        ("{{ text|safe }}", "unescaped text"),
    ],
)
def test_each_rule_finds_its_case(text, rule):
    assert findings(text) == [rule]


@pytest.mark.parametrize(
    "text",
    [
        "<script src=\"{% static 'croniq/app.js' %}\" defer></script>",
        '<a href="{% url \'jobs\' %}" hx-get="/runs/" class="on">Runs</a>',
        "<p>See https://example.com for one = two</p>",
        "p { background: url(/static/x.svg) }",
    ],
)
def test_what_is_allowed_is_not_found(text):
    assert findings(text) == []
