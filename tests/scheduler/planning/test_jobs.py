"""Jobs: what a definition may say, what it becomes, and what an edit does to the runs that wait."""

from __future__ import annotations

from datetime import timedelta

import pytest

from croniq_site.kernel.errors import Forbidden, InvalidInput, NotFound
from runners.models import AuditEvent
from runners.services.audit import seal
from scheduler.models import Job, QueueEntry, Run, Trigger
from scheduler.services.jobs import activate, deactivate, delete_job, save_job
from scheduler.services.materialize import materialize
from scheduler.services.trigger_runs import trigger_run
from scheduler.sql.planned import delete_waiting
from tests.factories import QueueEntryFactory
from tests.scheduler.planning.support import ACTOR, ids, make_job, make_trigger, planned, principal
from tests.support.races import together

SECOND = timedelta(seconds=1)


@pytest.mark.django_db
def test_a_job_that_says_nothing_has_the_defaults_of_the_protocol(now):
    job, created = save_job({"job_key": "demo:plain"}, now, ACTOR)
    job.refresh_from_db()
    assert created
    assert (job.max_retries, job.max_losses, job.timeout_seconds, job.lease_seconds, job.max_queue_depth) == (
        3,
        2,
        300,
        60,
        10,
    )
    assert (job.retry_strategy, job.retry_base_seconds, job.retry_cap_seconds, job.retry_jitter) == (
        "exponential",
        2,
        3600,
        0.1,
    )
    assert (job.dead_letter_enabled, job.dead_letter_retention_seconds) == (True, 30 * 86_400)
    assert (job.tenant, job.catch_up, job.action, job.is_active) == ("default", "latest", {}, True)


@pytest.mark.django_db
def test_every_field_of_this_version_is_kept(now):
    make_job(
        now,
        description="Invoices",
        metadata={"region": "eu", "__runner_exec": {"type": "command", "shell": "evil"}},
        timeout="1.5h",
        lease=7.5,
        max_retries=0,
        max_losses=0,
        retry={"strategy": "fixed", "base": "3s", "step": "4s", "cap": "5m", "jitter": 0},
        require=["gpu", "eu", "gpu"],
        prefer=["ssd"],
        pin="runner-7",
        priority=-5,
        max_queue_depth=3,
        tags=["b", "a"],
        catch_up="all",
        misfire_grace="2h",
        max_catch_up=7,
        dead_letter_enabled=False,
        dead_letter_retention="0s",
        dead_letter_operator_hint="call Bob",
        dead_letter_replay_max_age="36h",
        action={
            "type": "command",
            "argv": ["/bin/echo", "hi"],
            "env": {"A": "1"},
            "cwd": "/tmp",
            "user": None,
            "stdin": "a\n",
        },
    )
    job = Job.objects.select_related("lane").get()
    assert job.metadata == {"region": "eu"}
    assert (job.timeout_seconds, job.lease_seconds, job.max_retries, job.max_losses) == (5400, 7.5, 0, 0)
    assert job.dead_letter_replay_max_age_seconds == 36 * 3600
    assert (job.retry_strategy, job.retry_base_seconds, job.retry_step_seconds) == ("fixed", 3, 4)
    assert (job.retry_cap_seconds, job.retry_jitter) == (300, 0)
    assert (job.require, job.prefer, job.pin, job.priority) == (["eu", "gpu"], ["ssd"], "runner-7", -5)
    assert (job.lane.require, job.lane.priority) == (["eu", "gpu", "runner:runner-7"], -5)
    assert job.lane.prefer == ["croniq:command", "ssd"]  # it has an action
    assert (job.tags, job.catch_up, job.misfire_grace_seconds, job.max_catch_up) == (["a", "b"], "all", 7200, 7)
    assert (job.dead_letter_enabled, job.dead_letter_retention_seconds) == (False, 0)
    assert job.action == {
        "type": "command",
        "argv": ["/bin/echo", "hi"],
        "env": {"A": "1"},
        "cwd": "/tmp",
        "stdin": "a\n",
    }


DEEP: dict = {}
for _ in range(40):
    DEEP = {"x": DEEP}

