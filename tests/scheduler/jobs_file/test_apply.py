"""Applying a file: whole or not at all, only what changed, twice is once."""

from __future__ import annotations

from datetime import timedelta

import pytest

from calendars.models import Calendar
from croniq_site.kernel.errors import Conflict, InvalidInput, NotFound
from runners.models import AuditEvent
from scheduler.domain.work import Ack, AckAnswer, AckStatus
from scheduler.models import ConcurrencyGroup, Job, Run, Trigger
from scheduler.services import jobs_file
from scheduler.services.admit import admit
from scheduler.services.claim import claim_due
from scheduler.services.finish import finish
from scheduler.services.jobs_file import adopt, unadopt
from scheduler.services.materialize import materialize
from tests.factories import RunnerInstanceFactory
from tests.scheduler.jobs_file.support import EXAMPLE, apply, changes, plan, snapshot
from tests.scheduler.planning.support import ACTOR, ids, make_job, make_trigger, planned

pytestmark = pytest.mark.django_db
MINUTE = timedelta(minutes=1)


def test_what_is_declared_is_there_and_is_the_files(now):
    applied = apply(EXAMPLE, now)
    assert len(applied.plan.changes) == 4
    job = Job.objects.get(job_key="billing:invoices")
    assert (job.timeout_seconds, job.concurrency_group.name, job.action["argv"]) == (
        600.0,
        "database",
        ["send", "--all"],
    )
    assert sorted(Trigger.objects.filter(job=job).values_list("kind", "managed_by")) == [
        ("cron", "file"),
        ("interval", "file"),
    ]
    for model in (Job, Calendar, ConcurrencyGroup):
        assert set(model.objects.values_list("managed_by", flat=True)) == {"file"}
    assert Calendar.objects.get().rules.count() == 2
    assert planned(Job.objects.get(job_key="ops:tick"))[0] == now + 5 * MINUTE
    event = AuditEvent.objects.get(action="jobs_file.applied")
    assert (event.target_id, event.diff["plan"], event.actor_id) == ("croniq.yaml", applied.plan.hash, ACTOR.id)


def test_twice_is_once_not_an_anchor_and_not_a_planned_run_is_another(now):
    apply(EXAMPLE, now)
    before = snapshot()
    for later in (now, now + MINUTE):
        applied = apply(EXAMPLE, later, prune=True, adopt=True)
        assert applied.plan.changes == ()
    assert snapshot() == before


def test_only_what_changed_is_written(now):
    apply(EXAMPLE, now)
    tick = Job.objects.get(job_key="ops:tick")
    before = (ids(tick), list(Trigger.objects.filter(job=tick).values()), tick.updated_at)
    apply(EXAMPLE.replace("timeout: 10m", "timeout: 11m"), now + MINUTE)
    tick.refresh_from_db()
    assert (ids(tick), list(Trigger.objects.filter(job=tick).values()), tick.updated_at) == before
    assert Job.objects.get(job_key="billing:invoices").timeout_seconds == 660.0
    assert set(AuditEvent.objects.filter(created_at=now + MINUTE).values_list("action", "target_id")) == {
        ("job.updated", "billing:invoices"),
        ("jobs_file.applied", "croniq.yaml"),
    }


def test_a_field_that_is_not_in_the_file_any_more_has_its_default_again(now):
    apply(EXAMPLE, now)
    apply(EXAMPLE.replace("        timeout: 10m\n", "").replace("        concurrency_group: database\n", ""), now)
    job = Job.objects.get(job_key="billing:invoices")
    assert (job.timeout_seconds, job.concurrency_group) == (300.0, None)


def test_a_trigger_that_is_edited_keeps_its_id_and_its_anchor(now):
    apply(EXAMPLE, now)
    before = {one.kind: one for one in Trigger.objects.filter(job__job_key="billing:invoices")}
    edited = EXAMPLE.replace("{every: 20m}", "{every: 40m, not_after: 2030-01-01T00:00:00Z}")
    # In another order, and one of them edited.
    lines = edited.splitlines(keepends=True)
    (cron,) = (n for n, line in enumerate(lines) if "cron_expression" in line)
    lines[cron], lines[cron + 1] = lines[cron + 1], lines[cron]
    apply("".join(lines), now + MINUTE)
    after = {one.kind: one for one in Trigger.objects.filter(job__job_key="billing:invoices")}
    assert {kind: one.pk for kind, one in after.items()} == {kind: one.pk for kind, one in before.items()}
    assert (after["interval"].anchor_at, after["interval"].every) == (now, 40 * MINUTE)
    assert after["cron"].updated_at == before["cron"].updated_at
    # What the file does not say any more has its default again.
    apply(EXAMPLE, now + MINUTE)
    interval = Trigger.objects.get(pk=before["interval"].pk)
    assert (interval.not_after, interval.every, interval.anchor_at) == (None, 20 * MINUTE, now)


