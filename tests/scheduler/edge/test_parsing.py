"""What bodies are read as, and that nothing that can be sent is more than a refusal that names the field."""

from __future__ import annotations

import json
import time
from uuid import UUID

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from croniq_site.kernel.errors import InvalidInput, TooLarge
from croniq_site.kernel.text import CUT_MARK
from scheduler.api.work.parsing import (
    JSON_DEPTH,
    MOST_VALUES,
    TEXT_BYTES,
    load_json,
    parse_acks,
    parse_lines,
    parse_poll,
    parse_renewal,
    run_id_of,
)

RUN = "0197a000-0000-7000-8000-000000000001"


def body(**fields) -> bytes:
    return json.dumps(fields).encode()


def nested(levels: int) -> bytes:
    return b"[" * levels + b"]" * levels


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"{",
        b"\xff\xfe",
        b'{"runner_id": "\xed\xa0\x80"}',
        b'{"a": NaN}',
        b'{"a": -Infinity}',
        b'{"a": 1e999}',
        b'{"a": 1, "a": 2}',
        b'[{"x": {"a": 1, "a": 1}}]',
        b"1" * 5000,
        nested(JSON_DEPTH + 1),
        nested(100_000),
        "\ufeff{}".encode(),
        b"{} {}",
    ],
    ids=range(14),
)
def test_what_is_no_strict_json_is_refused(raw):
    with pytest.raises(InvalidInput):
        load_json(raw)


def test_depth_up_to_the_bound_is_read():
    assert load_json(nested(JSON_DEPTH)) is not None


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.binary(max_size=200))
def test_no_bytes_are_more_than_a_refusal(raw):
    for parse in (parse_poll, parse_acks, parse_renewal, parse_lines):
        with pytest.raises(InvalidInput):
            parse(raw)


_text = st.text(alphabet='a"\\\x00é\ud800', max_size=4) | st.just(RUN)
_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | _text,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_text, inner, max_size=3),
    max_leaves=4,
)
_names = st.sampled_from(
    [
        "runner_id",
        "instance_id",
        "capabilities",
        "tags",
        "max_inflight",
        "inflight",
        "execution_id",
        "status",
        "attempt",
        "duration_ms",
        "message",
        "level",
        "fields",
    ]
)


# The machine may be busy; how long the making of an example takes says nothing about the parser.
@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.dictionaries(_names, _json, max_size=5) | st.lists(st.dictionaries(_names, _json, max_size=4), max_size=3))
def test_no_json_is_more_than_a_refusal(value):
    raw = json.dumps(value).encode()
    for parse in (parse_poll, parse_acks, parse_renewal, parse_lines):
        try:
            parse(raw)
        except InvalidInput:
            continue


def test_a_poll_with_defaults():
    poll = parse_poll(body(runner_id="r1"))
    assert (poll.runner_id, poll.instance_id, poll.capabilities, poll.max_inflight, poll.free) == ("r1", "", (), 1, 1)
    assert parse_poll(body(runner_id="r1", instance_id=None, inflight=None, max_inflight=None, tags=None)) == poll
    assert parse_poll(body(runner_id="r1", from_a_newer_sdk={"x": 1})) == poll


def test_a_poll_in_full():
    poll = parse_poll(
        body(
            runner_id="r1",
            instance_id="i1",
            capabilities=["gpu", "gpu", "linux"],
            max_inflight=5,
            inflight=[RUN, "odd"],
            tags=["a=b"],
        )
    )
    assert poll.capabilities == ("gpu", "linux")
    assert poll.listed == {UUID(RUN): RUN}
    assert poll.unknown == ("odd",)
    assert poll.free == 3
    assert parse_poll(body(runner_id="r1", max_inflight=0, inflight=["x"])).free == 0


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("runner_id", None),
        ("runner_id", ""),
        ("runner_id", 5),
        ("runner_id", "a\nb"),
        ("runner_id", "x" * 256),
        ("runner_id", "nul\x00"),
        ("runner_id", "\ud800"),
        ("instance_id", 5),
        ("instance_id", "a\tb"),
        ("capabilities", "gpu"),
        ("capabilities", [1]),
        ("capabilities", ["x"] * 257),
        ("tags", {"a": "b"}),
        ("max_inflight", -1),
        ("max_inflight", 1.0),
        ("max_inflight", True),
        ("max_inflight", "1"),
        ("max_inflight", 10_001),
        ("inflight", "x"),
        ("inflight", [5]),
        ("inflight", ["x" * 256]),
        ("inflight", ["x"] * 10_001),
    ],
)
def test_a_poll_is_refused_by_the_field(field, value):
    with pytest.raises(InvalidInput) as refusal:
        parse_poll(body(**{"runner_id": "r1", field: value}))
    assert list(refusal.value.fields) == [field]


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("runner_id", None),
        ("execution_id", None),
        ("execution_id", "no-uuid"),
        ("execution_id", "{" + RUN + "}"),
        ("execution_id", 5),
        ("status", "done"),
        ("status", None),
        ("status", ["success"]),
        ("attempt", None),
        ("attempt", 0),
        ("attempt", "1"),
        ("attempt", 2**31),
        ("duration_ms", -1),
        ("duration_ms", "5"),
        ("duration_ms", 2**64),
    ],
)
def test_an_ack_is_refused_by_the_field(field, value):
    with pytest.raises(InvalidInput) as refusal:
        parse_acks(body(**{"runner_id": "r1", "execution_id": RUN, "status": "success", "attempt": 1, field: value}))
    assert list(refusal.value.fields) == [field]


