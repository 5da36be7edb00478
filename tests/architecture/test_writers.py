"""Services are the only writers: API, edge, pages, admin, commands and workers call them."""

from __future__ import annotations

import ast
from collections.abc import Iterator

import pytest

from tests.architecture.tree import name, python_sources

# `sql` holds the statements that the services send; the services' transactions are around them.
WRITERS = {"services", "sql"}
WRITES = {
    "create",
    "bulk_create",
    "get_or_create",
    "update_or_create",
    "update",
    "bulk_update",
    "delete",
    "acreate",
    "aupdate",
    "adelete",
}


def writes(code: str) -> Iterator[str]:
    """Yield each ORM write: a write at the end of a chain that begins at a manager, or a `save()` of anything."""
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            chain = [step.attr for step in ast.walk(node.func) if isinstance(step, ast.Attribute)]
            if (node.func.attr in WRITES and {"objects", "_base_manager", "_default_manager"} & set(chain)) or (
                node.func.attr in ("save", "asave")
            ):
                yield f"{node.lineno}: {ast.unparse(node.func)}"


def test_only_services_write():
    sources = python_sources()
    assert any(list(writes(path.read_text(encoding="utf-8"))) for path in sources if WRITERS & set(path.parts))
    found = [
        f"{name(path)}:{write}"
        for path in sources
        if not WRITERS & set(path.parts)
        for write in writes(path.read_text(encoding="utf-8"))
    ]
    assert found == []


@pytest.mark.parametrize(
    "code",
    [
        "Run.objects.create(job=1)",
        "Run.objects.filter(id=1).exclude(x=2).update(verdict=3)",
        "x = type(run)._base_manager.filter(id=1).delete()",
        "job.save(update_fields=['x'])",
        "async def f():\n    await Run.objects.filter(id=1).adelete()",
    ],
)
def test_a_write_is_found(code):
    assert len(list(writes(code))) == 1


@pytest.mark.parametrize("code", ["{}.update(a=1)", "Run.objects.filter(id=1).first()", "hashlib.sha256().update(b'')"])
def test_what_is_no_write_is_not_found(code):
    assert list(writes(code)) == []
