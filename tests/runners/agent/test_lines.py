"""Any bytes become lines that the wire takes, and nothing that is text is lost."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from runners.agent.lines import CONTINUED, LINE_BYTES, LineSplitter


def split(*chunks: bytes) -> list[str]:
    splitter = LineSplitter()
    lines = [line for chunk in chunks for line in splitter.feed(chunk)]
    return lines + splitter.finish()


def joined(lines: list[str]) -> str:
    """Put split lines together again."""
    return "".join(line.removesuffix(CONTINUED) if line.endswith(CONTINUED) else line + "\n" for line in lines)


def test_lines_end_at_line_feeds() -> None:
    assert split(b"a\nb\r\n\nc") == ["a", "b", "", "c"]
    assert split(b"a\n") == ["a"]
    assert split(b"") == []


def test_a_line_is_given_as_soon_as_it_is_complete() -> None:
    splitter = LineSplitter()
    assert splitter.feed(b"one\ntw") == ["one"]
    assert splitter.feed(b"o\n") == ["two"]
    assert splitter.finish() == []


def test_what_is_not_text_is_replaced() -> None:
    assert split(b"\xff\xfea\0b\n") == ["\ufffd\ufffda\ufffdb"]


def test_a_character_torn_between_two_reads_is_whole() -> None:
    assert split("ä€😀".encode()[:4], "ä€😀".encode()[4:7], "ä€😀".encode()[7:] + b"\n") == ["ä€😀"]


def test_a_huge_line_comes_in_marked_pieces_and_complete() -> None:
    text = "0123456789ä€😀" * 20_000
    lines = split(*[text.encode()[at : at + 4096] for at in range(0, len(text.encode()), 4096)], b"\nnext\n")
    assert lines[-1] == "next"
    assert len(lines) > 3
    assert joined(lines) == text + "\nnext\n"
    assert "\ufffd" not in joined(lines)
    assert all(len(line.encode()) <= LINE_BYTES for line in lines)


def test_a_huge_line_does_not_wait_for_its_end() -> None:
    splitter = LineSplitter()
    given_out = sum(len(line) for _ in range(100) for line in splitter.feed(b"x" * 4096))
    assert given_out > 4096 * 100 - LINE_BYTES


def test_garbage_that_grows_by_replacing_still_fits() -> None:
    lines = split(b"\xff" * 200_000 + b"\n")
    assert all(len(line.encode()) <= LINE_BYTES for line in lines)
    assert joined(lines) == "\ufffd" * 200_000 + "\n"


@given(
    st.lists(
        st.binary(max_size=40) | st.sampled_from([b"\n", b"\r\n", b"x" * LINE_BYTES, b"\xf0" * 70_000]), max_size=8
    )
)
def test_the_lines_do_not_depend_on_how_the_bytes_arrive(chunks: list[bytes]) -> None:
    whole = split(b"".join(chunks))
    parts = split(*chunks)
    assert joined(parts) == joined(whole)
    assert all(len(line.encode()) <= LINE_BYTES and "\n" not in line and "\0" not in line for line in parts + whole)