def test_a_schedule_that_is_split_in_two_keeps_the_ids_of_the_runs_that_stay(now):
    def file(*schedules: str) -> str:
        return "jobs: {a:b: {triggers: [" + ", ".join(f"{{cron_expression: '{text}'}}" for text in schedules) + "]}}"

    apply(file("10,20,30 12 * * *"), now)
    job = Job.objects.get()
    before = ids(job)
    assert sorted(before) == [now + minutes * MINUTE for minutes in (10, 20, 30)]
    apply(file("10 12 * * *", "20 12 * * *"), now + MINUTE)
    assert ids(job) == {at: before[at] for at in sorted(before)[:2]}


def test_the_triggers_of_others_go_once_the_job_is_the_files(now):
    job = make_job(now, "a:b")
    make_trigger(job, now, every="1m")
    make_trigger(job, now, every="2m")
    applied = apply("jobs: {a:b: {triggers: [{every: 2m}]}}", now, adopt=True)
    assert [one.action for one in applied.plan.changes[0].triggers] == ["remove"]
    assert list(Trigger.objects.values_list("every", "managed_by")) == [(2 * MINUTE, "file")]
    assert AuditEvent.objects.filter(action="job.adopted", target_id="a:b").count() == 1


@pytest.mark.parametrize(
    "broken",
    [
        EXAMPLE.replace("timeout: 10m", "timeout: soon"),
        EXAMPLE.replace("calendar: business-days", "calendar: nobodys"),
        EXAMPLE.replace('"0 3 * * *"', '"0 0 30 2 *"'),
    ],
)
def test_a_broken_file_changes_nothing(broken, now):
    before = snapshot()
    with pytest.raises(InvalidInput) as refused:
        apply(broken, now)
    assert len(refused.value.extra["plan"].errors) == 1
    assert snapshot() == before


def test_what_a_service_refuses_in_the_middle_takes_back_all_of_it(now, monkeypatch):
    def refuse(*_, **__):
        raise InvalidInput.of("timeout", "no")

    before = snapshot()
    monkeypatch.setattr(jobs_file, "save_trigger", refuse)
    with pytest.raises(InvalidInput):
        apply(EXAMPLE, now)
    assert snapshot() == before


def test_prune_retires_what_is_not_in_the_file_and_leaves_what_runs(now):
    apply(EXAMPLE, now)
    make_job(now, "api:job")
    job = Job.objects.get(job_key="ops:tick")
    holder = RunnerInstanceFactory()
    due = now + 5 * MINUTE
    (claimed,) = claim_due(due, 5, holder.pk, [job.lane_id])
    applied = apply("jobs: {}", due, prune=True)
    assert {change[1:] for change in changes(applied.plan)} == {
        ("job", "billing:invoices"),
        ("job", "ops:tick"),
        ("calendar", "business-days"),
        ("group", "database"),
    }
    (note,) = (change.note for change in applied.plan.changes if change.name == "ops:tick")
    assert note.startswith("1 claimed runs finish, ")
    assert list(Job.objects.filter(deleted_at=None).values_list("job_key", flat=True)) == ["api:job"]
    assert (Calendar.objects.count(), ConcurrencyGroup.objects.count()) == (0, 0)
    ack = Ack(claimed.run_id, claimed.attempt, holder.runner.runner_id, AckStatus.SUCCESS)
    assert finish([ack], due) == [AckAnswer.ACCEPTED]
    assert Run.objects.get(pk=claimed.run_id).verdict == "completed"


def test_a_group_stays_until_the_runs_that_it_limits_are_over(now):
    content = "groups: {g: {max_concurrent: 1}}\njobs: {a:b: {concurrency_group: g, triggers: [{every: 5m}]}}"
    apply(content, now)
    due = now + 5 * MINUTE
    job = Job.objects.get()
    admit(due)
    holder = RunnerInstanceFactory()
    (claimed,) = claim_due(due, 5, holder.pk, [job.lane_id])
    applied = apply("jobs: {}", due, prune=True)
    assert [(one.name, one.reason) for one in applied.plan.unlisted] == [
        ("g", "it stays: runs that it limits are not over.")
    ]
    finish([Ack(claimed.run_id, claimed.attempt, holder.runner.runner_id, AckStatus.SUCCESS)], due)
    apply("jobs: {}", due, prune=True)
    assert ConcurrencyGroup.objects.count() == 0


