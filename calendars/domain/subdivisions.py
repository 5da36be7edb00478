"""The subdivisions of a country, read from its module's text: to import one imports all countries, 50 to 100 ms."""

from __future__ import annotations

import ast
from functools import lru_cache
from importlib.resources import files

import holidays
from holidays.registry import COUNTRIES


@lru_cache(maxsize=64)
def subdivisions_of(country: str) -> tuple[str, ...]:
    """The codes of a country's subdivisions, in the package's order; the country is one that the package has."""
    module, entity = next((name, codes[0]) for name, codes in COUNTRIES.items() if country in codes[1:])
    text = files("holidays").joinpath("countries", f"{module}.py").read_text("utf-8")
    for node in ast.parse(text).body:
        if isinstance(node, ast.ClassDef) and node.name == entity:
            for statement in node.body:
                if _name_of(statement) == "subdivisions":
                    return tuple(ast.literal_eval(statement.value))
    return tuple(holidays.country_holidays(country).subdivisions)  # it inherits them


def _name_of(statement: ast.stmt) -> str:
    match statement:
        case ast.Assign(targets=[ast.Name(id=name)]) | ast.AnnAssign(target=ast.Name(id=name)):
            return name
    return ""
