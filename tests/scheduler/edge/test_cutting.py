"""Texts that are cut while they arrive: what is left is JSON, and says the same up to the cut."""

from __future__ import annotations

import io
import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from rest_framework.test import APIClient

from croniq_site.kernel.errors import TooLarge
from croniq_site.kernel.text import CUT_MARK
from scheduler.api.work import http
from scheduler.api.work.cutting import Cutter
from scheduler.api.work.http import CUT_BYTES, read_texts_of
from scheduler.api.work.parsing import TEXT_BYTES
from scheduler.models import Run
from tests.scheduler.edge.helpers import FakeRunner, due_run
from tests.support.server import live_edge

_text = st.text(alphabet='ab"\\\n\x00é中💩\ud800', max_size=30)
_json = st.recursive(
    st.none() | st.integers() | _text,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(_text, inner, max_size=3),
    max_leaves=8,
)


def cut(body: bytes, places: list[int], most: int) -> bytes:
    cutter, at, given = Cutter(most), 0, []
    for place in sorted(places):
        given.append(cutter.feed(body[at:place]))
        at = place
    return b"".join([*given, cutter.feed(body[at:]), cutter.rest()])


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(_json, st.lists(st.integers(0, 300), max_size=12), st.integers(0, 40), st.booleans())
def test_what_is_left_is_json_that_begins_as_it_did(value, places, most, is_ascii):
    body = json.dumps(value, ensure_ascii=is_ascii).encode("utf-8", "surrogatepass")
    given = cut(body, [min(place, len(body)) for place in places], most)
    _compare(_read(given), _read(body), most)


class Pairs(tuple):
    """An object as it was sent: names that the cut makes equal stand twice."""


def _read(body: bytes):
    return json.loads(body.decode("utf-8", "surrogatepass"), object_pairs_hook=Pairs)


def _compare(left, value, most: int) -> None:
    assert type(left) is type(value)
    if isinstance(value, str):
        if left != value:
            # Half of an escaped pair may be left; each character is at most twelve bytes as it is sent.
            whole = left[:-1] if left and "\ud800" <= left[-1] <= "\udfff" else left
            assert value.startswith(whole)
            assert len(json.dumps(value)) > most
    elif isinstance(value, list | tuple):
        assert len(left) == len(value)
        for one, other in zip(left, value, strict=True):
            _compare(one, other, most)
    else:
        assert left == value


@given(st.binary(max_size=60), st.lists(st.integers(0, 60), max_size=6))
def test_what_is_short_is_not_touched_whatever_it_is(body, places):
    assert cut(body, [min(place, len(body)) for place in places], 1000) == body


@pytest.mark.parametrize("unit", ["x", "\\u0041", "é", "💩", "\\ud83d\\ude00", "\\n", '\\"'], ids=ascii)
def test_a_text_of_megabytes_leaves_no_more_than_its_bound_and_enough_for_its_mark(unit):
    body = b'{"error": "' + unit.encode() * (4_000_000 // len(unit.encode())) + b'"}'
    given = read_texts_of(io.BytesIO(body))
    assert len(given) < CUT_BYTES + 100
    assert len(json.loads(given)["error"].encode("utf-8", "replace")) > TEXT_BYTES


def test_what_is_read_and_what_is_kept_have_their_bounds(monkeypatch):
    monkeypatch.setattr(http, "KEPT_BYTES", 200_000)
    monkeypatch.setattr(http, "READ_BYTES", 2_000_000)
    with pytest.raises(TooLarge):
        read_texts_of(io.BytesIO(b"[" + b"1," * 100_001))
    with pytest.raises(TooLarge):
        read_texts_of(io.BytesIO(b'"' + b"x" * 2_000_000 + b'"'))


@pytest.mark.django_db(transaction=True)
def test_an_error_over_every_limit_ends_its_run_the_same_at_both_doors(monkeypatch):
    """Over what is kept of one, with its last field behind it."""
    monkeypatch.setattr(http, "KEPT_BYTES", 1_000_000)
    entries = [due_run(max_attempts=1), due_run(max_attempts=1)]
    with live_edge() as server:
        runner = FakeRunner(server, server.key())
        runner.work()
        django = APIClient()
        django.credentials(HTTP_AUTHORIZATION=f"ApiKey {runner.key}")
        told = []
        for entry in entries:
            ack = {
                "runner_id": "r1",
                "execution_id": str(entry.run_id),
                "error": "@",
                "status": "failure",
                "attempt": 1,
            }
            told.append(json.dumps(ack).encode().replace(b"@", b"\\u0000x" * 7_200_000))
        assert len(told[0]) > 50_000_000
        assert server.post("/v1/work/ack", content=told[0], key=runner.key).status_code == 200
        answer = django.generic("POST", "/v1/work/ack", told[1], content_type="application/json")
        assert answer.status_code == 200, answer.content
    first, second = (Run.objects.get(pk=entry.run_id) for entry in entries)
    assert first.error == second.error
    assert first.error.startswith("\ufffdx")
    assert first.error.endswith(CUT_MARK)
    assert first.verdict
