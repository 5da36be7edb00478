"""/v1/executions: states, filters, pages, detail, logs, cancel."""

from __future__ import annotations

from datetime import datetime, timedelta
from uuid import uuid4

import pytest

from scheduler.models import QueueEntry, Run
from tests.factories import (
    AttemptFactory,
    JobFactory,
    QueueEntryFactory,
    RunFactory,
    RunLogFactory,
    RunnerInstanceFactory,
)

KEYS = [
    "id",
    "job_key",
    "state",
    "attempt",
    "scheduled_for",
    "fire_at",
    "runner_id",
    "claimed_at",
    "completed_at",
    "duration_ms",
    "error",
    "created_at",
]


def ids(answer) -> list[str]:
    assert answer.status_code == 200, answer.content
    body = answer.json()
    return [row["id"] for row in (body if isinstance(body, list) else body["results"])]


def iso(instant: datetime) -> str:
    return instant.strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def test_a_completed_run_has_the_protocols_fields_and_no_other(api, now):
    run = RunFactory(job__job_key="billing:invoices", completed=True, duration_ms=1500, scheduled_for=now)
    (body,) = api().get("/v1/executions").json()
    assert list(body) == KEYS
    assert body == {
        "id": str(run.id),
        "job_key": "billing:invoices",
        "state": "completed",
        "attempt": 1,
        "scheduled_for": "2026-03-02T12:00:00.000000Z",
        "fire_at": "2026-03-02T12:00:00.000000Z",
        "runner_id": "runner",
        "claimed_at": "2026-03-02T12:00:00.000000Z",
        "completed_at": "2026-03-02T12:00:00.000000Z",
        "duration_ms": 1500,
        "error": None,
        "created_at": "2026-03-02T11:00:00.000000Z",
    }


def test_an_unfinished_run_has_the_state_of_its_entry(api, now):
    holder = RunnerInstanceFactory(runner__runner_id="worker-1")
    states = {
        "queued": [
            QueueEntryFactory(),
            QueueEntryFactory(state=QueueEntry.State.GATED),
            QueueEntryFactory(state=QueueEntry.State.HELD),
            QueueEntryFactory(attempt=2, available_at=now + timedelta(minutes=5)),
        ],
        "claimed": [QueueEntryFactory(claimed=True, holder=holder)],
        "cancelled": [QueueEntryFactory(stopping=True, holder=holder)],
    }
    found = {row["id"]: row for row in api().get("/v1/executions").json()}
    for state, entries in states.items():
        assert [found[str(entry.run_id)]["state"] for entry in entries] == [state] * len(entries)
        assert set(ids(api().get(f"/v1/executions?state={state}"))) == {str(entry.run_id) for entry in entries}
    claimed = found[str(states["claimed"][0].run_id)]
    assert (claimed["runner_id"], claimed["attempt"]) == ("worker-1", 1)
    assert claimed["claimed_at"] == iso(now)
    retrying = found[str(states["queued"][3].run_id)]
    assert (retrying["attempt"], retrying["fire_at"]) == (2, iso(now + timedelta(minutes=5)))
    assert retrying["scheduled_for"] == iso(states["queued"][3].run.scheduled_for)


@pytest.mark.parametrize("state", ["completed", "failed", "dead", "cancelled", "skipped"])
def test_each_verdict_is_a_state_to_filter_by(api, now, state):
    runs = {
        verdict: RunFactory(
            verdict=verdict, problem=None if verdict == "completed" else verdict, finished_at=now, error="why"
        )
        for verdict in Run.Verdict.values
    }
    assert ids(api().get(f"/v1/executions?state={state}")) == [str(runs[state].id)]
    assert api().get(f"/v1/executions/{runs[state].id}").json()["state"] == state