def test_nothing_is_done_by_a_plan_that_is_not_the_one_that_was_looked_at(now):
    looked_at = plan(EXAMPLE, now).hash
    apply("jobs: {ops:tick: {timeout: 1m, triggers: [{every: 5m}]}}", now)
    before = snapshot()
    with pytest.raises(Conflict) as refused:
        apply(EXAMPLE, now, expect=looked_at)
    assert refused.value.code == "plan_moved"
    assert snapshot() == before
    apply(EXAMPLE, now, expect=plan(EXAMPLE, now).hash)
    assert apply(EXAMPLE, now, expect=looked_at).plan.changes == ()  # nothing is left to do


RUNS = "jobs: {{a:b: {{run_on_change: true, max_queue_depth: 2, timeout: {timeout}, {more}triggers: [{{every: 1h}}]}}}}"


def triggered() -> int:
    return Run.objects.filter(kind="triggered").count()


def test_a_job_runs_once_for_each_change_that_asks_for_it(now):
    content = RUNS.format(timeout="1m", more="")
    assert apply(content, now).started == ("a:b",)
    assert apply(content, now).started == ()
    assert triggered() == 1
    edited = content.replace("every: 1h", "every: 2h")
    assert plan(edited, now).changes[0].note == "runs once: run_on_change"
    assert apply(edited, now).started == ("a:b",)
    assert triggered() == 2
    # Its queue is full: the change is made all the same.
    full = apply(RUNS.format(timeout="2m", more=""), now)
    assert (full.started, full.not_started, triggered()) == ((), ("a:b",), 2)
    assert Job.objects.get().timeout_seconds == 120


def test_a_job_that_is_switched_off_does_not_run_for_it_and_no_other_does(now):
    apply(RUNS.format(timeout="1m", more="is_active: false, "), now)
    apply(EXAMPLE, now)
    assert triggered() == 0


def test_adopt_and_unadopt(now):
    job = make_job(now, "a:b")
    make_trigger(job, now, every="1m")
    assert adopt("default", now, ACTOR, jobs=["a:b"]) == ["job a:b"]
    assert adopt("default", now, ACTOR, jobs=["a:b"]) == []
    assert (Job.objects.get().managed_by, Trigger.objects.get().managed_by) == ("file", "file")
    assert unadopt("default", now, ACTOR, jobs=["a:b"]) == ["job a:b"]
    assert unadopt("default", now, ACTOR, jobs=["a:b"]) == []
    assert (Job.objects.get().managed_by, Trigger.objects.get().managed_by) == ("api", "api")
    told = AuditEvent.objects.filter(target_id="a:b", action__endswith="adopted").order_by("pk")
    assert [(one.action, one.diff["managed_by"]) for one in told] == [
        ("job.adopted", ["api", "file"]),
        ("job.unadopted", ["file", "api"]),
    ]
    apply(EXAMPLE, now)
    assert unadopt("default", now, ACTOR, calendars=["business-days"], groups=["database"]) == [
        "calendar business-days",
        "group database",
    ]
    assert [one.name for one in plan(EXAMPLE, now).unowned] == ["business-days", "database"]


def test_adopt_names_the_one_that_is_meant_and_takes_none(now):
    make_job(now, "billing:invoices")
    make_job(now, "ops:tick")
    with pytest.raises(NotFound, match="Did you mean 'billing:invoices'"):
        adopt("default", now, ACTOR, jobs=["ops:tick", "billing:invoice"])
    with pytest.raises(NotFound):
        adopt("other", now, ACTOR, jobs=["ops:tick"])
    assert set(Job.objects.values_list("managed_by", flat=True)) == {"api"}


def test_what_is_unadopted_is_no_job_of_prunes(now):
    apply(EXAMPLE, now)
    unadopt("default", now, ACTOR, jobs=["ops:tick"])
    apply("jobs: {}", now, prune=True)
    assert list(Job.objects.filter(deleted_at=None).values_list("job_key", flat=True)) == ["ops:tick"]


def test_the_materializer_plans_what_was_applied(now):
    apply("jobs: {a:b: {triggers: [{every: 30m}]}}", now)
    materialize(now + 61 * MINUTE)
    assert planned(Job.objects.get()) == [now + minutes * MINUTE for minutes in (30, 60, 90, 120)]
