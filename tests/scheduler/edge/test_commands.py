"""Two kinds of runner at one server: those with handlers in their code, and those that execute actions."""

from __future__ import annotations

from datetime import timedelta
from types import SimpleNamespace

import pytest

from croniq_site.kernel.capabilities import COMMAND, COMMAND_ONLY, HTTP
from croniq_site.kernel.clock import ManualClock
from croniq_site.kernel.errors import InvalidInput
from runners.services.audit import SYSTEM
from scheduler.domain.work import HEAD_START, Ask
from scheduler.models import QueueEntry, Run
from scheduler.queries.lanes import LaneDirectory
from scheduler.services.claim import claim_batch
from scheduler.services.jobs import save_job
from scheduler.services.trigger_runs import trigger_run
from scheduler.sql.upcoming import upcoming
from tests.factories import LaneFactory, QueueEntryFactory, RunnerInstanceFactory
from tests.scheduler.edge.helpers import FakeRunner, database_now, result
from tests.support.server import live_edge

pytestmark = pytest.mark.django_db(transaction=True)

MICROSECOND = timedelta(microseconds=1)
ACTION = {"type": "command", "argv": ["true"]}
REFERENCE = ["gpu", COMMAND, COMMAND_ONLY]


def save(now, *, partial=False, **fields):
    save_job({"job_key": "demo:job", **fields}, now, SYSTEM, partial=partial)


@pytest.fixture
def site(now):
    """A server with a runner of each kind; ``clock`` moves what is due."""
    clock = ManualClock(now)
    with live_edge(clock=clock, hold_seconds=0.1) as server:
        key = server.key()
        yield SimpleNamespace(clock=clock, sdk=FakeRunner(server, key, "sdk"), reference=FakeRunner(server, key, "ref"))


def keys(work):
    return [assignment["job_key"] for assignment in work]


def test_a_runner_without_capabilities_leaves_a_command_to_others_at_first(now, site):
    save(now, action=ACTION)
    trigger_run("demo:job", now)
    assert keys(site.sdk.work()) == []
    assert keys(site.reference.work(capabilities=REFERENCE)) == ["demo:job"]


def test_it_gets_the_command_when_nobody_else_took_it(now, site):
    save(now, action=ACTION)
    trigger_run("demo:job", now)
    site.clock.set(now + HEAD_START - MICROSECOND)
    assert keys(site.sdk.work()) == []
    site.clock.set(now + HEAD_START)
    assert keys(site.sdk.work()) == ["demo:job"]


@pytest.mark.realtime
def test_a_poll_that_waits_gets_it_then_without_any_signal():
    save(database_now(), action=ACTION)
    with live_edge(hold_seconds=15) as server:
        trigger_run("demo:job", database_now())
        waiting = FakeRunner(server, server.key()).start()
        assert keys(result(waiting).json()["work"]) == ["demo:job"]
    entry = QueueEntry.objects.get()
    assert HEAD_START <= entry.claimed_at - entry.available_at < HEAD_START + timedelta(seconds=8)


def test_a_runner_of_commands_only_never_gets_a_job_without_an_action(now, site):
    save(now)
    trigger_run("demo:job", now)
    site.clock.set(now + timedelta(days=1))
    assert keys(site.reference.work(capabilities=REFERENCE)) == []
    # One that executes actions beside its handlers says so, and gets both.
    assert keys(site.reference.work(capabilities=[COMMAND])) == ["demo:job"]


def test_an_http_job_goes_to_runners_of_http_and_those_of_commands_only_never_get_it(now, site):
    save(now, action={"type": "http", "url": "https://example.org/"})
    trigger_run("demo:job", now)
    assert QueueEntry.objects.get().lane.prefer == [HTTP]
    assert keys(site.sdk.work()) == []
    assert keys(site.reference.work(capabilities=REFERENCE)) == []
    site.clock.set(now + HEAD_START)
    assert keys(site.reference.work(capabilities=REFERENCE)) == []
    assert keys(site.reference.work(capabilities=[HTTP, COMMAND_ONLY])) == ["demo:job"]


