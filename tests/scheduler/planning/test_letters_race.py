"""Letters that two throw away at once are thrown away and told once."""

from __future__ import annotations

import pytest

from runners.models import AuditEvent
from scheduler.models import DeadLetter
from scheduler.services.letters import delete_letters
from tests.factories import DeadLetterFactory
from tests.scheduler.planning.support import ACTOR
from tests.support.polling import poll_until
from tests.support.races import DEADLINE_SECONDS, Session, is_waiting_for_lock


@pytest.mark.django_db(transaction=True)
def test_two_who_throw_away_all_letters_count_each_once(now, database):
    if database != "postgresql":
        pytest.skip("SQLite has one writer")
    for _ in range(3):
        DeadLetterFactory(created_at=now)
    with Session() as first, Session() as second:
        first.begin()
        assert first.run(delete_letters, now, ACTOR, everything=True) == 3
        pid = second.backend_pid
        again = second.start(delete_letters, now, ACTOR, everything=True)
        poll_until(lambda: is_waiting_for_lock(pid) or again.done(), what="the second waits")
        first.commit()
        assert again.result(DEADLINE_SECONDS) == 0
    assert not DeadLetter.objects.exists()
    events = AuditEvent.objects.filter(action="dead_letters.deleted")
    assert [event.diff["count"] for event in events] == [3]
