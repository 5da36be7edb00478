"""The bodies that SDKs send, read at once; all else, and all that is wrong, is left to the strict reader."""

from __future__ import annotations

from typing import Any

import orjson

MOST_BYTES = 64 * 1024


def quick_json(body: bytes) -> dict[str, Any] | list[dict[str, Any]] | None:
    """Return what strict JSON says, or None: read it the slow way.

    orjson takes a name that stands twice, and reads a whole number of more than 64 bits as a float. So this one takes
    objects (or an array of them) whose values are texts, arrays of texts, whole numbers, booleans and nulls, and only
    where there are as many colons as names and colons within texts: then no pair was dropped. (Without a backslash a
    text holds the colons that its bytes hold.)
    """
    if len(body) > MOST_BYTES or b"\\" in body:
        return None
    try:
        value = orjson.loads(body)
    except ValueError:
        return None
    objects = value if type(value) is list else (value,)
    names = 0
    for one in objects:
        if type(one) is not dict or not all(map(_is_plain, one.values())):
            return None
        names += len(one)
    colons = body.count(b":")
    if colons != names and colons != names + sum(map(_colons, objects)):
        return None
    return value


def _is_plain(value: Any) -> bool:
    kind = type(value)
    if kind is list:
        return all(type(item) is str for item in value)
    return kind is not float and kind is not dict


def _colons(one: dict[str, Any]) -> int:
    found = sum(name.count(":") for name in one)
    for value in one.values():
        if type(value) is str:
            found += value.count(":")
        elif type(value) is list:
            found += sum(item.count(":") for item in value)
    return found
