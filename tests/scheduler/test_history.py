"""What was edited can be seen and taken back: through the services, and never over somebody's later edit."""

from __future__ import annotations

from datetime import timedelta
from uuid import UUID, uuid4

import pytest

from calendars.queries.lists import calendar_detail
from calendars.services import save_calendar
from croniq_site.kernel.errors import Conflict, CroniqError, Forbidden, InvalidInput, NotFound
from runners.domain.differences import difference, history_of
from runners.domain.scopes import Principal
from runners.models import AuditEvent
from runners.queries.audit import history
from runners.services.audit import Actor
from scheduler.models import ConcurrencyGroup, Job, QueueEntry, Trigger
from scheduler.queries.definitions import job_definition, trigger_definition
from scheduler.services.calendars import edit_calendar
from scheduler.services.groups import save_group
from scheduler.services.jobs import delete_job, save_job
from scheduler.services.materialize import materialize
from scheduler.services.revert import is_revertible, revert
from scheduler.services.triggers import delete_trigger, save_trigger
from tests.scheduler.planning.support import make_job, make_trigger
from tests.support.races import together

ALICE, BOB = Actor("user", "alice"), Actor("user", "bob")
HOUR = timedelta(hours=1)

pytestmark = pytest.mark.django_db


def edit(now, **fields) -> Job:
    return save_job({"job_key": "demo:job", **fields}, now, ALICE, partial=True)[0]


def last(action: str) -> AuditEvent:
    return AuditEvent.objects.filter(action=action).latest("pk")


def take_back(event: AuditEvent, now, principal=None) -> str:
    return revert(event.event_id, event.history, now, BOB, principal)


# Each edit as the wire has it, and another one. What is not named is as usual.
EDITS = [
    {"description": "other"},
    {"metadata": {"a": [1, {"b": None}]}},
    {"action": {"type": "command", "argv": ["/bin/true"], "env": {"A": "b"}}},
    {"tags": ["x", "y"]},
    {"timeout": "90s"},
    {"lease": "10s", "max_retries": 0, "max_losses": 7},
    {"require": ["gpu"], "prefer": ["fast"], "pin": "r1", "priority": -3},
    {"max_concurrent": 3, "overlap": "queue_one", "coalesce": True},
    {"concurrency_group": "db"},
    {"max_queue_depth": 1, "queue_ttl": "1.5h", "catch_up": "all", "misfire_grace": "1h", "max_catch_up": 5},
    {"dead_letter_enabled": False, "dead_letter_retention": "0s", "dead_letter_operator_hint": "call bob"},
    {"dead_letter_replay_max_age": "2d"},
    {"retry": {"strategy": "linear", "base": "0.5s", "step": "1s", "cap": "1m", "jitter": 0.25}},
    {"is_active": False},
    {"tenant": "acme"},
]


@pytest.mark.parametrize("fields", EDITS, ids=[",".join(fields) for fields in EDITS])
def test_an_edit_of_a_job_is_told_field_by_field_and_taken_back(now, fields):
    make_job(now)
    save_group("db", 2, now, ALICE, "default")
    before = job_definition(Job.objects.get())
    edit(now, **fields)
    after = job_definition(Job.objects.get())
    told = last("job.updated")
    assert set(told.diff) == set(difference(before, after)) >= set(fields)
    take_back(told, now + HOUR)
    assert job_definition(Job.objects.get()) == before
    back = last("job.reverted")
    assert (back.actor_id, back.diff.pop("reverts")) == ("bob", str(told.event_id))
    assert back.diff == {name: pair[::-1] for name, pair in told.diff.items()}
    # And that is an edit like any other.
    take_back(last("job.reverted"), now + 2 * HOUR)
    assert job_definition(Job.objects.get()) == after


def test_every_field_that_defines_a_job_is_among_the_edits_tried(now):
    make_job(now)
    tried = {name for fields in EDITS for name in fields}
    assert set(job_definition(Job.objects.get())) == tried


