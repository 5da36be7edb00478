"""Dependencies point downwards, and the domain knows no framework."""

from __future__ import annotations

import ast
import tomllib

import pytest

from tests.architecture.tree import APPS, ROOT, name, python_sources, run_tool

CONTRACTS = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
FRAMEWORKS = {"django", "rest_framework", "psycopg", "sqlite3", "uvicorn", "environ"}


def imported(tree: ast.AST) -> set[str]:
    """Name the modules that the code imports, at whatever depth."""
    names = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            names.add(node.module or "")
    return names


def test_the_contracts_hold():
    done = run_tool("lint-imports", "--no-cache")
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{len(CONTRACTS)} kept, 0 broken" in done.stdout


def test_the_contracts_say_the_direction_without_exceptions():
    layers = [contract["layers"] for contract in CONTRACTS if contract["type"] == "layers"]
    assert ["scheduler", "calendars", "runners", "croniq_site.kernel"] in layers
    assert not [contract["name"] for contract in CONTRACTS if contract.get("ignore_imports")]


def test_the_domain_imports_no_framework_and_no_model():
    domain = [path for path in python_sources() if "domain" in path.parts]
    assert {path.relative_to(ROOT).parts[0] for path in domain} == set(APPS)
    wrong = {
        f"{name(path)}: {module}"
        for path in domain
        for module in imported(ast.parse(path.read_text(encoding="utf-8")))
        if module.partition(".")[0] in FRAMEWORKS or ".models" in module or ".services" in module
    }
    assert wrong == set()


def test_no_app_hides_logic_in_signals_or_save():
    wrong = set()
    for path in python_sources():
        tree = ast.parse(path.read_text(encoding="utf-8"))
        # But for the one that `migrate` sends when all permissions are there: no service of ours calls migrate.
        if path.name != "apps.py" and any(
            module.startswith(("django.dispatch", "django.db.models.signals")) for module in imported(tree)
        ):
            wrong.add(f"{name(path)}: signals")
        if "models" in path.parts:
            methods = {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
            wrong |= {f"{name(path)}: {method}()" for method in methods & {"save", "delete"}}
    assert wrong == set()


@pytest.mark.parametrize(
    ("code", "modules"),
    [
        ("import django.db", {"django.db"}),
        ("from django import db", {"django"}),
        ("def f():\n    from x.models import Y", {"x.models"}),
    ],
)
def test_every_form_of_import_is_seen(code, modules):
    assert imported(ast.parse(code)) == modules
