"""What heals itself is counted: in rows, in the transaction of the event, so that any process tells of it and for good.

A scrape here is that of a process with nothing in memory (`new_process`): another one than that of the event.
"""

from __future__ import annotations

from datetime import timedelta

import pytest

from croniq_site.kernel.errors import Conflict, Forbidden
from runners.domain.scopes import Principal
from runners.models import RunnerInstance
from scheduler.domain.budgets import OVERLAP
from scheduler.domain.polls import PollRequest
from scheduler.domain.work import Ack, AckStatus, LossCause
from scheduler.models import Attempt, DeadLetter, QueueEntry, Run, SkippedSpan, Tally
from scheduler.services.admit import skip_fires
from scheduler.services.finish import finish, time_out
from scheduler.services.identity import admit, refusals
from scheduler.services.late import LateWord, note_late_words
from scheduler.services.maintenance import begin_maintenance, end_maintenance
from scheduler.services.materialize import materialize
from scheduler.services.pause import pause_job, resume_job
from scheduler.services.release import reap_leases, release
from scheduler.services.retention import drop_old_runs
from scheduler.services.skip import skip_next
from tests.factories import ApiClientFactory, HeartbeatFactory, JobFactory, QueueEntryFactory, RunnerFactory
from tests.scheduler.metrics.scrapes import scraped
from tests.scheduler.planning.support import ACTOR, make_job, make_trigger
from tests.support.audit import forget_audit

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("clock")]

SECOND = timedelta(seconds=1)
MINUTE = timedelta(minutes=1)


def principal_of(client) -> Principal:
    return Principal(client.pk, client.name, client.tenant, frozenset({"admin"}))


def poll_of(runner_id: str, instance_id: str) -> PollRequest:
    return PollRequest(runner_id, instance_id)


def restart(client, now, times: int = 1, runner_id: str = "r1") -> None:
    for _ in range(times):
        instance = f"i{RunnerInstance.objects.count()}"
        admit(poll_of(runner_id, instance), principal_of(client), now)


def test_takeovers_and_flapping_which_ends_by_itself(now, clock):
    client = ApiClientFactory()
    restart(client, now, times=3)
    scrape = scraped()
    assert scrape.value("croniq_runner_takeovers_total") == 2
    assert scrape.of("croniq_runner_flapping", "runner_id") == {}
    restart(client, now)
    restart(client, now, runner_id="calm")
    scrape = scraped()
    assert scrape.value("croniq_runner_takeovers_total") == 3
    assert scrape.value("croniq_runner_identity_flapping_total") == 1
    assert scrape.of("croniq_runner_flapping", "runner_id") == {"r1": 1}
    clock.tick(10 * MINUTE)
    assert scraped().of("croniq_runner_flapping", "runner_id") == {}
    assert scraped().value("croniq_runner_takeovers_total") == 3


def test_refused_identities_of_polls_and_of_words(now):
    RunnerFactory(runner_id="r1")
    stranger = principal_of(ApiClientFactory())
    with pytest.raises(Forbidden):
        admit(poll_of("r1", "i1"), stranger, now)
    assert isinstance(refusals([("r1", stranger)], now)[0], Forbidden)
    assert scraped().value("croniq_runner_identity_rejected_total") == 2


def test_losses_by_cause_and_burials(now):
    reaped = [QueueEntryFactory(claimed=True) for _ in range(2)]
    used_up = QueueEntryFactory(claimed=True, job__max_losses=0, job__max_retries=0)
    taken = QueueEntryFactory(claimed=True, lease_expires_at=now + 9 * MINUTE)
    gone = QueueEntryFactory(claimed=True, lease_expires_at=now + 9 * MINUTE)
    assert reap_leases(now + 2 * MINUTE).lost == len(reaped) + 1
    release([(taken.run_id, 1)], now, LossCause.TAKEOVER)
    release([(gone.run_id, 1)], now, LossCause.DISCONNECTED)  # no loss
    scrape = scraped()
    assert scrape.of("croniq_runs_lost_total", "cause") == {"lease": 3, "takeover": 1, "lost_answer": 0}
    assert scrape.value("croniq_runs_buried_total") == 1
    assert scrape.value("croniq_runs_failed_total", job_key=used_up.job.job_key, outcome="dead") == 1
    assert scrape.value("croniq_dead_letters") == 1


