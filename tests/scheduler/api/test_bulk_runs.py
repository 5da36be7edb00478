"""Many runs and letters with one request: counted first, then done to what was counted and to nothing else."""

from __future__ import annotations

from datetime import timedelta
from uuid import uuid4

import pytest

from croniq_site.kernel.errors import Conflict
from runners.models import AuditEvent
from scheduler.models import DeadLetter, QueueEntry, Run
from scheduler.queries import bulk
from scheduler.services.bulk import cancel_many
from scheduler.services.replays import replay_run
from tests.factories import DeadLetterFactory, JobFactory, QueueEntryFactory, RunFactory
from tests.scheduler.conformance.snapshots import everything
from tests.scheduler.planning.support import ACTOR

CANCEL, REPLAY = "/v1/executions/bulk-cancel", "/v1/executions/bulk-replay"
LETTERS, DISCARD = "/v1/dead-letters/bulk-replay", "/v1/dead-letters/bulk-delete"


def counted(client, path: str, **body) -> dict:
    """What a dry run says; it changes nothing."""
    before = everything()
    answer = client.post(path, {**body, "dry_run": True})
    assert answer.status_code == 200, answer.content
    assert everything() == before
    found = answer.json()
    assert (found["dry_run"], found["changed"], found["refused"]) == (True, 0, [])
    return found


def done(client, path: str, **body) -> dict:
    answer = client.post(path, body)
    assert answer.status_code == 200, answer.content
    assert answer.json()["dry_run"] is False
    return answer.json()


def entry(job, **more) -> QueueEntry:
    """Of a triggered run: a job may have many of one instant."""
    return QueueEntryFactory(job=job, run__kind="triggered", **more)


@pytest.fixture
def queue(db, now):
    """By job: one waiting, one claimed, one planned, one winding down; and what has ended."""
    jobs = {key: JobFactory(job_key=key) for key in ("a:one", "a:other")}
    return {
        key: {
            "waiting": entry(job, run__scheduled_for=now).run_id,
            "claimed": entry(job, claimed=True, run__scheduled_for=now).run_id,
            "planned": entry(job, run__scheduled_for=now + timedelta(minutes=5)).run_id,
            "stopping": entry(job, stopping=True).run_id,
            "completed": RunFactory(job=job, kind="triggered", completed=True).pk,
            "dead": RunFactory(job=job, kind="triggered", dead=True).pk,
        }
        for key, job in jobs.items()
    }


def verdicts(runs: dict) -> dict:
    return {name: Run.objects.get(pk=pk).verdict for name, pk in runs.items()}


def test_what_is_counted_is_cancelled_and_nothing_else(api, queue):
    client = api("executions:cancel")
    found = counted(client, CANCEL, job_key="a:one")
    assert found["matched"] == 2
    assert set(found["ids"]) == {str(queue["a:one"][name]) for name in ("waiting", "claimed")}
    before = verdicts(queue["a:other"])
    result = done(client, CANCEL, job_key="a:one", expected=2, reason="a bad deploy")
    assert (result["changed"], set(result["ids"]), result["has_more"]) == (2, set(found["ids"]), False)
    assert verdicts(queue["a:other"]) == before
    now_is = verdicts(queue["a:one"])
    assert (now_is["waiting"], now_is["claimed"], now_is["planned"]) == ("cancelled", "cancelled", None)
    assert Run.objects.get(pk=queue["a:one"]["waiting"]).reason == "a bad deploy"
    told = AuditEvent.objects.filter(action="run.cancelled").values_list("target_id", flat=True)
    assert sorted(told) == sorted(found["ids"])
    # Asked again nothing matches, and what is done already is not done twice.
    assert client.post(CANCEL, {"job_key": "a:one", "expected": 2}).status_code == 409
    assert counted(client, CANCEL, job_key="a:one")["matched"] == 0


@pytest.mark.parametrize(
    ("filters", "names"),
    [
        ({"state": "queued"}, {"waiting"}),
        ({"state": "claimed"}, {"claimed"}),
        ({"planned": True}, {"waiting", "claimed", "planned"}),
        ({"state": "queued", "planned": True}, {"waiting", "planned"}),
        ({"since": "2026-03-02T12:00:01Z", "planned": True}, {"planned"}),
        ({"until": "2026-03-02T12:00:00Z"}, set()),
        ({"runner_id": "nobody"}, set()),
        ({"job_key": None, "state": None}, {"waiting", "claimed"}),
    ],
)
def test_the_filters_of_the_list_say_which_runs(api, queue, filters, names):
    found = counted(api(), CANCEL, **filters)
    assert set(found["ids"]) == {str(runs[name]) for runs in queue.values() for name in names}


def test_ids_name_runs_whatever_the_filters_default_to(api, queue):
    ids = [str(queue["a:one"][name]) for name in queue["a:one"]] + [str(uuid4())]
    result = done(api(), CANCEL, ids=ids)
    assert set(result["ids"]) == {str(queue["a:one"][name]) for name in ("waiting", "claimed", "planned")}