def test_planned_runs_are_listed_only_on_request(api, now):
    due = QueueEntryFactory(run__scheduled_for=now)
    planned = QueueEntryFactory(run__scheduled_for=now + timedelta(minutes=1), available_at=now + timedelta(minutes=1))
    cancelled = RunFactory(
        scheduled_for=now + timedelta(minutes=2), verdict="cancelled", problem="cancelled", finished_at=now
    )
    client = api()
    assert ids(client.get("/v1/executions")) == [str(cancelled.id), str(due.run_id)]
    everything = [str(cancelled.id), str(planned.run_id), str(due.run_id)]
    assert ids(client.get("/v1/executions?planned=1")) == everything
    assert ids(client.get("/v1/executions?state=queued")) == [str(due.run_id)]
    assert ids(client.get("/v1/executions?state=queued&planned=1")) == [str(planned.run_id), str(due.run_id)]
    # Its instant has come: it is due, and listed.
    assert client.get(f"/v1/executions/{planned.run_id}").json()["state"] == "queued"


def test_newest_first_and_filters_combine(api, now):
    one, other = JobFactory(job_key="a:one"), JobFactory(job_key="a:other")
    runs = [
        RunFactory(job=job, completed=True, scheduled_for=now - timedelta(minutes=minute), runner_id=f"r{minute % 2}")
        for minute in range(4)
        for job in (one, other)
    ]
    runs.sort(key=lambda run: (run.scheduled_for, run.id), reverse=True)
    client = api()
    assert ids(client.get("/v1/executions")) == [str(run.id) for run in runs]
    assert ids(client.get("/v1/executions?job_key=a:one&runner_id=r1")) == [
        str(run.id) for run in runs if run.job_id == one.pk and run.runner_id == "r1"
    ]
    since, until = now - timedelta(minutes=2), now
    for written in (iso, lambda instant: instant.isoformat().replace("+", "%2B"), datetime.isoformat):
        found = ids(client.get(f"/v1/executions?since={written(since)}&until={written(until)}"))
        assert found == [str(run.id) for run in runs if since <= run.scheduled_for < until]
    assert ids(client.get("/v1/executions?limit=3")) == [str(run.id) for run in runs[:3]]
    assert ids(client.get("/v1/executions?job_key=no:such")) == []


def test_runs_of_a_deleted_job_stay_under_its_key_beside_those_of_a_new_one(api, now):
    old = JobFactory(job_key="a:b", deleted_at=now, is_active=False)
    runs = [RunFactory(job=job, completed=True) for job in (old, JobFactory(job_key="a:b"))]
    assert set(ids(api().get("/v1/executions?job_key=a:b"))) == {str(run.id) for run in runs}


def test_a_list_has_100_rows_unless_asked_and_500_at_most(api, now):
    job = JobFactory()
    Run.objects.bulk_create(RunFactory.build(job=job, completed=True) for _ in range(502))
    client = api()
    assert len(ids(client.get("/v1/executions"))) == 100
    assert len(ids(client.get("/v1/executions?limit=500"))) == 500
    for limit in ("501", "0", "-1", "1.5", "x", "9" * 5000, "٣"):
        answer = client.get("/v1/executions", {"limit": limit})
        assert answer.status_code == 400
        assert "limit" in answer.json()["fields"]