def test_a_runner_of_requests_only_never_gets_a_command(now, site):
    save(now, action=ACTION)
    trigger_run("demo:job", now)
    site.clock.set(now + timedelta(days=1))
    assert keys(site.reference.work(capabilities=[HTTP, COMMAND_ONLY])) == []
    save(now, action={"type": "http", "url": "https://example.org/"}, partial=True)
    assert keys(site.reference.work(capabilities=[HTTP, COMMAND_ONLY])) == ["demo:job"]


def test_what_the_job_and_the_trigger_ask_for_is_asked_for_still(now, site):
    save(now, action=ACTION, require=["eu"], prefer=["ssd"])
    trigger_run("demo:job", now, require=["gpu"], prefer=["fast"])
    entry = QueueEntry.objects.get()
    assert (entry.lane.require, entry.lane.prefer) == (["gpu"], [COMMAND, "fast"])
    assert (entry.job.lane.require, entry.job.lane.prefer) == (["eu"], [COMMAND, "ssd"])
    assert (entry.run.prefer, entry.job.prefer) == (["fast"], ["ssd"])
    assert keys(site.reference.work(capabilities=[COMMAND, COMMAND_ONLY])) == []
    assert keys(site.reference.work(capabilities=[*REFERENCE, "fast"])) == ["demo:job"]


@pytest.mark.parametrize("own", [{}, {"prefer": ["gpu"]}], ids=["the-jobs-lane", "a-lane-of-its-own"])
def test_an_edit_of_the_action_reaches_the_runs_that_wait(now, site, own):
    save(now)
    trigger_run("demo:job", now, **own)
    assert keys(site.reference.work(capabilities=REFERENCE)) == []
    save(now, action=ACTION, partial=True)
    assert QueueEntry.objects.get().lane.prefer == [COMMAND, *own.get("prefer", [])]
    save(now, action={}, partial=True)
    assert QueueEntry.objects.get().lane.prefer == own.get("prefer", [])
    assert keys(site.reference.work(capabilities=REFERENCE)) == []
    save(now, action=ACTION, partial=True)
    assert keys(site.reference.work(capabilities=REFERENCE)) == ["demo:job"]


@pytest.mark.parametrize("field", ["require", "prefer"])
@pytest.mark.parametrize("name", [COMMAND, COMMAND_ONLY, "croniq:"])
def test_nobody_asks_for_a_name_of_croniqs_own(now, field, name):
    with pytest.raises(InvalidInput) as refused:
        save(now, **{field: [name]})
    assert list(refused.value.fields) == [field]
    save(now)
    with pytest.raises(InvalidInput) as refused:
        trigger_run("demo:job", now, **{field: ["gpu", name]})
    assert list(refused.value.fields) == [field]
    assert not Run.objects.exists()


def test_all_preferences_together_give_the_head_start():
    plain, both = LaneFactory(), LaneFactory(prefer=["gpu", "ssd"])
    lanes = LaneDirectory()
    lanes.refresh()
    served = lanes.lanes_for(["gpu"], "r", None)
    assert served == ((plain.pk, both.pk),)
    assert lanes.late_for(["gpu"], "r", served) == {both.pk}
    assert lanes.late_for(["gpu", "ssd"], "r", served) == set()


def test_polls_with_and_without_the_preference_share_no_claim(now, site):
    save(now, action=ACTION)
    trigger_run("demo:job", now)
    assert (keys(site.sdk.work()), keys(site.reference.work(capabilities=[COMMAND]))) == ([], ["demo:job"])


def test_a_late_lane_is_seen_at_its_instant_and_its_neighbour_at_once(now):
    plain, late = LaneFactory(), LaneFactory(prefer=["gpu"])
    mine, theirs = (QueueEntryFactory(job__lane=lane, available_at=now) for lane in (plain, late))
    lanes, holder = [plain.pk, late.pk], RunnerInstanceFactory()

    def claimed(at):
        return [run.run_id for run in claim_batch(at, [Ask(holder.pk, 5, frozenset())], [lanes], {late.pk})[0]]

    just_before = now + HEAD_START - MICROSECOND
    assert upcoming(lanes, now, {late.pk}) == (True, now + HEAD_START, None)
    assert claimed(just_before) == [mine.run_id]
    assert upcoming(lanes, just_before, {late.pk}) == (False, now + HEAD_START, None)
    assert upcoming(lanes, now + HEAD_START, {late.pk}) == (True, None, None)
    assert claimed(now + HEAD_START) == [theirs.run_id]
