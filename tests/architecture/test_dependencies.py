"""docs/dependencies.md names every dependency, once, and nothing else."""

from __future__ import annotations

import re
import tomllib

from tests.architecture.tree import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
ROW = re.compile(r"^\| `([\w.-]+)` \| ([^|]+) \| ([^|]+) \|$", re.MULTILINE)


def distribution(requirement: str) -> str:
    return re.match(r"[\w.-]+", requirement)[0].lower().replace("_", "-")


def test_the_page_covers_exactly_what_pyproject_asks_for():
    page = (ROOT / "docs/dependencies.md").read_text(encoding="utf-8")
    runtime, _, rest = page.partition("## Extra `otel`")
    otel, _, dev = rest.partition("## For development")
    wanted = [distribution(requirement) for requirement in PROJECT["dependencies"]]
    wanted_dev = [distribution(requirement) for requirement in PROJECT["optional-dependencies"]["dev"]]
    wanted_otel = [distribution(requirement) for requirement in PROJECT["optional-dependencies"]["otel"]]
    assert sorted(row[0] for row in ROW.findall(runtime)) == sorted(wanted)
    assert sorted(row[0] for row in ROW.findall(otel)) == sorted(wanted_otel)
    assert sorted(row[0] for row in ROW.findall(dev)) == sorted(wanted_dev)


def test_each_dependency_has_a_purpose_and_a_reason():
    rows = ROW.findall((ROOT / "docs/dependencies.md").read_text(encoding="utf-8"))
    assert len(rows) > 20
    assert not [row[0] for row in rows if len(row[1]) < 15 or len(row[2]) < 15]


def test_the_test_tools_are_no_runtime_dependency():
    assert "pytest" in [distribution(requirement) for requirement in PROJECT["optional-dependencies"]["dev"]]
    assert "pytest" not in [distribution(requirement) for requirement in PROJECT["dependencies"]]