def test_a_definition_given_to_the_service_changes_nothing(now):
    save_group("db", 2, now, ALICE, "default")
    merged = {name: value for fields in EDITS if "tenant" not in fields for name, value in fields.items()}
    edit_of_all = {**merged, "prefer": ["fast"]}
    make_job(now)
    edit(now, **edit_of_all)
    count = AuditEvent.objects.count()
    edit(now + HOUR, **job_definition(Job.objects.get()))
    assert AuditEvent.objects.count() == count


def test_what_was_edited_since_then_is_not_overwritten(now):
    make_job(now, description="first", timeout="10s")
    edit(now, description="second", timeout="20s")
    told = last("job.updated")
    edit(now, timeout="30s")
    with pytest.raises(Conflict) as refused:
        take_back(told, now)
    assert (refused.value.code, refused.value.extra) == ("changed_since", {"changed": ["timeout"]})
    job = Job.objects.get()
    assert (job.description, job.timeout_seconds) == ("second", 30)
    # An edit of something else is nobody's concern.
    take_back(last("job.updated"), now)
    edit(now, priority=5)
    take_back(told, now)
    job = Job.objects.get()
    assert (job.description, job.timeout_seconds, job.priority) == ("first", 10, 5)


def test_an_edit_beside_a_secret_is_taken_back_and_one_of_the_secret_is_not(now):
    def action(word, secret):
        return {"type": "command", "argv": [word], "env": {"TOKEN": secret}}

    make_job(now, action=action("old", "hunter2"))
    edit(now, action=action("new", "hunter2"))
    told = last("job.updated")
    take_back(told, now)
    assert Job.objects.get().action == action("old", "hunter2")
    edit(now, action=action("old", "hunter3"))
    with pytest.raises(Conflict) as refused:
        take_back(last("job.updated"), now)
    assert refused.value.code == "secret_not_kept"
    assert Job.objects.get().action == action("old", "hunter3")
    assert "hunter" not in str(list(AuditEvent.objects.values_list("diff", flat=True)))


def test_what_is_executed_is_taken_back_only_by_who_may_say_it(now):
    make_job(now, action={"type": "command", "shell": "date"})
    edit(now, action=None)
    told = last("job.updated")
    writer = Principal(1, "w", None, frozenset({"jobs:write"}))
    with pytest.raises(Forbidden):
        take_back(told, now, writer)
    assert Job.objects.get().action == {}
    take_back(told, now, Principal(1, "w", None, frozenset({"jobs:write", "jobs:exec"})))
    assert Job.objects.get().action == {"type": "command", "shell": "date"}


@pytest.mark.parametrize("scopes", [{"jobs:write"}, {"schedules:write"}, {"calendars:write"}, set()])
def test_each_kind_needs_the_scope_of_its_edit(now, scopes):
    job = make_job(now)
    trigger = make_trigger(job, now)
    edit(now, description="x")
    save_trigger(job, {"every": "5m"}, now, trigger=trigger)
    calendar = save_calendar({"name": "c", "timezone": "UTC"}, now).calendar
    edit_calendar({"description": "x"}, now, calendar=calendar)
    save_group("db", 2, now, ALICE, "default")
    save_group("db", 3, now, ALICE, "default")
    needed = {"job": "jobs:write", "trigger": "schedules:write", "calendar": "calendars:write", "group": "jobs:write"}
    who = Principal(1, "w", None, frozenset(scopes))
    for kind, scope in needed.items():
        event = last(f"{kind}.updated")
        if scope in scopes:
            take_back(event, now, who)
        else:
            with pytest.raises(Forbidden, match=scope):
                take_back(event, now, who)


def test_what_belongs_to_another_tenant_is_not_there(now):
    make_job(now)
    edit(now, description="x")
    save_group("db", 2, now, ALICE, "default")
    save_group("db", 3, now, ALICE, "default")
    theirs = Principal(1, "w", "acme", frozenset({"admin"}))
    for action in ("job.updated", "group.updated"):
        with pytest.raises(NotFound):
            take_back(last(action), now, theirs)
    assert Job.objects.get().description == "x"


