"""A server passes over what was there when it began, and looks at the rest when it chooses to."""

from __future__ import annotations

import gc
import weakref

import pytest

from croniq_site.kernel import garbage
from croniq_site.kernel.garbage import Garbage


class Thing:
    """Part of a circle: only a full look finds it once it is old."""

    def __init__(self) -> None:
        self.itself = self


@pytest.fixture(autouse=True)
def _as_before():
    thresholds = gc.get_threshold()
    yield
    gc.unfreeze()
    gc.set_threshold(*thresholds)


def test_old_circles_are_found_once_a_minute_and_not_before(monkeypatch):
    looks = Garbage()
    thing = Thing()
    gc.collect(1)
    gone = weakref.ref(thing)
    del thing
    gc.collect(1)
    assert not looks.look()
    assert gone() is not None
    monkeypatch.setattr(garbage, "FULL_EVERY_SECONDS", 0.0)
    assert looks.look()
    assert gone() is None


def test_what_was_there_at_the_beginning_is_passed_over():
    assert gc.get_freeze_count() == 0
    Garbage()
    assert gc.get_freeze_count() > 1000


def test_python_makes_no_full_look_of_its_own():
    Garbage()
    young, middle, old = gc.get_threshold()
    assert young * middle * old > 10**9
