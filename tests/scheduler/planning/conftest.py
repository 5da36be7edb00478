"""What the stories about planning begin with."""

from __future__ import annotations

from datetime import datetime

import pytest

from croniq_site.kernel.clock import ManualClock
from runners.domain.scopes import Principal
from runners.services.clients import create_client
from tests.scheduler.planning import support
from tests.scheduler.planning.world import World


@pytest.fixture
def clock(now: datetime) -> ManualClock:
    return ManualClock(now)


@pytest.fixture
def registrar(now: datetime, db: None) -> Principal:
    """A runner's key: it may register and trigger, and belongs to no tenant."""
    return support.principal("jobs:register", "jobs:trigger", client=create_client("runner", ["jobs:register"], now))


@pytest.fixture
def world(clock: ManualClock, db: None) -> World:
    world = World(clock)
    world.restart()
    return world
