"""Letters that two throw away at once are thrown away and told once."""

from __future__ import annotations

import pytest

from croniq_site.kernel.errors import NotFound
from runners.models import AuditEvent
from scheduler.models import DeadLetter
from scheduler.services.letters import delete_letter, delete_letters, note_letter
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


@pytest.mark.django_db(transaction=True)
def test_two_who_throw_away_one_letter_tell_it_once(now, database):
    if database != "postgresql":
        pytest.skip("SQLite has one writer")
    letter = DeadLetterFactory(created_at=now)
    with Session() as first, Session() as second:
        first.begin()
        first.run(delete_letter, letter.pk, now, ACTOR)
        pid = second.backend_pid
        again = second.start(delete_letter, letter.pk, now, ACTOR)
        poll_until(lambda: is_waiting_for_lock(pid) or again.done(), what="the second waits")
        first.commit()
        assert isinstance(again.exception(DEADLINE_SECONDS), NotFound)
    assert AuditEvent.objects.filter(action="dead_letter.deleted").count() == 1


@pytest.mark.django_db(transaction=True)
def test_the_second_of_two_notes_is_told_as_what_replaced_the_first(now, database):
    if database != "postgresql":
        pytest.skip("SQLite has one writer")
    letter = DeadLetterFactory(created_at=now)
    with Session() as first, Session() as second:
        first.begin()
        first.run(note_letter, letter.pk, "one", now, ACTOR)
        pid = second.backend_pid
        again = second.start(note_letter, letter.pk, "two", now, ACTOR)
        poll_until(lambda: is_waiting_for_lock(pid) or again.done(), what="the second waits")
        first.commit()
        again.result(DEADLINE_SECONDS)
    notes = AuditEvent.objects.filter(action="dead_letter.noted").order_by("pk")
    assert [event.diff["note"] for event in notes] == [["", "one"], ["one", "two"]]
