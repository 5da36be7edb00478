"""Every field of every body × what a hostile or careless caller sends: 400 by name, or kept as it was sent. Never 500.

The rules are the same for both databases, so the verdicts are.
"""

from __future__ import annotations

import json

import pytest

from tests.api.hostile.fields import Leaf, Operation, answered, operations, paths, send

TEXTS = {
    "nul": "a\x00b",
    "half of a pair": "a\ud800b",
    "right to left": "a\u202eb",
    "emoji": "a💩b",
    "300 marks": "a" + "\u0301" * 300,
    "255": "x" * 255,
    "256": "x" * 256,
    "10,000": "x" * 10_000,
    "10,001": "x" * 10_001,
    "space at the end": "x ",
    "two lines": "a\nb",
}
UNSTORABLE = ("nul", "half of a pair")
FEW = ("nul", "half of a pair", "emoji", "10,001")

NAMES = {
    "job_key",
    "name",
    "tenant",
    "tags",
    "require",
    "prefer",
    "capabilities",
    "pin",
    "calendar",
    "concurrency_group",
}
NO_NAMES = {"right to left", "300 marks", "256", "10,000", "10,001", "space at the end", "two lines"}
FREE = {"description", "dead_letter_operator_hint", "reason", "note"}
"""Texts for people: what can be stored is kept as it is."""

TAKEN = (200, 201)
ALLOWED = (200, 201, 400, 404, 409)

BY_OPERATION = pytest.mark.parametrize("operation", operations(), ids=str)


def refused_by_name(answer, leaf: Leaf, operation: Operation) -> bool:
    """400, and the field is named (a part of it, or what it is in)."""
    if answer.status_code != 400:
        return False
    said = answer.json()
    assert said["error"]
    assert said["message"]
    if operation.has_base:
        assert any(name.split(".")[0].split("[")[0] == leaf.path[0] for name in said.get("fields", {})), said
    return True


def test_there_are_operations_and_fields():
    assert len(operations()) >= 15
    kinds = [leaf.kind for operation in operations() for leaf in operation.leaves]
    assert all(kinds.count(kind) > 3 for kind in ("text", "duration", "number", "instant", "flag", "json"))


@BY_OPERATION
def test_a_text_is_refused_by_name_or_kept_as_it_was_sent(api, everything, operation: Operation):
    client, filled = api(), paths(everything)
    for leaf in operation.leaves:
        if leaf.kind not in ("text", "duration"):
            continue
        is_for_people, is_name = leaf.name in FREE, leaf.name in NAMES and len(leaf.path) <= 2
        for name, value in TEXTS.items():
            if not (is_for_people or is_name or name in FEW):
                continue
            answer = send(client, operation, filled, leaf.within(operation.base(filled), value))
            where = (str(leaf), name, answer.content[:300])
            assert answer.status_code in ALLOWED, where
            if name in UNSTORABLE:
                assert refused_by_name(answer, leaf, operation), where
            elif answer.status_code in TAKEN:
                assert not (is_name and name in NO_NAMES), where
                assert answered(answer, leaf) in (None, value), where
            elif is_for_people and operation.has_base and len(value) <= (leaf.most or 10_000):
                raise AssertionError(where)


NO_DURATIONS = ["P1M", "-5s", "1e3s", "٣s", "∞s", "1", "1 s s", "99999999999d", "", -5, 0, 1e308, True, [], {}, 10**400]


@BY_OPERATION
def test_a_duration_is_one_number_and_one_unit(api, everything, operation: Operation):
    client, filled = api(), paths(everything)
    for leaf in operation.leaves:
        if leaf.kind != "duration":
            continue
        for value in NO_DURATIONS:
            if value in ("", 0) and (leaf.name.endswith("retention") or value == ""):
                continue  # for ever; nothing said
            answer = send(client, operation, filled, leaf.within(operation.base(filled), value))
            assert refused_by_name(answer, leaf, operation), (str(leaf), value, answer.content[:300])
        # A bare number is seconds where it is taken at all.
        answer = send(client, operation, filled, leaf.within(operation.base(filled), 420))
        assert answer.status_code in ALLOWED
        if answer.status_code in TAKEN:
            assert answered(answer, leaf) in (None, "7m", "420s"), (str(leaf), answer.content[:300])


NO_NUMBERS = [True, False, "5", 1.5, [], {}, 1e308, 10**400, -(2**63) - 1]


