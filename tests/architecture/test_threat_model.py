"""docs/threat-model.md says by which test each line is held: those tests exist."""

import re

from tests.architecture.tree import ROOT

PAGE = ROOT / "docs/threat-model.md"


def test_each_line_of_the_threat_model_names_tests_that_exist() -> None:
    rows = [line for line in PAGE.read_text().splitlines() if line.count("|") == 5][2:]
    assert len(rows) > 10
    for row in rows:
        named = re.findall(r"`([a-z0-9_/]+(?:\.py)?)`", row.rsplit("|", 2)[1])
        assert named, row
        assert [name for name in named if not (ROOT / "tests" / name).exists()] == [], row
