"""The table of docs/mutations.md, made from the records."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.mutations.record import Mutation

PAGE = "docs/mutations.md"
BEGIN = "<!-- table: written by `python -m tests.mutations --write-docs` -->"
END = "<!-- end of table -->"


def table(areas: Mapping[str, Sequence[Mutation]]) -> str:
    """Write the records as Markdown, one table an area."""
    parts = []
    for area, records in areas.items():
        parts.append(f"### {area}\n\n| name | mechanism | file | tests that must be red |\n| --- | --- | --- | --- |")
        parts += [_row(record) for record in records]
        parts.append("")
    return "\n".join(parts)


def page_with_table(page: str, areas: Mapping[str, Sequence[Mutation]]) -> str:
    """Replace what stands between the two marks. Raises ValueError when the page lacks one of them."""
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not (begin and end):
        raise ValueError(f"{PAGE} must hold the lines {BEGIN} and {END}")
    return f"{before}{BEGIN}\n\n{table(areas)}\n{END}{after}"


def write_page(root: Path, areas: Mapping[str, Sequence[Mutation]]) -> None:
    path = root / PAGE
    path.write_text(page_with_table(path.read_text(encoding="utf-8"), areas), encoding="utf-8")


def _row(record: Mutation) -> str:
    files = dict.fromkeys(edit.file for edit in record.all_edits)
    tests = [*record.red, *(f"{test} (realtime)" for test in record.realtime)]
    where = "" if record.database == "both" else f" ({record.database})"
    cells = (
        f"{record.name}{' (quick)' if record.quick else ''}",
        record.mechanism + where,
        "<br>".join(f"`{file}`" for file in files),
        "<br>".join(_code(test) for test in tests),
    )
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _code(test: str) -> str:
    name, space, note = test.partition(" (realtime)")
    return f"`{name}`{space}{note}"
