"""What is left between two tests that commit: what a whole flush leaves, however it came about."""

from __future__ import annotations

import pytest
from django.contrib.auth.models import Group, User
from django.db import DatabaseError, connection
from django.test import TransactionTestCase

from runners.models import AuditEvent
from tests.factories import AuditEventFactory, QueueEntryFactory
from tests.support import flush

pytestmark = pytest.mark.django_db(transaction=True)


class Watched:
    """A flusher that is told apart from Django's own: `wholes` counts how often that one was needed."""

    def __init__(self) -> None:
        self.flusher, self.wholes = flush.Flusher(), 0

    def __call__(self) -> None:
        self.flusher.teardown(self._whole, TransactionTestCase())

    def _whole(self, case: TransactionTestCase) -> None:
        self.wholes += 1
        flush.WHOLE(case)


def everything() -> dict[str, list[tuple]]:
    with connection.cursor() as cursor:
        found = {}
        for table in connection.introspection.django_table_names(only_existing=True, include_views=False):
            cursor.execute(f"SELECT * FROM {connection.ops.quote_name(table)} ORDER BY 1")
            found[table] = cursor.fetchall()
    return found


def commit() -> None:
    QueueEntryFactory()
    AuditEventFactory()
    User.objects.create(username="ann").groups.set(Group.objects.all())


def test_what_a_test_has_committed_is_gone_and_what_a_whole_flush_leaves_is_there():
    emptied = Watched()
    emptied()
    left = everything()
    assert emptied.wholes == 1
    assert {table for table, rows in left.items() if rows} >= {"auth_group", "auth_permission"}
    for _ in range(2):
        commit()
        emptied()
        assert everything() == left
    assert emptied.wholes == 1
    AuditEventFactory()
    with pytest.raises(DatabaseError):
        AuditEvent.objects.all().delete()


def test_what_a_test_has_changed_of_it_is_made_anew():
    emptied = Watched()
    emptied()
    names = {group.name: group.permissions.count() for group in Group.objects.all()}
    Group.objects.get(name="viewer").permissions.clear()
    emptied()
    assert emptied.wholes == 2
    assert {group.name: group.permissions.count() for group in Group.objects.all()} == names


def test_what_many_deleted_rows_leave_in_the_files_is_cleared_away_in_time(monkeypatch):
    monkeypatch.setattr(flush, "MOST_DELETED", 3)
    emptied = Watched()
    wholes = []
    for _ in range(4):
        commit()
        emptied()
        wholes.append(emptied.wholes)
    assert wholes == [1, 1, 2, 2]