def test_pages_by_position_show_each_run_once_while_new_ones_come(api, now):
    runs = [RunFactory(completed=True, scheduled_for=now - timedelta(seconds=number // 2)) for number in range(7)]
    expected = [str(run.id) for run in sorted(runs, key=lambda run: (run.scheduled_for, run.id), reverse=True)]
    client, url, seen, pages = api(), "/v1/executions?page_size=3&state=completed", [], 0
    while url:
        answer = client.get(url)
        seen += ids(answer)
        url = answer.json()["next"]
        pages += 1
        RunFactory(completed=True, scheduled_for=now + timedelta(seconds=pages))
    assert seen == expected
    assert pages == 3


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("state", "bogus"),
        ("state", "planned"),
        ("since", "yesterday"),
        ("since", "2026-03-01T12:00:00"),
        ("until", "0001-01-01T00:00:00+23:59"),
        ("until", "2026-13-01T00:00:00Z"),
        ("planned", "perhaps"),
        ("page_size", "0"),
        ("cursor", "nonsense"),
        ("cursor", "WyJhIl0="),
        ("cursor", "WyJhIiwiYiJd"),
        ("cursor", "bnVsbA=="),
        ("cursor", "\udcff"),
        ("job_key", "a\x00b"),
        ("runner_id", "a\nb"),
        ("runner_id", "x" * 256),
    ],
)
def test_a_bad_parameter_is_400_and_named(api, name, value):
    answer = api().get("/v1/executions", {name: value.encode("utf-8", "surrogateescape")})
    assert answer.status_code == 400
    assert name in answer.json()["fields"]
    if name == "state":
        assert "completed" in answer.json()["message"]


def test_the_detail_shows_all_attempts_the_last_too(api, now):
    run = RunFactory(dead=True, attempt=3, error="boom", reason="retries_exhausted", metadata={"a": 1, "__x": 2})
    AttemptFactory(run=run, attempt=1, outcome="failed", error="first")
    AttemptFactory(run=run, attempt=2, outcome="lost", cause="lease")
    body = api().get(f"/v1/executions/{run.id}").json()
    assert list(body)[: len(KEYS)] == KEYS
    assert [(a["attempt"], a["outcome"], a["cause"], a["error"]) for a in body["attempts"]] == [
        (1, "failed", None, "first"),
        (2, "lost", "lease", None),
        (3, "failed", None, "boom"),
    ]
    assert body["reason"] == "retries_exhausted"
    assert body["metadata"] == {"a": 1}
    # Of a finished run that was retried nobody knows any more when its last attempt fell due.
    assert body["fire_at"] is None


@pytest.mark.parametrize(
    ("verdict", "reason", "code"),
    [
        ("skipped", "skip_next", "skip_next"),
        ("dead", "retries_exhausted", "retries_exhausted"),
        ("failed", "timed_out", "timed_out"),
        ("cancelled", "by hand, it was wrong", "cancelled"),
        ("cancelled", "", "cancelled"),
    ],
)
def test_a_run_that_ended_otherwise_than_well_says_why_in_detail_and_explanation(api, now, verdict, reason, code):
    run = RunFactory(verdict=verdict, problem=verdict, finished_at=now, reason=reason)
    assert api().get(f"/v1/executions/{run.id}").json()["reason"] == (reason or None)
    body = api().get(f"/v1/executions/{run.id}/explain").json()
    assert (body["state"], [found["code"] for found in body["reasons"]]) == (verdict, [code])
    assert reason.replace("_", " ") in body["reasons"][0]["message"]


def test_a_fire_that_was_taken_out_is_listed_when_it_would_be_due_or_with_what_is_planned(api, clock, now):
    run = RunFactory(scheduled_for=now + timedelta(hours=1), verdict="skipped", problem="skipped", finished_at=now)
    client = api()
    for query in ("", "?state=skipped", f"?job_key={run.job.job_key}"):
        assert ids(client.get(f"/v1/executions{query}")) == []
    assert ids(client.get("/v1/executions?planned=1")) == [str(run.id)]
    clock.tick(timedelta(hours=1))
    assert ids(client.get("/v1/executions")) == ids(client.get("/v1/executions?state=skipped")) == [str(run.id)]


def test_the_detail_of_a_run_that_was_buried_does_not_show_its_lost_attempt_twice(api):
    run = RunFactory(dead=True, attempt=1, reason="losses_exhausted")
    AttemptFactory(run=run, attempt=1, outcome="lost", cause="lease")
    attempts = api().get(f"/v1/executions/{run.id}").json()["attempts"]
    assert [(a["attempt"], a["outcome"]) for a in attempts] == [(1, "lost")]


def test_the_detail_of_a_claimed_run_has_its_running_attempt_and_of_a_waiting_one_none(api):
    claimed, waiting = QueueEntryFactory(claimed=True), QueueEntryFactory()
    assert api().get(f"/v1/executions/{claimed.run_id}").json()["attempts"][0]["outcome"] == "running"
    assert api().get(f"/v1/executions/{waiting.run_id}").json()["attempts"] == []


def test_an_error_is_cut_in_a_list_and_whole_in_the_detail(api):
    run = RunFactory(dead=True, error="e" * 60_000)
    (row,) = api().get("/v1/executions").json()
    assert row["error"].startswith("e" * 4000)
    assert len(row["error"]) < 4100
    assert "cut" in row["error"]
    assert api().get(f"/v1/executions/{run.id}").json()["error"] == "e" * 60_000


@pytest.mark.parametrize("suffix", ["", "/logs", "/cancel"])
def test_an_id_that_is_no_uuid_is_400_and_an_unknown_one_404(api, suffix):
    client = api()
    method = client.post if suffix == "/cancel" else client.get
    for text in ("x", "%00", "123", "{018f4e9c-8a1b-7c3d-9e2f-0123456789ab}", "%F0%9F%92%A9"):
        answer = method(f"/v1/executions/{text}{suffix}")
        assert answer.status_code == 400
        assert "id" in answer.json()["fields"]
    assert method(f"/v1/executions/{uuid4()}{suffix}").status_code == 404


def test_logs_come_whole_in_order_and_from_where_one_stopped(api):
    run = RunFactory()
    lines = [RunLogFactory(run=run, message=f"line {n}", fields={"n": n}, attempt=n % 2 + 1) for n in range(150)]
    RunLogFactory(message="of another run")
    client = api("executions:read")
    body = client.get(f"/v1/executions/{run.id}/logs").json()
    assert [row["message"] for row in body] == [f"line {n}" for n in range(150)]
    assert body[3] == {
        "id": lines[3].pk,
        "execution_id": str(run.id),
        "timestamp": "2026-03-02T12:00:00.000000Z",
        "level": "info",
        "message": "line 3",
        "fields": {"n": 3},
        "attempt": 2,
    }
    rest = client.get(f"/v1/executions/{run.id}/logs?after={lines[147].pk}").json()
    assert [row["message"] for row in rest] == ["line 148", "line 149"]
    assert len(client.get(f"/v1/executions/{run.id}/logs?limit=7").json()) == 7
    newest = client.get(f"/v1/executions/{run.id}/logs?last=3").json()
    assert [row["message"] for row in newest] == ["line 147", "line 148", "line 149"]
    for bad in ("after=x", "after=-1", f"after={2**63}", "limit=10001", "last=0", "last=101", "last=1&limit=1"):
        assert client.get(f"/v1/executions/{run.id}/logs?{bad}").status_code == 400


def test_at_most_10000_lines_in_one_answer(api):
    run = RunFactory()
    from scheduler.models import RunLog

    RunLog.objects.bulk_create(RunLogFactory.build_batch(10_001, run=run), batch_size=500)
    answer = api().get(f"/v1/executions/{run.id}/logs?limit=10000")
    assert len(answer.json()) == 10_000
    rest = api().get(answer["Link"].partition(">")[0].removeprefix("<"))
    assert (len(rest.json()), rest.has_header("Link")) == (1, False)


def test_cancel_ends_a_waiting_run_and_again_is_200(api):
    entry = QueueEntryFactory()
    client = api("executions:cancel")
    for _ in range(2):
        answer = client.post(f"/v1/executions/{entry.run_id}/cancel")
        assert answer.status_code == 200
        assert answer.json() == {
            "execution_id": str(entry.run_id),
            "cancelled": True,
            "delivered_via_runner": False,
        }
    assert Run.objects.get(pk=entry.run_id).verdict == "cancelled"
    assert not QueueEntry.objects.filter(pk=entry.pk).exists()


def test_cancel_of_a_claimed_run_goes_through_its_runner(api):
    entry = QueueEntryFactory(claimed=True)
    client = api()
    for _ in range(2):
        answer = client.post(f"/v1/executions/{entry.run_id}/cancel", {})
        assert answer.status_code == 200
        assert answer.json()["delivered_via_runner"] is True
    entry.refresh_from_db()
    assert entry.state == QueueEntry.State.STOPPING
    assert client.get(f"/v1/executions/{entry.run_id}").json()["state"] == "cancelled"


@pytest.mark.parametrize("verdict", ["completed", "failed", "dead", "skipped"])
def test_cancel_of_a_finished_run_is_409_and_changes_nothing(api, now, verdict):
    run = RunFactory(verdict=verdict, problem=None if verdict == "completed" else verdict, finished_at=now)
    answer = api().post(f"/v1/executions/{run.id}/cancel")
    assert answer.status_code == 409
    run.refresh_from_db()
    assert run.verdict == verdict