def test_another_number_than_the_expected_changes_nothing(api, queue, now):
    client = api()
    found = counted(client, CANCEL, state="queued")
    QueueEntryFactory(run__scheduled_for=now)
    before = everything()
    answer = client.post(CANCEL, {"state": "queued", "expected": found["matched"]})
    assert (answer.status_code, answer.json()["error"]) == (409, "count_changed")
    assert answer.json()["matched"] == found["matched"] + 1
    assert everything() == before


@pytest.mark.parametrize("path", [CANCEL, REPLAY])
def test_filters_without_a_number_are_refused(api, queue, path):
    answer = api().post(path, {"job_key": "a:one"})
    assert (answer.status_code, set(answer.json()["fields"])) == (400, {"expected"})


def test_a_run_that_is_claimed_between_the_look_and_the_lock_is_left_alone(db, queue, now):
    """What was shown as waiting has a handler by now: to cancel that was not asked."""
    waiting = queue["a:one"]["waiting"]
    holder = QueueEntry.objects.get(run_id=queue["a:one"]["claimed"]).holder
    shown = bulk.runs_to_cancel(now, bulk.RunFilter(state="queued")).ids
    QueueEntry.objects.filter(run_id=waiting).update(
        state=QueueEntry.State.CLAIMED, holder=holder, attempt=1, claimed_at=now, lease_expires_at=now, deadline_at=now
    )
    result = cancel_many(shown, bulk.entry_states("queued"), now, ACTOR)
    assert result.changed == [queue["a:other"]["waiting"]]
    assert Run.objects.get(pk=waiting).verdict is None


def test_more_than_one_request_takes_are_said_and_done_in_turn(api, now, monkeypatch):
    monkeypatch.setattr(bulk, "MOST", 3)
    job = JobFactory()
    for _ in range(5):
        entry(job, run__scheduled_for=now)
    client = api()
    assert (counted(client, CANCEL)["matched"], counted(client, CANCEL)["has_more"]) == (3, True)
    assert done(client, CANCEL, expected=3)["changed"] == 3
    rest = done(client, CANCEL, expected=2)
    assert (rest["changed"], rest["has_more"]) == (2, False)


def test_two_hundred_are_cancelled_in_batches_and_a_hundred_are_named(api, now):
    job = JobFactory()
    for _ in range(200):
        entry(job, run__scheduled_for=now)
    result = done(api(), CANCEL, expected=200)
    assert (result["changed"], len(result["ids"])) == (200, 100)
    assert not QueueEntry.objects.exists()
    # Of many at once one event a batch, with their number and the first ids.
    told = AuditEvent.objects.filter(action="run.cancelled").values_list("diff", flat=True)
    assert sorted(diff["count"] for diff in told) == [50, 150]


# Once more


def test_what_ended_is_done_once_more_and_only_once(api, queue, now):
    client = api("jobs:trigger")
    # The one that winds down is cancelled: that is an end too.
    found = counted(client, REPLAY, job_key="a:one")
    assert set(found["ids"]) == {str(queue["a:one"][name]) for name in ("dead", "stopping")}
    result = done(client, REPLAY, job_key="a:one", state="dead", expected=1)
    assert result["ids"] == [str(queue["a:one"]["dead"])]
    original = Run.objects.get(pk=queue["a:one"]["dead"])
    replay = Run.objects.get(replay_of=original)
    assert (replay.kind, replay.scheduled_for, replay.attempt) == ("replay", original.scheduled_for, 0)
    assert QueueEntry.objects.get(run=replay).state == QueueEntry.State.READY
    event = AuditEvent.objects.get(action="run.replayed")
    assert (event.target_id, event.diff["execution_id"]) == (str(original.pk), str(replay.pk))
    assert counted(client, REPLAY, job_key="a:one", state="dead")["matched"] == 0
    assert done(client, REPLAY, ids=[str(original.pk)])["changed"] == 0


def test_a_completed_run_is_done_again_only_where_it_is_asked_for(api, queue):
    client = api()
    completed = str(queue["a:one"]["completed"])
    assert completed not in counted(client, REPLAY)["ids"]
    assert completed in counted(client, REPLAY, state="completed")["ids"]
    assert done(client, REPLAY, ids=[completed])["ids"] == [completed]


def test_what_has_not_ended_was_skipped_or_is_of_a_deleted_job_is_not_done_again(api, queue, now):
    skipped = RunFactory(verdict="skipped", problem="skipped", finished_at=now)
    gone = RunFactory(dead=True, job=JobFactory(deleted_at=now, is_active=False))
    ids = [str(queue["a:one"]["waiting"]), str(skipped.pk), str(gone.pk)]
    assert counted(api(), REPLAY, ids=ids)["matched"] == 0
    with pytest.raises(Conflict) as refused:  # where it was deleted after the look
        replay_run(gone.pk, now, ACTOR)
    assert refused.value.code == "job_deleted"


