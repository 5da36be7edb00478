"""What the conformance suite shares. It runs on whatever database the process has: both must give the same verdict."""

from __future__ import annotations

import pytest

from tests.factories import LaneFactory, RunnerInstanceFactory


@pytest.fixture
def lane(db):
    return LaneFactory()


@pytest.fixture
def holder(db):
    return RunnerInstanceFactory()