SCHEDULES = [
    ({"cron_expression": "0 3 * * *"}, {"cron_expression": "0 4 * * *", "timezone": "Europe/Berlin"}),
    ({"cron_expression": "0 3 * * *"}, {"every": "5m"}),
    ({"every": "5m"}, {"every": "7m", "window": "09:00-17:30"}),
    ({"every": "5m"}, {"every": "5m", "anchor": "2026-03-02T11:00:30.5Z"}),
    ({"every": "5m"}, {"cron_expression": "*/5 * * * *", "not_before": "2026-03-03T00:00:00Z"}),
    ({"run_at": "2026-12-24T12:00:00Z"}, {"every": "90s", "not_after": "2027-01-01T00:00:00+01:00"}),
    ({"every": "5m", "calendar": "c", "on_blocked": "defer"}, {"calendar": None, "on_blocked": None}),
    ({"every": "5m"}, {"enabled": False}),
]


@pytest.mark.parametrize(("first", "second"), SCHEDULES, ids=[str(pair) for pair in SCHEDULES])
def test_an_edit_of_a_schedule_is_taken_back_and_its_job_planned_again(now, first, second):
    save_calendar({"name": "c", "timezone": "UTC"}, now)
    job = make_job(now)
    trigger, _ = save_trigger(job, first, now)
    before, planned = trigger_definition(trigger), _planned()
    trigger, _ = save_trigger(job, second, now, trigger=trigger)
    after = trigger_definition(trigger)
    told = last("trigger.updated")
    assert {name: pair for name, pair in told.diff.items() if name != "job_key"} == difference(before, after)
    assert told.history == history_of("job", job.pk)
    take_back(told, now)
    assert trigger_definition(Trigger.objects.get()) == before
    assert _planned() == planned
    take_back(last("trigger.reverted"), now)
    assert trigger_definition(Trigger.objects.get()) == after


def _planned() -> list:
    return list(QueueEntry.objects.order_by("available_at").values_list("available_at", flat=True))


def test_a_schedule_that_was_deleted_is_made_anew_once(now):
    job = make_job(now)
    trigger = make_trigger(job, now, cron_expression="0 3 * * *", timezone="Europe/Berlin")
    before = trigger_definition(trigger)
    delete_trigger(trigger.pk, now)
    told = last("trigger.deleted")
    made = take_back(told, now + HOUR)
    assert trigger_definition(Trigger.objects.get(pk=made)) == before
    assert UUID(made) != trigger.pk
    for _ in range(2):
        with pytest.raises(Conflict, match=made):
            take_back(told, now + HOUR)
    assert Trigger.objects.count() == 1


def test_a_schedule_that_would_not_fire_any_more_is_refused_as_in_any_edit(now):
    job = make_job(now)
    trigger, _ = save_trigger(job, {"run_at": (now + HOUR).isoformat()}, now)
    delete_trigger(trigger.pk, now)
    with pytest.raises(InvalidInput) as refused:
        take_back(last("trigger.deleted"), now + 2 * HOUR)
    assert "run_at" in refused.value.fields
    assert not Trigger.objects.exists()


def test_an_edit_of_a_schedule_that_is_gone_is_not_taken_back(now):
    job = make_job(now)
    trigger = make_trigger(job, now)
    save_trigger(job, {"every": "5m"}, now, trigger=trigger)
    told = last("trigger.updated")
    delete_trigger(trigger.pk, now)
    with pytest.raises(Conflict) as refused:
        take_back(told, now)
    assert refused.value.code == "changed_since"