def test_runs_that_end_without_success_whoever_ends_them(now):
    job = JobFactory(job_key="demo:a", max_retries=0)
    acked = QueueEntryFactory(claimed=True, job=job)
    QueueEntryFactory(claimed=True, job=job, deadline_at=now)
    QueueEntryFactory(claimed=True, job=JobFactory(job_key="demo:b", max_retries=1), deadline_at=now)
    finish([Ack(acked.run_id, 1, acked.holder.runner.runner_id, AckStatus.FAILURE)], now)
    assert time_out(now, 10) == 2
    scrape = scraped()
    assert scrape.value("croniq_runs_failed_total", job_key="demo:a", outcome="dead") == 2
    assert scrape.value("croniq_runs_failed_total", job_key="demo:b", outcome="dead") == 0  # it has an attempt left
    assert scrape.value("croniq_runs_failed_total", job_key="demo:a", outcome="failed") == 0


def test_late_words(now):
    entry = QueueEntryFactory(claimed=True)
    words = [LateWord(entry.run_id, word, "r1", principal_of(ApiClientFactory())) for word in ("ack", "renew", "renew")]
    note_late_words(words, now)
    assert scraped().of("croniq_run_late_words_total", "word") == {"ack": 1, "renew": 2, "events": 0}


def test_skipped_fires_by_reason(now, clock):
    HeartbeatFactory(beat_at=now + 24 * 60 * MINUTE)
    job = make_job(now)
    make_trigger(job, now, every="10m")
    skip_next("demo:job", now, ACTOR)
    pause_job("demo:job", now)
    resume_job("demo:job", clock.tick(30 * MINUTE))
    begin_maintenance(clock.now(), ACTOR)
    end_maintenance(clock.tick(20 * MINUTE))
    found = scraped().of("croniq_fires_skipped_total", "reason")
    assert {reason: count for reason, count in found.items() if count} == {
        "skip_next": 1,
        "paused": 2,
        "maintenance": 2,
    }
    assert {"downtime", "overlap", "queue_full", "rules_changed"} <= set(found)
    # A gap that nobody planned in is one row of many fires.
    materialize(clock.tick(5 * 60 * MINUTE))
    span = SkippedSpan.objects.get()
    assert scraped().of("croniq_fires_skipped_total", "reason")["downtime"] == span.count > 20


def test_fires_that_a_limited_job_skips_when_they_fall_due(now):
    entries = QueueEntryFactory.create_batch(3, job=JobFactory(), state=QueueEntry.State.GATED)
    skip_fires(entries, {entries[0].job_id: entries[0].job}, OVERLAP, now)
    assert scraped().value("croniq_fires_skipped_total", reason="overlap") == 3


def test_an_event_that_is_rolled_back_is_not_counted(now, monkeypatch):
    entry = QueueEntryFactory(claimed=True)

    def fail(*args) -> None:
        raise Conflict("no", code="no")

    monkeypatch.setattr("scheduler.services.release.tell", fail)
    with pytest.raises(Conflict):
        release([(entry.run_id, 1)], now, LossCause.TAKEOVER)
    assert not Tally.objects.exists()


def test_pruning_whatever_was_counted_lowers_no_count(now, settings):
    settings.CRONIQ_RUN_RETENTION_SECONDS = 60.0
    restart(ApiClientFactory(), now, times=5)
    with pytest.raises(Forbidden):
        admit(poll_of("r1", "x"), principal_of(ApiClientFactory()), now)
    QueueEntryFactory(claimed=True, job__max_losses=0, job__max_retries=0)
    reap_leases(now + 2 * MINUTE)
    before = scraped()
    forget_audit()
    for model in (RunnerInstance, Attempt, DeadLetter, SkippedSpan, QueueEntry):
        model.objects.all().delete()
    assert drop_old_runs(now + timedelta(days=1)) == 1
    assert not Run.objects.exists()
    after = scraped()
    rare = [key for key in before.series if key[0].startswith("croniq_r") and key[0].endswith("_total")]
    assert sum(before.samples[key] for key in rare) >= 8
    assert {key: after.samples[key] for key in rare} == {key: before.samples[key] for key in rare}


def test_what_never_happened_is_zero_so_that_the_first_time_is_an_increase(now):
    scrape = scraped()
    for name in ("runner_takeovers", "runner_identity_flapping", "runner_identity_rejected", "runs_buried"):
        assert scrape.value(f"croniq_{name}_total") == 0
    assert set(scrape.of("croniq_runs_lost_total", "cause").values()) == {0}
    assert set(scrape.of("croniq_fires_skipped_total", "reason").values()) == {0}
