"""Public holidays by the `holidays` package, one cached year at a time."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from datetime import date
from functools import lru_cache

import holidays
from holidays.registry import COUNTRIES, EntityLoader

from calendars.domain.errors import InvalidField
from calendars.domain.subdivisions import subdivisions_of

VERSION = holidays.__version__
"""The version that decides; the same country may gain or lose a holiday with the next one."""


def check(country: str, subdivision: str, categories: tuple[str, ...]) -> None:
    """Refuse, naming ``holiday_country``, ``holiday_subdivision`` or ``holiday_categories``, what the package lacks."""
    if country not in _countries():
        raise InvalidField("holiday_country", f"There are no holidays of {country[:16]!r}.{_near(country)}")
    if subdivision and subdivision not in subdivisions_of(country):
        some = ", ".join(subdivisions_of(country)[:20]) or "none"
        raise InvalidField("holiday_subdivision", f"{country} has no subdivision {subdivision[:32]!r}; it has: {some}.")
    if not categories:
        return
    of = holidays.country_holidays(country)
    for category in categories:
        if category not in of.supported_categories:
            some = ", ".join(sorted(of.supported_categories))
            raise InvalidField("holiday_categories", f"{country} has no category {category!r}; it has: {some}.")


@lru_cache(maxsize=1)
def _countries() -> frozenset[str]:
    return frozenset(EntityLoader.get_country_codes(include_aliases=False))


def _near(country: str) -> str:
    if country.upper() in _countries():
        return f" Did you mean {country.upper()!r}?"
    code = _code_of(country.strip().upper())
    if code:
        return f" Did you mean {code!r}?"
    near = difflib.get_close_matches(country.upper()[:16], sorted(_countries()), n=1)
    return f" Did you mean {near[0]!r}?" if near else " Use the two letters of ISO 3166, such as 'AT'."


def _code_of(text: str) -> str:
    """The country that has this other code ("DEU"), or the only one whose name begins so ("GER"); else ""."""
    aliases = {alias: code for names in COUNTRIES.values() for code in names[1:2] for alias in names[2:]}
    if text in aliases:
        return aliases[text]
    begun = {names[1] for names in COUNTRIES.values() if len(text) > 2 and names[0].upper().startswith(text)}
    return begun.pop() if len(begun) == 1 else ""


@lru_cache(maxsize=8192)
def named_days(
    country: str, subdivision: str, categories: tuple[str, ...], observed: bool, year: int
) -> Mapping[date, str]:
    """The holidays that fall in a year, with their names.

    Looks at the neighbouring years too: New Year's Day observed on a Friday is a day of the year before.
    """
    return {
        day: name
        for of_year in (year - 1, year, year + 1)
        for day, name in _of(country, subdivision, categories, observed, of_year).items()
        if day.year == year
    }


def _language(country: str) -> str | None:
    """English where there are English names, else the country's own; never that of the process's environment, by which
    a name would differ from machine to machine."""
    of = holidays.country_holidays(country)
    return "en_US" if "en_US" in of.supported_languages else of.default_language


@lru_cache(maxsize=8192)
def _of(country: str, subdivision: str, categories: tuple[str, ...], observed: bool, year: int) -> Mapping[date, str]:
    return dict(
        holidays.country_holidays(
            country,
            subdiv=subdivision or None,
            years=year,
            expand=False,
            observed=observed,
            categories=categories or None,
            language=_language(country),
        )
    )