def test_a_calendar_is_taken_back_with_all_its_rules(now):
    rules = [
        {"effect": "include", "weekdays": ["mon", "fri"], "window_start": "09:00", "window_end": "17:30:15"},
        {"effect": "exclude", "holiday_country": "DE", "holiday_subdivision": "BY", "name": "Feiertage"},
        {"effect": "exclude", "range_start": "2026-12-24", "range_end": "2026-12-31", "dates": ["2026-05-02"]},
        {"effect": "exclude", "yearly_dates": ["12-24"], "month_days": [1, -1]},
    ]
    calendar = save_calendar({"name": "c", "timezone": "UTC", "rules": rules}, now).calendar
    job = make_job(now)
    save_trigger(job, {"cron_expression": "*/20 * * * *", "calendar": "c"}, now)
    before, planned = _calendar(calendar.pk), _planned()
    edit_calendar({"name": "d", "timezone": "Asia/Tokyo", "rules": rules[:1]}, now, calendar=calendar)
    told = last("calendar.updated")
    assert set(told.diff) == {"name", "timezone", "rules"}
    assert _planned() != planned
    take_back(told, now)
    assert _calendar(calendar.pk) == before
    assert _planned() == planned
    edit_calendar({"rules": []}, now, calendar=calendar)
    with pytest.raises(Conflict) as refused:
        take_back(told, now)
    assert refused.value.extra == {"changed": ["name", "rules", "timezone"]}


def _calendar(pk: int) -> tuple:
    calendar = calendar_detail(pk)
    columns = [{**rule.__dict__, "id": 0, "_state": 0} for rule in calendar.rules.all()]
    return calendar.name, calendar.timezone, calendar.description, columns


def test_a_group_is_taken_back(now):
    save_group("db", 2, now, ALICE, "acme")
    save_group("db", 9, now, ALICE, "acme")
    told = last("group.updated")
    take_back(told, now)
    assert ConcurrencyGroup.objects.get().max_concurrent == 2
    with pytest.raises(Conflict):
        take_back(told, now)


def test_what_began_or_is_gone_cannot_be_taken_back(now):
    job = make_job(now)
    make_trigger(job, now)
    for action in ("job.created", "trigger.created"):
        assert not is_revertible(last(action))
        with pytest.raises(Conflict, match="cannot be taken back"):
            take_back(last(action), now)
    edit(now, description="x")
    delete_job("demo:job", now, ALICE)
    with pytest.raises(NotFound):
        take_back(last("job.updated"), now)
    with pytest.raises(Conflict):
        take_back(last("job.deleted"), now)
    with pytest.raises(NotFound):
        revert(uuid4(), history_of("job", job.pk), now, BOB)
    with pytest.raises(NotFound):
        revert(last("job.updated").event_id, "", now, BOB)


def test_a_job_of_the_same_key_has_a_history_of_its_own(now):
    old = make_job(now)
    edit(now, description="x")
    told = last("job.updated")
    delete_job("demo:job", now, ALICE)
    new = make_job(now)
    assert [event.action for event in history(history_of("job", new.pk), 10)] == ["job.created"]
    assert [event.action for event in history(history_of("job", old.pk), 10)] == [
        "job.deleted",
        "job.updated",
        "job.created",
    ]
    with pytest.raises(NotFound):
        revert(told.event_id, history_of("job", new.pk), now, BOB)


def test_a_job_that_is_deleted_is_told_with_its_schedules(now):
    job = make_job(now, description="x")
    make_trigger(job, now, every="7m")
    delete_job("demo:job", now, ALICE)
    diff = last("job.deleted").diff
    assert (diff["description"], diff["tenant"]) == (["x", None], ["default", None])
    assert [schedule["every"] for schedule in diff["schedules"][0]] == ["7m"]


def test_the_materializer_leaves_no_edit(now):
    job = make_job(now)
    make_trigger(job, now)
    before = history(history_of("job", job.pk), 10)
    materialize(now + HOUR)
    assert history(history_of("job", job.pk), 10) == before


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("kind", ["job", "trigger.deleted"])
def test_of_two_who_take_the_same_edit_back_at_once_one_does(now, kind):
    job = make_job(now)
    trigger = make_trigger(job, now)
    if kind == "job":
        edit(now, description="x")
        told = last("job.updated")
    else:
        delete_trigger(trigger.pk, now)
        told = last("trigger.deleted")

    def one():
        try:
            return take_back(told, now)
        except CroniqError as error:
            return error.code

    assert sorted(result == "changed_since" for result in together([one, one])) == [False, True]
    assert AuditEvent.objects.filter(diff__reverts=str(told.event_id)).count() == 1
    assert Trigger.objects.count() == 1
