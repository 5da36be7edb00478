"""A run's log: who may write, in which order, how much."""

from __future__ import annotations

from datetime import timedelta
from uuid import uuid4

import pytest

from croniq_site.kernel.errors import Conflict, NotFound
from scheduler.domain.work import LogLine
from scheduler.models import QueueEntry, RunLog
from scheduler.services import log
from scheduler.services.log import append_log
from tests.factories import ApiClientFactory, QueueEntryFactory
from tests.scheduler.conformance.snapshots import everything

pytestmark = pytest.mark.django_db


def client_of(entry):
    return entry.holder.runner.client_id


def messages(entry):
    return list(RunLog.objects.filter(run_id=entry.run_id).order_by("id").values_list("message", flat=True))


@pytest.mark.parametrize("trait", ["claimed", "stopping"])
def test_lines_are_kept_in_their_order_with_level_fields_and_attempt(now, trait):
    entry = QueueEntryFactory(attempt=2, **{trait: True})
    lines = [LogLine(f"line {n}", level="debug", fields={"n": n}) for n in range(50)]
    assert append_log(entry.run_id, client_of(entry), lines, now) == 50
    assert append_log(entry.run_id, client_of(entry), [LogLine("last")], now + timedelta(seconds=1)) == 1
    assert messages(entry) == [*(f"line {n}" for n in range(50)), "last"]
    row = RunLog.objects.order_by("id")[7]
    assert (row.level, row.fields, row.attempt, row.logged_at) == ("debug", {"n": 7}, 2, now)


def test_no_lines_no_rows(now):
    entry = QueueEntryFactory(claimed=True)
    assert append_log(entry.run_id, client_of(entry), [], now) == 0


def test_only_the_client_of_the_holder_may_write(now):
    entry = QueueEntryFactory(claimed=True)
    before = everything()
    with pytest.raises(Conflict) as refusal:
        append_log(entry.run_id, ApiClientFactory().pk, [LogLine("x")], now)
    assert refusal.value.code == "stale_claim"
    assert everything() == before


def test_runner_and_attempt_must_be_the_holders_where_they_are_said(now):
    entry = QueueEntryFactory(claimed=True)
    client, runner = client_of(entry), entry.holder.runner.runner_id
    assert append_log(entry.run_id, client, [LogLine("x")], now, runner_id=runner, attempt=1) == 1
    with pytest.raises(Conflict):
        append_log(entry.run_id, client, [LogLine("x")], now, runner_id="somebody else")
    with pytest.raises(Conflict):
        append_log(entry.run_id, client, [LogLine("x")], now, runner_id="")
    with pytest.raises(Conflict):
        append_log(entry.run_id, client, [LogLine("x")], now, attempt=2)
    assert messages(entry) == ["x"]


def test_nobody_writes_to_a_run_that_nobody_holds(now):
    waiting, finished = QueueEntryFactory(attempt=1), QueueEntryFactory(claimed=True)
    client = client_of(finished)
    QueueEntry.objects.filter(pk=finished.pk).delete()
    for entry in (waiting, finished):
        with pytest.raises(Conflict):
            append_log(entry.run_id, client, [LogLine("x")], now)
    with pytest.raises(NotFound):
        append_log(uuid4(), client, [LogLine("x")], now)
    assert not RunLog.objects.exists()


def test_a_full_log_says_so_once_and_keeps_no_more(now, monkeypatch):
    monkeypatch.setattr(log, "MOST_BYTES", 100)
    entry = QueueEntryFactory(claimed=True)

    def post(*lengths):
        return append_log(entry.run_id, client_of(entry), [LogLine("ü" * n, level="") for n in lengths], now)

    assert post(20, 20) == 2  # 80 bytes
    assert post(10) == 1  # 100 bytes: exactly full
    assert post(1, 1) == 0
    assert post(1) == 0
    assert messages(entry) == ["ü" * 20, "ü" * 20, "ü" * 10, log.FULL]


def test_the_limit_holds_over_the_attempts_of_a_run_and_counts_fields(now, monkeypatch):
    monkeypatch.setattr(log, "MOST_BYTES", 100)
    entry = QueueEntryFactory(claimed=True, attempt=2, log_bytes=90)
    assert append_log(entry.run_id, client_of(entry), [LogLine("x", fields={"long": "y" * 20})], now) == 0
    assert messages(entry) == [log.FULL]


def test_a_line_that_does_not_fit_does_not_let_later_ones_in(now, monkeypatch):
    monkeypatch.setattr(log, "MOST_BYTES", 10)
    entry = QueueEntryFactory(claimed=True)
    lines = [LogLine("a", level=""), LogLine("b" * 50, level=""), LogLine("c", level="")]
    assert append_log(entry.run_id, client_of(entry), lines, now) == 1
    assert messages(entry) == ["a", log.FULL]
