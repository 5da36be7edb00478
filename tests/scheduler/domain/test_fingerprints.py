"""What errors are grouped by."""

from __future__ import annotations

import pytest

from scheduler.domain.fingerprints import MOST_CHARACTERS, fingerprint_of


@pytest.mark.parametrize(
    ("error", "fingerprint"),
    [
        ("exit code 17", "exit code <n>"),
        ("took 3.5 s, 1,204 rows at 12:30:05", "took <n> s, <n> rows at <n>"),
        ("run 018f4e9c-8a1b-7c3d-9e2f-0123456789ab is gone", "run <id> is gone"),
        ("at 0xDEADBEEF of 3f2a9bcd11", "at <hex> of <hex>"),
        ("a decade of facade", "a decade of facade"),
        ("cannot open /var/lib/x-1/9.txt: no such file", "cannot open <path>: no such file"),
        (r"cannot open C:\Temp\9.txt", "cannot open <path>"),
        ("GET https://example.org/a/7?b=c answered 503", "GET <url> answered <n>"),
        ("either/or", "either/or"),
        ("  two\n\tlines  ", "two lines"),
        ('Traceback (most recent call last)\n  File "/a/b.py", line 3, in x\nKeyError: 7\n', "KeyError: <n>"),
        ("", "losses exhausted"),
        (" \n ", "losses exhausted"),
    ],
)
def test_what_differs_from_run_to_run_is_taken_out(error, fingerprint):
    assert fingerprint_of(error, "losses_exhausted") == fingerprint


@pytest.mark.parametrize("error", ["x" * 70_000, "1 " * 40_000, "a/" * 40_000, "é" * 70_000, "0" * 70_000])
def test_of_any_error_it_is_one_short_line(error):
    fingerprint = fingerprint_of(error, "failed")
    assert 0 < len(fingerprint) <= MOST_CHARACTERS
    assert fingerprint == fingerprint.strip()