@pytest.mark.parametrize(
    ("error", "kept"),
    [
        (None, ""),
        ("boom", "boom"),
        ("a\x00b\ud800", "a\ufffdb\ufffd"),
        ({"type": "ValueError"}, '{"type": "ValueError"}'),
        (5, "5"),
    ],
)
def test_an_error_of_any_shape_is_kept_as_text(error, kept):
    ack = parse_acks(body(runner_id="r1", execution_id=RUN, status="failure", attempt=1, error=error))
    assert ack.error == kept


def test_a_large_error_is_cut_with_a_mark():
    ack = parse_acks(body(runner_id="r1", execution_id=RUN, status="failure", attempt=1, error="é" * 1_000_000))
    assert len(ack.error.encode()) <= TEXT_BYTES
    assert ack.error.endswith(CUT_MARK)


def test_a_renewal():
    renewal = parse_renewal(body(runner_id="r1", execution_id=RUN))
    assert (renewal.run_id, renewal.runner_id, renewal.attempt) == (UUID(RUN), "r1", None)
    assert parse_renewal(body(runner_id="r1", execution_id=RUN, attempt=3)).attempt == 3
    with pytest.raises(InvalidInput) as refusal:
        parse_renewal(body(runner_id="r1", execution_id=RUN, attempt=0))
    assert list(refusal.value.fields) == ["attempt"]


def test_lines_are_cleaned_and_cut():
    raw = json.dumps(
        [
            {"message": "a\x00\ud800", "level": "warning-of-many-letters", "fields": {"k\x00": ["v\ud800"], "n": 1}},
            {"message": "x" * 100_000},
            {"message": "m", "level": None, "fields": {"big": ["y" * 1000] * 100}},
        ]
    ).encode()
    lines, runner_id = parse_lines(raw)
    assert runner_id is None
    assert lines[0].message == "a\ufffd\ufffd"
    assert lines[0].level == "warning-of-many-"[:16]
    assert lines[0].fields == {"k\ufffd": ["v\ufffd"], "n": 1}
    assert lines[1].message.endswith(CUT_MARK)
    assert len(lines[1].message.encode()) <= TEXT_BYTES
    assert lines[1].level == "info"
    assert list(lines[2].fields) == [CUT_MARK]
    assert len(json.dumps(lines[2].fields)) < TEXT_BYTES + 2000


@pytest.mark.parametrize("runner_id", ["", 5, "a\x00b", "a\ud800b", "x" * 256, ["r"] * 200, {"a": 1}, False])
def test_the_runner_that_lines_name_is_read_as_every_name_is(runner_id):
    lines = [{"message": "m"}, {"message": "m", "fields": {"runner_id": runner_id}}]
    with pytest.raises(InvalidInput) as refused:
        parse_lines(json.dumps(lines).encode())
    assert list(refused.value.fields) == ["events[1].fields.runner_id"]


def test_lines_name_one_runner():
    lines, runner_id = parse_lines(json.dumps([{"message": "m", "fields": {"runner_id": "r1"}}] * 2).encode())
    assert (len(lines), runner_id) == (2, "r1")
    with pytest.raises(InvalidInput):
        parse_lines(json.dumps([{"message": "m", "fields": {"runner_id": name}} for name in "ab"]).encode())


@pytest.mark.parametrize(
    ("value", "field"),
    [
        ({"message": "m"}, "events"),
        ([], "events"),
        ([{"message": "m"}] * 101, "events"),
        (["m"], "events[0]"),
        ([{"message": "m"}, {"message": 5}], "events[1].message"),
        ([{"level": "info"}], "events[0].message"),
        ([{"message": "m", "level": 3}], "events[0].level"),
        ([{"message": "m", "fields": []}], "events[0].fields"),
    ],
)
def test_lines_are_refused_by_their_place(value, field):
    with pytest.raises(InvalidInput) as refusal:
        parse_lines(json.dumps(value).encode())
    assert list(refusal.value.fields) == [field]


MIB = 1024 * 1024
HEAVY = {
    "lists": b"[]," * (8 * MIB // 3),
    "objects": b"{}," * (8 * MIB // 3),
    "numbers": b"1," * (4 * MIB),
    "texts": b'"",' * (8 * MIB // 3),
    "escaped": rb'"\\",' * (8 * MIB // 5),
    "named": b'{"a":"","b":""},' * (8 * MIB // 16),
}


@pytest.mark.parametrize("parse", [parse_poll, parse_acks, parse_renewal, parse_lines])
@pytest.mark.parametrize("heavy", HEAVY.values(), ids=HEAVY)
def test_megabytes_that_are_dear_to_read_are_not_read(parse, heavy):
    """A quarter of what is let in: read in one piece, it would stop the event loop with all its polls for seconds."""
    raw = b'{"runner_id": "r1", "inflight": [' + heavy + b"0]}"
    began = time.thread_time()
    with pytest.raises(TooLarge):
        parse(raw)
    assert time.thread_time() - began < 0.5


@pytest.mark.parametrize("text", ["[],{", '","', "\\", '\\"[', '"'])
def test_a_text_of_megabytes_is_no_number_of_values(text):
    raw = body(runner_id="r1", execution_id=RUN, status="failure", attempt=1, error=text * 500_000)
    assert len(parse_acks(raw).error.encode()) <= TEXT_BYTES


def test_two_hundred_thousand_values_are_read_and_no_more():
    assert len(load_json(b"[" + b"0," * (MOST_VALUES - 1) + b"0]")) == MOST_VALUES
    with pytest.raises(TooLarge):
        load_json(b"[" + b"0," * MOST_VALUES + b"0]")


def test_a_runs_id_in_a_path():
    assert run_id_of(RUN.upper()) == UUID(RUN)
    for text in ("", "no-uuid", RUN.replace("-", ""), f"urn:uuid:{RUN}", RUN + "\n"):
        with pytest.raises(InvalidInput) as refusal:
            run_id_of(text)
        assert list(refusal.value.fields) == ["execution_id"]