@BY_OPERATION
def test_a_number_is_a_number_and_no_other_than_was_sent(api, everything, operation: Operation):
    client, filled = api(), paths(everything)
    for leaf in operation.leaves:
        if leaf.kind != "number":
            continue
        for value in NO_NUMBERS:
            if leaf.name in ("jitter", "weekdays") and value in (1.5, "5", True, False):
                continue  # a share of one; names of days are texts
            answer = send(client, operation, filled, leaf.within(operation.base(filled), value))
            assert refused_by_name(answer, leaf, operation), (str(leaf), value, answer.content[:300])
        for value in (-5, 2**53 + 1, 2**63 - 1, 2**31):
            answer = send(client, operation, filled, leaf.within(operation.base(filled), value))
            assert answer.status_code in ALLOWED, (str(leaf), value, answer.content[:300])
            if answer.status_code in TAKEN:
                assert answered(answer, leaf) in (None, value), (str(leaf), value, answer.content[:300])


NO_INSTANTS = [
    "2026-02-30T00:00:00Z",
    "now",
    "2026-03-01T12:00:00+25:00",
    "٢٠٢٦-03-01T12:00:00Z",
    "x" * 10_000,
    True,
    [],
    {},
]
FAR = ["0001-01-01T00:00:00Z", "0001-01-01T00:00:00+23:59", "9999-12-31T23:59:59Z", "9999-12-31T23:59:59-23:59"]


@BY_OPERATION
def test_an_instant_is_one_that_both_databases_have(api, everything, operation: Operation):
    client, filled = api(), paths(everything)
    for leaf in operation.leaves:
        if leaf.kind != "instant":
            continue
        for value in NO_INSTANTS:
            answer = send(client, operation, filled, leaf.within(operation.base(filled), value))
            assert refused_by_name(answer, leaf, operation), (str(leaf), value, answer.content[:300])
        for value in FAR:
            answer = send(client, operation, filled, leaf.within(operation.base(filled), value))
            assert refused_by_name(answer, leaf, operation), (str(leaf), value, answer.content[:300])


@BY_OPERATION
def test_a_flag_is_true_or_false(api, everything, operation: Operation):
    client, filled = api(), paths(everything)
    for leaf in operation.leaves:
        if leaf.kind != "flag":
            continue
        for value in ("true", "yes", 1, 0, [], {}, 1.0):
            answer = send(client, operation, filled, leaf.within(operation.base(filled), value))
            assert refused_by_name(answer, leaf, operation), (str(leaf), value, answer.content[:300])


def deep(levels: int) -> bytes:
    return b'{"a":' * levels + b"1" + b"}" * levels


JSON = {
    "nul": (b'{"a": "\\u0000"}', (400,)),
    "nul in a name": (b'{"\\u0000": 1}', (400,)),
    "half of a pair": (b'{"a": ["\\ud800"]}', (400,)),
    "NaN": (b'{"a": NaN}', (400,)),
    "Infinity": (b'{"a": [-Infinity]}', (400,)),
    "65 KiB": (b'{"a": "%s"}' % (b"x" * 65_537), (400,)),
    "1 MiB and a byte": (b'{"a": "%s"}' % (b"x" * (1024 * 1024 + 1)), (413,)),
    "33 levels": (deep(33), (400,)),
    "10,000 levels": (deep(10_000), (400,)),
    "100,000 names": (b"{%s}" % b",".join(b'"%d":1' % n for n in range(90_000)), (400, 413)),
    "150,000 values": (b'{"a": [%s]}' % b",".join([b"1"] * 150_000), (413,)),
    "an integer of 64 bits": (b'{"a": 9223372036854775808}', (400,)),
}


@BY_OPERATION
def test_what_may_be_any_json_has_its_bounds_too(api, everything, operation: Operation):
    client, filled = api(), paths(everything)
    for leaf in operation.leaves:
        if leaf.kind != "json":
            continue
        for name, (value, verdicts) in JSON.items():
            marked = leaf.within(operation.base(filled), "@@")
            raw = json.dumps(marked).encode().replace(b'"@@"', value)
            answer = send(client, operation, filled, raw)
            assert answer.status_code in verdicts, (str(leaf), name, answer.content[:300])
        for value in ({"a": "\u202e💩" + "\u0301" * 300}, {"a": 2**53 + 1, "b": [1e308, -0.0, True]}):
            answer = send(client, operation, filled, leaf.within(operation.base(filled), value))
            assert answer.status_code in ALLOWED
            if answer.status_code in TAKEN:
                assert answered(answer, leaf) in (None, value)
