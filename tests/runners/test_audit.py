"""The audit: only ever added to, with the request and in few words; thrown away by retention alone."""

from __future__ import annotations

import json
from datetime import timedelta
from uuid import uuid4

import pytest
from django.core.management import call_command
from django.db import IntegrityError, connection, transaction

from croniq_site.kernel.request import answering
from runners.models import AuditCut, AuditEvent
from runners.services.audit import SYSTEM, Actor, Event, record_events, seal
from runners.services.audit_retention import drop_old_events
from tests.factories import AuditCutFactory, AuditEventFactory
from tests.support.races import together

DAY = timedelta(days=1)


def refused(write) -> bool:
    """Whether the database refuses it as a change of the audit."""
    try:
        with transaction.atomic():
            write()
    except IntegrityError as error:
        return "append-only" in str(error)
    return False


def sql(statement: str, *parameters: object):
    def write():
        with connection.cursor() as cursor:
            cursor.execute(statement, parameters)

    return write


@pytest.mark.django_db
def test_no_event_is_changed_deleted_or_replaced_by_whatever_way(database):
    event = AuditEventFactory(diff={"a": [1, 2]})
    before = AuditEvent.objects.values().get()
    ways = [
        lambda: AuditEvent.objects.update(actor_id="somebody else"),
        lambda: AuditEvent.objects.filter(pk=event.pk).delete(),
        event.delete,
        event.save,
        sql("UPDATE runners_auditevent SET tenant = 'x' WHERE id = %s", event.pk),
        sql("DELETE FROM runners_auditevent"),
        lambda: AuditEvent.objects.bulk_update([event], ["actor_id"]),
        lambda: AuditEvent.objects.bulk_create(
            [AuditEventFactory.build(event_id=event.event_id)],
            update_conflicts=True,
            unique_fields=["event_id"],
            update_fields=["actor_id"],
        ),
    ]
    if database == "postgresql":
        ways.append(sql("TRUNCATE runners_auditevent"))
        ways.append(sql("TRUNCATE runners_auditevent CASCADE"))
    else:
        columns = "id, event_id, created_at, actor_type, actor_id, action, target_type, target_id, tenant, diff"
        copy = f"SELECT {columns}, request_id, history FROM runners_auditevent"
        ways.append(sql(f"INSERT OR REPLACE INTO runners_auditevent ({columns}, request_id, history) {copy}"))
    event.actor_id = "somebody else"
    assert [refused(way) for way in ways] == [True] * len(ways)
    assert AuditEvent.objects.values().get() == before


@pytest.mark.django_db
def test_the_admin_has_no_way_to_write_it_either(admin_client):
    event = AuditEventFactory()
    page = f"/admin/runners/auditevent/{event.pk}"
    assert admin_client.post(f"{page}/change/", {"actor_id": "x"}).status_code == 403
    assert admin_client.post(f"{page}/delete/", {"post": "yes"}).status_code == 403
    assert admin_client.post("/admin/runners/auditevent/add/", {"action": "x"}).status_code == 403
    admin_client.post("/admin/runners/auditevent/", {"action": "delete_selected", "_selected_action": event.pk})
    assert AuditEvent.objects.filter(pk=event.pk, actor_id=event.actor_id).count() == 1


@pytest.mark.django_db
def test_retention_deletes_whole_days_that_are_old_enough_and_tells_it_once(now, settings):
    old, kept = now - 31 * DAY, (now - 30 * DAY).replace(hour=0)
    for at in (old, old, kept - timedelta(microseconds=1), kept, now):
        AuditEventFactory(created_at=at)
    assert drop_old_events(now) == 0  # for ever, unless somebody says otherwise
    settings.CRONIQ_AUDIT_RETENTION_SECONDS = 30 * 86_400
    assert [drop_old_events(now, 2), drop_old_events(now, 2), drop_old_events(now, 2)] == [2, 1, 0]
    assert list(AuditEvent.objects.filter(action="test.happened").values_list("created_at", flat=True)) == [kept, now]
    pruned = AuditEvent.objects.get(action="audit.pruned")
    assert pruned.diff == {"until": [None, kept.isoformat()]}
    # What is younger than the cut stays guarded, and the cut goes back for no clock.
    assert refused(lambda: AuditEvent.objects.filter(created_at=kept).delete())
    for later in (-DAY, timedelta(hours=11)):
        AuditEventFactory(created_at=now - 40 * DAY)
        assert drop_old_events(now + later) == 1
        assert AuditCut.objects.get().until == kept
    assert AuditEvent.objects.filter(action="audit.pruned").count() == 1


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("has_cut", [False, True], ids=["first", "next"])
def test_two_reapers_throw_away_each_event_once_and_move_the_cut_once(now, settings, has_cut):
    settings.CRONIQ_AUDIT_RETENTION_SECONDS = 86_400
    if has_cut:
        AuditCutFactory(pk=1, until=now - 9 * DAY)
    for _ in range(20):
        AuditEventFactory(created_at=now - 5 * DAY)
    gone = together([lambda: drop_old_events(now, 15), lambda: drop_old_events(now, 15)])
    assert sum(gone) + drop_old_events(now) == 20
    assert AuditCut.objects.count() == 1
    assert AuditEvent.objects.filter(action="audit.pruned").count() == 1


