"""A scrape by a clock that stands still, of a process that has just been started."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

import pytest

from croniq_site.kernel.clock import ManualClock
from runners.api import authentication
from scheduler.metrics import exposition, hot
from scheduler.queries.successes import Successes


@pytest.fixture(autouse=True)
def new_process(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Nothing is in memory, as after a restart; nothing is left for other tests."""
    monkeypatch.setattr(exposition, "_successes", Successes())
    hot.reset()
    yield
    hot.reset()


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch, now: datetime) -> ManualClock:
    clock = ManualClock(now)
    monkeypatch.setattr(authentication, "CLOCK", clock)
    return clock