BAD = [
    ("job_key", None),
    ("job_key", "one"),
    ("job_key", "a:b:c:d"),
    ("job_key", "a:"),
    ("job_key", " a:b"),
    ("job_key", "a:b\x00"),
    ("job_key", "a:\ud800"),
    ("job_key", "a/b:c"),
    ("job_key", "a:" + "x" * 254),
    ("job_key", ["a:b"]),
    ("nonsense", 1),
    ("max_concurrent", 0),
    ("max_concurrent", True),
    ("max_concurrent", 10_001),
    ("concurrency_group", "nobody made it"),
    ("concurrency_group", 7),
    ("overlap", "never"),
    ("overlap", 1),
    ("coalesce", "yes"),
    ("queue_ttl", "0s"),
    ("dead_letter_replay_max_age", "0s"),
    ("dead_letter_replay_max_age", True),
    ("description", 7),
    ("description", "a\x00b"),
    ("description", "x" * 10_001),
    ("metadata", [1]),
    ("metadata", {"a": "\x00"}),
    ("metadata", {"\ud800": 1}),
    ("metadata", {"a": float("nan")}),
    ("metadata", {"a": float("inf")}),
    ("metadata", {"a": 2**63}),
    ("metadata", {"a": 10**5000}),
    ("metadata", {"a": "x" * 65_536}),
    ("metadata", DEEP),
    ("timeout", "0s"),
    ("timeout", "-5s"),
    ("timeout", "5 minutes"),
    ("timeout", 0),
    ("timeout", float("nan")),
    ("timeout", float("inf")),
    ("timeout", 10**400),
    ("timeout", "99999d"),
    ("timeout", True),
    ("lease", "4.9s"),
    ("lease", 4),
    ("max_retries", -1),
    ("max_retries", 2**40),
    ("max_retries", 1.5),
    ("max_retries", True),
    ("max_losses", "3"),
    ("retry", "fast"),
    ("retry.speed", {"speed": 1}),
    ("retry.strategy", {"strategy": "random"}),
    ("retry.jitter", {"jitter": 1.1}),
    ("retry.jitter", {"jitter": float("nan")}),
    ("retry.base", {"base": "0s"}),
    ("require", "gpu"),
    ("require", [1]),
    ("require", [""]),
    ("require", ["runner:x"]),
    ("require", [f"c{n}" for n in range(65)]),
    ("prefer", {"a": 1}),
    ("tags", ["a\nb"]),
    ("pin", 5),
    ("priority", 40_000),
    ("max_queue_depth", 0),
    ("tenant", "Not A Slug"),
    ("tenant", "x" * 64),
    ("is_active", "yes"),
    ("catch_up", "some"),
    ("misfire_grace", "0s"),
    ("max_catch_up", 1001),
    ("dead_letter_enabled", 1),
    ("action", "rm -rf"),
    ("action", {"type": "magic"}),
    ("action", {"type": "command"}),
    ("action", {"type": "command", "argv": ["a"], "shell": "b"}),
    ("action.argv", {"type": "command", "argv": []}),
    ("action.argv", {"type": "command", "argv": "ls"}),
    ("action.argv", {"type": "command", "argv": ["ls", "\x00"]}),
    ("action.shell", {"type": "command", "shell": "  "}),
    ("action.env", {"type": "command", "shell": "x", "env": {"A=B": "1"}}),
    ("action.env", {"type": "command", "shell": "x", "env": {"A": 1}}),
    ("action.sudo", {"type": "command", "shell": "x", "sudo": True}),
    ("managed_by", "file"),
]


@pytest.mark.django_db
@pytest.mark.parametrize(("field", "value"), BAD, ids=[f"{n}-{field}" for n, (field, _) in enumerate(BAD)])
def test_what_a_job_cannot_be_is_refused_by_the_name_of_the_field(now, field, value):
    make_job(now)
    with pytest.raises(InvalidInput) as refused:
        save_job({"job_key": "demo:job", field.split(".")[0]: value}, now, ACTOR)
    assert list(refused.value.fields) == [field]
    assert Job.objects.count() == 1


@pytest.mark.django_db
def test_the_defaults_of_fields_of_later_versions_are_accepted_so_that_what_was_read_can_be_written(now):
    make_job(now, max_concurrent=None, overlap="parallel", coalesce=False, queue_ttl=None, managed_by="api")
    assert Job.objects.count() == 1


@pytest.mark.django_db
def test_a_partial_edit_leaves_alone_what_it_does_not_name_and_null_is_the_default(now):
    make_job(now, description="old", timeout="10s", retry={"base": "7s", "cap": "9s"})
    job, created = save_job({"job_key": "demo:job", "timeout": None, "retry": {"cap": "8s"}}, now, ACTOR, partial=True)
    assert not created
    job.refresh_from_db()
    assert (job.description, job.timeout_seconds, job.retry_base_seconds, job.retry_cap_seconds) == ("old", 300, 7, 8)


