"""YAML with its lines: what words mean, what is refused, and that what is written is read back."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.domain.yaml_text import MOST_BYTES, Unreadable, read_yaml, write_yaml


def plain(content: str):
    node, problems = read_yaml(content.encode())
    assert problems == []
    return node.plain()


def refused(content: str | bytes) -> tuple[int, int, str]:
    with pytest.raises(Unreadable) as unreadable:
        read_yaml(content if isinstance(content, bytes) else content.encode())
    problem = unreadable.value.problem
    return problem.mark.line, problem.mark.column, problem.message


@pytest.mark.parametrize(
    ("word", "value"),
    [
        *[("NO", "NO"), ("on", "on"), ("yes", "yes"), ("17:00", "17:00"), ("2026-12-24", "2026-12-24")],
        *[("0123", "0123"), ("1_000", "1_000"), ("0 3 * * *", "0 3 * * *"), ("5m", "5m"), ("0x1F", "0x1F")],
        *[("12", 12), ("-7", -7), ("+5", 5), ("0", 0), ("1.5", 1.5), ("1e3", 1000.0), (".5", 0.5), ("-2.", -2.0)],
        *[("true", True), ("False", False), ("null", None), ("~", None), ("", None), ("'12'", "12"), ('"~"', "~")],
        *[("!!str 12", "12"), ("9" * 40, "9" * 40), ("e5", "e5"), (".", "."), ("-", [None])],
    ],
)
def test_a_word_means_what_it_says(word, value):
    found = plain(f"a: {word}" if word != "-" else "a:\n- ")["a"]
    assert (found, type(found)) == (value, type(value))


def test_everything_has_its_place():
    node, _ = read_yaml(b"jobs:\n  a:b:\n    triggers:\n      - every: 5m\n        zone: x\n")
    assert node.place_of("jobs") == (1, 1)
    job = node.value["jobs"].value["a:b"]
    assert job.place_of("triggers.0") == (4, 9)
    assert job.place_of("triggers.0.zone") == (5, 9)
    assert job.place_of("triggers.0.zone.deeper") == (5, 9)
    assert job.place_of("triggers.7") == (3, 5)


def test_a_key_that_is_there_twice_is_told_with_both_lines():
    node, problems = read_yaml(b"a: 1\nb: 2\na: 3\n")
    assert [(one.mark, one.path) for one in problems] == [((3, 1), "a")]
    assert "line 1" in problems[0].message
    assert node.plain() == {"a": 1, "b": 2}


def test_anchors_and_what_is_merged():
    assert plain("x: &x {a: 1, b: 2}\ny: {<<: *x, b: 3}\nz: [*x]") == {
        "x": {"a": 1, "b": 2},
        "y": {"b": 3, "a": 1},
        "z": [{"a": 1, "b": 2}],
    }
    assert plain("x: &x {a: 1}\ny: &y {a: 2, b: 2}\nz: {<<: [*x, *y]}")["z"] == {"a": 1, "b": 2}
    assert plain('a: {"<<": 1}') == {"a": {"<<": 1}}


def test_what_anchors_repeat_counts_as_often_as_it_is_repeated():
    lines = ["a0: &a0 [1, 1, 1, 1, 1, 1, 1, 1, 1, 1]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 9)]
    assert refused("\n".join(lines))[0] in (5, 6)


@pytest.mark.parametrize(
    ("content", "line"),
    [
        ("a: [1, 2", 1),
        ("a: 1\n b: 2", 2),
        ("a:\n\t- 1", 2),
        ("a: &x [*x]", 1),
        ("a: *y", 1),
        ("a: !!python/object:os.system {}", 1),
        ("a: !secret x", 1),
        ("[a]: 1", 1),
        ("a: 1\n---\nb: 2", 2),
        ("x: 1\ny: {<<: 3}", 2),
        ("", 1),
        ("# nothing\n", 1),
        ("a: 1\nb: \x00", 2),
        ("a: 1\nb: \x1b", 2),
        (b"a: 1\nb: \xff", 2),
        ("[" * 100, 1),
        ("a: " * 3, 1),
        ("- " * 10_000, 1),
        (b"a" * (MOST_BYTES + 1), 1),
    ],
)
def test_what_is_no_yaml_is_refused_with_its_line(content, line):
    assert refused(content)[0] == line


def test_a_byte_order_mark_is_none_of_the_first_key():
    assert plain("\ufeffa: 1") == {"a": 1}


WORDS = st.one_of(
    st.text(max_size=20),
    st.sampled_from(
        ["NO", "12", "1e5", "0o17", "0x1F", "17:00", "null", "~", "a: b", "- a", "# c", "<<", "x ", "a\nb\n", "'"]
    ),
    st.text(alphabet=" \n\t\r\u0085\u2028\ufeff:#-'\"|>%@`aé😀\u00ad", max_size=12),
).filter(lambda word: all(not "\ud800" <= c <= "\udfff" for c in word))
VALUES = st.recursive(
    st.one_of(WORDS, st.none(), st.booleans(), st.integers(-(2**63), 2**63), st.floats(allow_nan=False)),
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(WORDS, inner, max_size=4)),
    max_leaves=12,
)


@given(VALUES)
@settings(max_examples=300, deadline=None)
def test_what_is_written_is_read_back_the_same(value):
    node, problems = read_yaml(write_yaml({"value": value}).encode())
    back = node.plain()["value"]
    assert problems == []
    assert (back, repr(back)) == (value, repr(value))


def test_a_script_is_written_as_lines():
    assert write_yaml({"shell": "set -e\nmake all\n"}) == "shell: |\n  set -e\n  make all\n"
