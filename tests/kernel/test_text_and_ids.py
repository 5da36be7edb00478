from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from croniq_site.kernel.ids import uuid7, uuid7_of
from croniq_site.kernel.text import CUT_MARK, cleaned, is_printable_name


@given(st.text(st.characters(), max_size=300), st.integers(64, 400))
def test_any_text_becomes_storable_and_is_never_longer_than_allowed(text, most):
    result = cleaned(text, most)
    assert len(result.encode()) <= most
    assert "\x00" not in result


def test_what_cannot_be_stored_is_replaced_and_what_is_cut_says_so():
    assert cleaned("a\x00b\ud800c", 100) == "a\ufffdb\ufffdc"
    cut = cleaned("ä" * 100, 100)
    assert cut.endswith(CUT_MARK)
    assert len(cut.encode()) <= 100
    assert cleaned("x" * 100, 100) == "x" * 100


@pytest.mark.parametrize("name", ["a", "a b", "größe", "x" * 255, "日本"])
def test_printable_names(name):
    assert is_printable_name(name)


@pytest.mark.parametrize("name", ["", " a", "a ", "a\nb", "a\x00", "x" * 256, "a\u202eb", "a\ud800", "a\u2028b", "\t"])
def test_names_that_are_refused(name):
    assert not is_printable_name(name)


def test_ids_are_version_7_unique_and_ordered_by_time():
    now = datetime(2026, 11, 29, 12, tzinfo=UTC)
    ids = [uuid7(now + timedelta(milliseconds=k)) for k in range(1000)]
    assert ids == sorted(ids)
    assert len({uuid7(now) for _ in range(1000)}) == 1000
    assert {(i.version, i.variant) for i in ids} == {(7, "specified in RFC 4122")}
    assert ids[0].int >> 80 == int(now.timestamp() * 1000)


@pytest.mark.parametrize("number", [1, 2**40, 2**63 - 1])
def test_the_id_of_a_number_at_an_instant_is_always_the_same(now, number):
    micro = int(now.timestamp()) * 1_000_000 + 123_456
    first = UUID(uuid7_of(micro, number))
    assert (first.version, first.variant, uuid7_of(micro, number)) == (7, "specified in RFC 4122", first.hex)
    assert first.int >> 80 == micro // 1000
    others = [(micro, number - 1), (micro + 1, number), (micro + 1000, number), (micro, number ^ 2**62)]
    assert len({first.hex, *(uuid7_of(*other) for other in others)}) == 5
    assert uuid7_of(micro, number) < uuid7_of(micro + 1, number)
