"""The one timer that a server has for the keys that it knows: it rings when the first of them ends."""

from __future__ import annotations

import asyncio
from datetime import timedelta

from croniq_site.kernel.clock import ManualClock
from runners.domain.scopes import Principal
from scheduler.api.work.auth import SOONEST_SECONDS, Keys
from scheduler.api.work.pool import Pool


def test_it_rings_for_the_first_that_ends_and_for_none_twice(now):
    async def story() -> None:
        keys, loop = Keys(Pool(), ManualClock(now)), asyncio.get_running_loop()

        def know(seconds: float | None) -> asyncio.TimerHandle | None:
            ends = None if seconds is None else now + timedelta(seconds=seconds)
            keys._look_when_it_expires(Principal(1, "r", None, expires_at=ends), now)
            return keys._first_end

        assert know(None) is None
        in_an_hour = know(3600)
        assert know(7200) is in_an_hour
        in_a_minute = know(60)
        assert in_an_hour.cancelled()
        assert know(3600) is in_a_minute
        before = loop.time()
        over = know(-5)  # by the database it is over, and by this clock was not: not again and again at once
        assert in_a_minute.cancelled()
        assert over.when() >= before + SOONEST_SECONDS
        over.cancel()

    asyncio.run(story())