@pytest.mark.django_db(transaction=True)
def test_the_guard_is_there_after_the_database_was_emptied_for_a_test():
    AuditEventFactory()
    call_command("flush", interactive=False, verbosity=0)
    assert not AuditEvent.objects.exists()
    AuditEventFactory()
    assert refused(AuditEvent.objects.all().delete)
    assert refused(lambda: AuditEvent.objects.update(tenant="x"))


@pytest.mark.django_db
def test_an_event_carries_the_request_that_did_it(now):
    with answering("req-1"):
        record_events([Event("test.happened", "test", "1")], now)
    record_events([Event("test.happened", "test", "2")], now)
    assert dict(AuditEvent.objects.values_list("target_id", "request_id")) == {"1": "req-1", "2": ""}


@pytest.mark.django_db
def test_a_bulk_of_ten_thousand_is_one_event_with_its_number_and_some_ids(now, django_assert_max_num_queries):
    ids = [str(uuid4()) for _ in range(10_000)]
    lost = [Event("run.lost", "run", name, diff={"job_key": "a:b", "cause": "lease", "attempt": n})
            for n, name in enumerate(ids)]  # fmt: skip
    few = [Event("run.lost", "run", name, Actor("user", "x"), diff={"cause": "lease"}) for name in ids[:20]]
    with django_assert_max_num_queries(3):
        record_events([*lost, Event("runner.takeover", "runner", "r1"), *few], now)
    one = AuditEvent.objects.get(action="run.lost", actor_type="system")
    assert one.target_id == ""
    assert one.diff == {"count": 10_000, "ids": ids[:100], "job_key": "a:b", "cause": "lease"}
    assert AuditEvent.objects.filter(action="run.lost", actor_type="user").count() == 20
    assert AuditEvent.objects.filter(action="runner.takeover", target_id="r1").count() == 1


@pytest.mark.django_db
def test_a_bulk_is_told_by_tenant_and_names_the_jobs(now):
    record_events(
        [
            Event("run.lost", "run", str(number), tenant=tenant, diff={"job_key": f"{tenant}:{number % 2}"})
            for tenant in ("acme", "other")
            for number in range(21)
        ],
        now,
    )
    told = {event.tenant: event.diff for event in AuditEvent.objects.all()}
    assert {tenant: diff["count"] for tenant, diff in told.items()} == {"acme": 21, "other": 21}
    assert told["acme"]["job_keys"] == ["acme:0", "acme:1"]
    assert "other" not in json.dumps(told["acme"])


@pytest.mark.django_db
def test_edits_stay_one_by_one_however_many_there_are(now):
    record_events([Event("job.updated", "job", f"a:{n}", SYSTEM, history="job/1") for n in range(30)], now)
    assert AuditEvent.objects.count() == 30


@pytest.mark.django_db
def test_no_secret_is_kept_whoever_records_it(now):
    action = {"type": "command", "argv": ["x", "--token", "hunter2"], "env": {"PASSWORD": "hunter2", "A": "b"}}
    record_events([Event("job.updated", "job", "a:b", diff={"action": [None, action], "metadata": [{}, {}]})], now)
    diff = AuditEvent.objects.get().diff
    assert "hunter2" not in json.dumps(diff)
    assert diff["action"][1]["env"] == {"PASSWORD": seal("hunter2"), "A": "b"}


def test_a_seal_says_nothing_without_the_key_of_the_site(settings):
    first = seal("hunter2")
    assert first == seal("hunter2") != seal("hunter3")
    settings.SECRET_KEY = "another key of another site, long enough for anybody"
    assert seal("hunter2") != first
