"""What the README shows is what the code does."""

from __future__ import annotations

import re
from pathlib import Path

from scheduler.domain.transitions import mermaid

README = Path(__file__).resolve().parents[2] / "README.md"


def test_the_life_of_a_run_is_the_table_of_transitions():
    shown = re.findall(r"```mermaid\n(.*?)```", README.read_text(encoding="utf-8"), flags=re.DOTALL)
    assert shown == [mermaid()]