@pytest.mark.django_db
def test_a_whole_definition_takes_back_what_it_does_not_name_but_wakes_no_job_that_is_off(now):
    make_job(now, description="old", timeout="10s")
    deactivate("demo:job", now, ACTOR)
    job, _ = save_job({"job_key": "demo:job"}, now, ACTOR)
    job.refresh_from_db()
    assert (job.description, job.timeout_seconds, job.is_active) == ("", 300, False)


@pytest.mark.django_db
def test_saving_the_same_again_changes_nothing(now):
    job = make_job(now, description="same", metadata={"a": [1]}, retry={"jitter": 0.2}, require=["x"])
    make_trigger(job, now)
    before, events = ids(job), AuditEvent.objects.count()
    later = now + timedelta(minutes=3)
    save_job(
        {
            "job_key": "demo:job",
            "description": "same",
            "metadata": {"a": [1]},
            "retry": {"jitter": 0.2},
            "require": ["x"],
        },
        later,
        ACTOR,
    )
    job.refresh_from_db()
    assert (job.updated_at, ids(job), AuditEvent.objects.count()) == (now, before, events)


@pytest.mark.django_db
@pytest.mark.parametrize("partial", [True, False])
def test_saying_what_is_executed_needs_its_own_scope(now, partial):
    writer, executor = principal("jobs:write"), principal("jobs:write", "jobs:exec")
    action = {"type": "command", "shell": "date"}
    make_job(now)
    with pytest.raises(Forbidden):
        save_job({"job_key": "demo:job", "action": action}, now, ACTOR, writer, partial=partial)
    with pytest.raises(Forbidden):
        save_job({"job_key": "demo:new", "action": action}, now, ACTOR, writer)
    assert Job.objects.get().action == {}
    save_job({"job_key": "demo:job", "action": action}, now, ACTOR, executor, partial=partial)
    # What stands there already is nothing new; and taking it away executes nothing.
    save_job({"job_key": "demo:job", "action": action, "description": "x"}, now, ACTOR, writer, partial=True)
    assert Job.objects.get().description == "x"
    save_job({"job_key": "demo:job", "action": None}, now, ACTOR, writer, partial=True)
    assert Job.objects.get().action == {}


@pytest.mark.django_db
def test_the_audit_does_not_repeat_what_may_be_secret(now):
    make_job(now, action={"type": "command", "shell": "x", "env": {"TOKEN": "hunter2"}})
    save_job({"job_key": "demo:job", "metadata": {"password": "hunter2"}, "action": None}, now, ACTOR, partial=True)
    diff = AuditEvent.objects.get(action="job.updated").diff
    assert diff["action"][0]["env"] == {"TOKEN": seal("hunter2")}
    assert (diff["action"][1], diff["metadata"]) == (None, [{}, {"password": seal("hunter2")}])
    assert "hunter2" not in str(list(AuditEvent.objects.values_list("diff", flat=True)))


@pytest.mark.django_db
def test_a_key_of_a_tenant_makes_jobs_there_and_sees_no_others(now):
    theirs = principal("jobs:write", tenant="acme")
    make_job(now, "demo:ours")
    for attempt in (
        lambda: save_job({"job_key": "demo:ours", "description": "mine now"}, now, ACTOR, theirs),
        lambda: save_job({"job_key": "demo:ours", "description": "mine now"}, now, ACTOR, theirs, partial=True),
        lambda: delete_job("demo:ours", now, ACTOR, theirs),
        lambda: deactivate("demo:ours", now, ACTOR, theirs),
    ):
        with pytest.raises(NotFound):
            attempt()
    assert Job.objects.filter(description="", is_active=True, deleted_at=None).count() == 1
    with pytest.raises(InvalidInput) as refused:
        save_job({"job_key": "demo:theirs", "tenant": "default"}, now, ACTOR, theirs)
    assert "tenant" in refused.value.fields
    job, _ = save_job({"job_key": "demo:theirs"}, now, ACTOR, theirs)
    assert (job.tenant, job.lane.tenant) == ("acme", "acme")


@pytest.mark.django_db
def test_a_partial_edit_of_a_job_that_is_not_there_makes_none(now):
    with pytest.raises(NotFound):
        save_job({"job_key": "demo:job", "description": "x"}, now, ACTOR, partial=True)
    assert not Job.objects.exists()


