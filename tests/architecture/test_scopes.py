"""What docs/scopes.md says that a call needs is what its view demands."""

from __future__ import annotations

import re

from django.urls import URLPattern

from runners.api.authentication import PUBLIC
from runners.domain.scopes import SCOPES
from scheduler.api.urls import urlpatterns
from tests.architecture.tree import ROOT

TEXT = (ROOT / "docs" / "scopes.md").read_text(encoding="utf-8")


def calls() -> dict[str, list[str]]:
    """The calls by what they need, in the order of their paths: "GET /v1/jobs"."""
    found: dict[str, list[str]] = {}
    for pattern in urlpatterns:
        view = getattr(pattern.callback, "cls", None) if isinstance(pattern, URLPattern) else None
        if view is not None:
            path = re.sub(r"<\w+:(\w+)>", r"{\1}", str(pattern.pattern))
            for method, scope in view.required_scope.items():
                found.setdefault(scope, []).append(f"`{method} /{path}`")
    return found


def test_the_table_of_scopes_is_what_the_views_demand():
    by_scope = calls()
    rows = [f"| `{scope}` | {', '.join(by_scope[scope])} |" for scope in sorted(by_scope) if scope != PUBLIC]
    rows.append(f"| none | {', '.join(by_scope[PUBLIC])} |")
    assert [line for line in TEXT.splitlines() if re.match(r"\| .* \| `[A-Z]+ /", line)] == rows


def test_every_scope_is_named():
    assert [scope for scope in sorted(SCOPES) if f"`{scope}`" not in TEXT] == []
