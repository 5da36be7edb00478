"""axe-core on the page that is open: what a person with another sight, hand or ear would stumble over."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.browser.person import Person

AXE = Path(__file__).parent / "vendor" / "axe-core" / "axe.min.js"
TAGS = ("wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice")
_RUN = """
const [rules, done] = arguments;
axe.run(document, {resultTypes: ["violations"], preload: false, runOnly: rules}).then(
  (found) => done(found.violations),
  (error) => done([{id: "axe", help: String(error), nodes: []}]));
"""


def violations(person: Person, *rules: str) -> list[str]:
    """One line for each element that breaks a rule; all rules of `TAGS` unless some are named."""
    if not person.driver.execute_script("return 'axe' in window"):
        person.driver.execute_script(AXE.read_text(encoding="utf-8"))
    only = {"type": "rule", "values": list(rules)} if rules else {"type": "tag", "values": list(TAGS)}
    return list(_lines(person.driver.execute_async_script(_RUN, only)))


def _lines(found: list[dict[str, Any]]) -> Iterator[str]:
    for rule in found:
        for node in rule["nodes"] or [{"target": ["?"], "html": "", "failureSummary": ""}]:
            reasons = " ".join(node.get("failureSummary", "").split())
            yield f"{rule['id']}: {rule['help']}: {node['target']} {node['html'][:160]} {reasons[:240]}"