# Letters


def test_letters_are_replayed_as_counted_and_one_that_is_too_old_says_why(api, now):
    fresh = DeadLetterFactory(created_at=now)
    old = DeadLetterFactory(job__dead_letter_replay_max_age_seconds=60, created_at=now - timedelta(hours=1))
    client = api("dead-letters:write")
    assert counted(client, LETTERS, all=True)["matched"] == 2
    result = done(client, LETTERS, all=True, expected=2)
    assert result["ids"] == [str(fresh.pk)]
    assert [(row["id"], row["error"]) for row in result["refused"]] == [(str(old.pk), "stale_replay")]
    assert done(client, LETTERS, ids=[str(old.pk), str(fresh.pk)], force=True)["ids"] == [str(old.pk)]
    assert Run.objects.filter(kind="replay").count() == 2


def test_letters_that_were_replayed_or_whose_job_is_deleted_are_not_counted(api, now):
    DeadLetterFactory(job__deleted_at=now, job__is_active=False, created_at=now)
    replayed = DeadLetterFactory(created_at=now)
    client = api("dead-letters:write")
    assert done(client, LETTERS, ids=[str(replayed.pk)])["changed"] == 1
    assert counted(client, LETTERS, all=True)["matched"] == 0


def test_letters_are_thrown_away_as_counted(api, now):
    job = JobFactory(job_key="a:one")
    letters = [DeadLetterFactory(job=job, run__kind="triggered", created_at=now) for _ in range(3)]
    other = DeadLetterFactory(created_at=now)
    client = api("dead-letters:write")
    found = counted(client, DISCARD, all=True, job_key="a:one")
    assert set(found["ids"]) == {str(letter.pk) for letter in letters}
    assert client.post(DISCARD, {"all": True, "job_key": "a:one", "expected": 2}).status_code == 409
    assert DeadLetter.objects.count() == 4
    result = done(client, DISCARD, all=True, job_key="a:one", expected=3)
    assert (result["deleted"], result["changed"]) == (3, 3)
    assert list(DeadLetter.objects.all()) == [other]


@pytest.mark.parametrize(
    ("path", "body", "field"),
    [
        (LETTERS, {}, "expected"),
        (LETTERS, {"dry_run": True}, "ids"),
        (LETTERS, {"all": True, "ids": [], "dry_run": True}, "ids"),
        (LETTERS, {"all": True, "expected": True}, "expected"),
        (DISCARD, {"all": True, "expected": -1}, "expected"),
        (DISCARD, {"dry_run": True}, "ids"),
        (CANCEL, {"dry_run": "yes"}, "dry_run"),
        (CANCEL, {"dry_run": True, "state": "dead"}, "state"),
        (CANCEL, {"dry_run": True, "ids": "x"}, "ids"),
        (CANCEL, {"dry_run": True, "ids": ["x"]}, "ids"),
        (CANCEL, {"dry_run": True, "since": "yesterday"}, "since"),
        (CANCEL, {"dry_run": True, "job_key": ""}, "job_key"),
        (CANCEL, {"dry_run": True, "job_key": 5}, "job_key"),
        (CANCEL, {"dry_run": True, "stat": "queued"}, "stat"),
        (CANCEL, {"expected": 2_001}, "expected"),
        (REPLAY, {"dry_run": True, "state": "skipped"}, "state"),
        (REPLAY, {"dry_run": True, "planned": True}, "planned"),
    ],
)
def test_a_wrong_field_is_named(api, path, body, field):
    answer = api().post(path, body)
    assert (answer.status_code, set(answer.json()["fields"])) == (400, {field})


def test_a_tenant_touches_its_own_alone(api, queue, now):
    job = JobFactory(tenant="acme", lane__tenant="acme", job_key="acme:job")
    own = entry(job, run__scheduled_for=now).run_id
    dead = RunFactory(job=job, kind="triggered", dead=True)
    letter, foreign = DeadLetterFactory(job=job), DeadLetterFactory()
    client = api(tenant="acme")
    assert counted(client, CANCEL)["ids"] == [str(own)]
    assert set(counted(client, REPLAY, state="dead")["ids"]) == {str(dead.pk), str(letter.run_id)}
    assert {counted(client, LETTERS, all=True)["matched"], counted(client, DISCARD, all=True)["matched"]} == {1}
    foreign_ids = [str(queue["a:one"]["waiting"])]
    assert done(client, CANCEL, ids=foreign_ids)["changed"] == 0
    assert done(client, REPLAY, ids=[str(queue["a:one"]["dead"])])["changed"] == 0
    assert done(client, LETTERS, ids=[str(foreign.pk)])["changed"] == 0
    assert done(client, DISCARD, all=True, expected=1)["changed"] == 1
    assert list(DeadLetter.objects.all()) == [foreign]
    assert not DeadLetter.objects.filter(pk=letter.pk).exists()