@pytest.mark.django_db(transaction=True)
def test_two_that_make_a_job_at_one_moment_make_one(now):
    results = together([lambda: save_job({"job_key": "demo:job"}, now, ACTOR)[1] for _ in range(6)])
    assert sorted(results) == [False] * 5 + [True]
    assert Job.objects.count() == 1


@pytest.mark.django_db
def test_an_edit_reaches_the_runs_that_wait(now):
    job = make_job(now)
    make_trigger(job, now, every="10m")
    own = trigger_run("demo:job", now, require=["gpu"], timeout_seconds=9).run_id
    save_job(
        {
            "job_key": "demo:job",
            "require": ["eu"],
            "priority": 3,
            "timeout": "20s",
            "lease": "30s",
            "max_retries": 9,
            "max_losses": 1,
        },
        now,
        ACTOR,
    )
    job.refresh_from_db()
    scheduled = QueueEntry.objects.filter(run__kind="scheduled").select_related("lane")
    assert len(scheduled) == 6
    for entry in scheduled:
        assert (entry.lane_id, entry.lane.require, entry.lane.priority) == (job.lane_id, ["eu"], 3)
        assert (entry.timeout_seconds, entry.lease_seconds) == (20, 30)
        assert (entry.max_attempts, entry.max_losses) == (10, 1)
    override = QueueEntry.objects.select_related("lane").get(run=own)
    assert override.lane.require == ["gpu"]
    assert (override.timeout_seconds, override.lease_seconds) == (9, 30)


@pytest.mark.django_db
def test_an_edit_leaves_a_claimed_run_with_what_it_was_claimed_with(now):
    job = make_job(now)
    entry = QueueEntryFactory(run__job=job, job=job, lane=job.lane, claimed=True)
    save_job({"job_key": "demo:job", "require": ["eu"], "lease": "30s", "timeout": "9s"}, now, ACTOR)
    entry.refresh_from_db()
    assert (entry.lane_id, entry.state) == (job.lane_id, QueueEntry.State.CLAIMED)
    assert (entry.lease_seconds, entry.timeout_seconds) != (30, 9)


@pytest.mark.django_db
def test_a_job_that_is_off_plans_nothing_and_begins_anew_when_it_is_on_again(clock):
    job = make_job(clock.now())
    make_trigger(job, clock.now(), every="10m")
    assert len(planned(job)) == 6
    deactivate("demo:job", clock.now(), ACTOR)
    assert planned(job) == []
    assert not Run.objects.exists()
    materialize(clock.tick(timedelta(hours=5)))
    assert planned(job) == []
    again = clock.tick(timedelta(minutes=1))
    activate("demo:job", again, ACTOR)
    assert [at - again for at in planned(job)] == [timedelta(minutes=9 + 10 * k) for k in range(6)]
    assert not job.skipped_spans.exists()


@pytest.mark.django_db
def test_a_deleted_job_takes_back_its_plans_cancels_what_waits_and_lets_the_claimed_finish(clock):
    job = make_job(clock.now())
    make_trigger(job, clock.now(), every="10m")
    clock.tick(timedelta(minutes=10))
    manual = trigger_run("demo:job", clock.now()).run_id
    claimed = QueueEntryFactory(run__job=job, job=job, lane=job.lane, claimed=True)
    delete_job("demo:job", clock.now(), ACTOR)
    assert list(QueueEntry.objects.values_list("run_id", flat=True)) == [claimed.run_id]
    kept = {run.pk: (run.verdict, run.problem, run.reason) for run in Run.objects.exclude(pk=claimed.run_id)}
    due = Run.objects.get(kind="scheduled", scheduled_for=clock.now(), verdict="cancelled").pk
    assert kept == dict.fromkeys([manual, due], ("cancelled", "cancelled", "the job was deleted"))
    assert not Trigger.objects.exists()
    with pytest.raises(NotFound):
        trigger_run("demo:job", clock.now())
    with pytest.raises(NotFound):
        delete_job("demo:job", clock.now(), ACTOR)
    again = make_job(clock.now())
    assert (again.pk != job.pk, planned(again)) == (True, [])


@pytest.mark.django_db
def test_what_is_claimed_is_not_taken_out_of_the_queue(now):
    waiting, claimed = QueueEntryFactory(), QueueEntryFactory(claimed=True)
    assert delete_waiting([waiting.run_id, claimed.run_id], never_claimed=False) == [waiting.run_id]
    assert list(QueueEntry.objects.all()) == [claimed]
