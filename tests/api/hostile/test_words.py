"""What is equal, what runners may say whatever it is, and answers that would be too long."""

from __future__ import annotations

import json
import unicodedata
from datetime import timedelta

import pytest

from croniq_site.kernel.text import CUT_MARK
from scheduler.models import QueueEntry, Run, RunLog
from tests.api.hostile.fields import operations, paths
from tests.factories import JobFactory, QueueEntryFactory, TriggerFactory

NFC, NFD = unicodedata.normalize("NFC", "café:é"), unicodedata.normalize("NFD", "café:é")


@pytest.mark.parametrize(
    ("path", "body", "field"),
    [
        ("/v1/jobs", {}, "job_key"),
        ("/v1/calendars", {"timezone": "UTC"}, "name"),
        ("/v1/api-clients", {"scopes": ["jobs:read"]}, "name"),
    ],
)
def test_names_are_equal_where_their_characters_are(api, path, body, field):
    """Neither case nor the way in which an accent is written makes two names one, on either database."""
    client = api()
    assert len({NFC, NFD}) == 2
    names = [NFC, NFD, "a:b", "A:b", "a:B", "a:ß", "a:ss", "ı:i", "i:i"]
    for name in names:
        assert client.post(path, {**body, field: name}).status_code == 201, name
    there = [row[field] for row in client.get(path).json()]
    assert sorted(there) == sorted([*names, *(name for name in there if name not in names)])
    assert set(names) <= set(there)


def test_a_key_of_a_trigger_is_equal_by_its_characters_and_blank_is_none(api):
    JobFactory(job_key="a:b", max_queue_depth=100)
    client = api()

    def run(key):
        answer = client.post("/v1/trigger", {"job_key": "a:b", "idempotency_key": key})
        assert answer.status_code == 200, answer.content
        return answer.json()["execution_id"]

    keys = [NFC, NFD, "k", "K", "x" * 200, "💩" * 200]
    assert len({run(key) for key in keys}) == len(keys)
    assert [run(key) for key in keys] == [run(key) for key in keys]
    assert len({run(key) for key in ("", " ", "\t \n", None)}) == 4
    for key in ("x" * 201, "x" * 300, "a\x00", "\ud800", 5, True, [], {}):
        answer = client.generic(
            "POST",
            "/v1/trigger",
            json.dumps({"job_key": "a:b", "idempotency_key": key}),
            content_type="application/json",
        )
        assert (answer.status_code, list(answer.json()["fields"])) == (400, ["idempotency_key"]), key


SAID = {
    "": "",
    "a\x00b": "a\ufffdb",
    "\ud800": "\ufffd",
    "\udfff x \ud800": "\ufffd x \ufffd",
    "a\u202eb": "a\u202eb",
    "💩": "💩",
    "e" + "\u0301" * 300: "e" + "\u0301" * 300,
    "x ": "x ",
    "a\r\nb\x1b[31m": "a\r\nb\x1b[31m",
    NFD: NFD,
    "<script>alert(1)</script>": "<script>alert(1)</script>",
    "\ufeff\uffff": "\ufeff\uffff",
}


@pytest.fixture
def runner(api):
    owner = api("work:ack", "work:events")

    def claimed() -> str:
        return str(QueueEntryFactory(claimed=True, holder__runner__client=owner.owner, max_attempts=1).run_id)

    def say(path: str, body) -> object:
        return owner.generic("POST", path, json.dumps(body), content_type="application/json")

    owner.claimed, owner.say = claimed, say
    return owner


def test_an_error_of_any_content_ends_its_run_and_is_read_back_as_it_is_kept(api, runner):
    reader = api("executions:read")
    for said, kept in SAID.items():
        run_id = runner.claimed()
        holder = QueueEntry.objects.get(pk=run_id).holder.runner.runner_id
        ack = {"runner_id": holder, "execution_id": run_id, "status": "failure", "attempt": 1, "error": said}
        answer = runner.say("/v1/work/ack", ack)
        assert answer.status_code == 200, (said, answer.content)
        assert Run.objects.get(pk=run_id).error == kept
        assert (reader.get(f"/v1/executions/{run_id}").json()["error"] or "") == kept


def test_lines_of_any_content_are_taken_and_read_back_as_they_are_kept(api, runner):
    run_id = runner.claimed()
    lines = [{"message": said, "level": said[:5] or "info", "fields": {said or "x": [said]}} for said in SAID]
    answer = runner.say(f"/v1/work/{run_id}/events", lines)
    assert (answer.status_code, answer.json()) == (200, {"accepted": len(SAID)})
    rows = list(RunLog.objects.filter(run_id=run_id).order_by("pk"))
    assert [row.message for row in rows] == list(SAID.values())
    assert [row.fields for row in rows] == [{kept or "x": [kept]} for kept in SAID.values()]
    told = api("executions:read").get(f"/v1/executions/{run_id}/logs").json()
    assert [row["message"] for row in told] == list(SAID.values())
    assert [row["fields"] for row in told] == [{kept or "x": [kept]} for kept in SAID.values()]


def test_5_mib_of_lines_are_taken_each_cut_with_a_mark(runner):
    run_id = runner.claimed()
    lines = [{"message": "💩" * (52_429 // 4)} for _ in range(99)] + [{"message": "x" * 1_000_000}]
    answer = runner.say(f"/v1/work/{run_id}/events", lines)
    assert (answer.status_code, answer.json()) == (200, {"accepted": 100})
    last = RunLog.objects.filter(run_id=run_id).order_by("pk").last()
    assert len(last.message.encode()) <= 65_536
    assert last.message.endswith(CUT_MARK)


def test_a_backfill_of_millions_of_fires_is_refused(api, now):
    job = JobFactory(job_key="a:b")
    long_ago = now - timedelta(days=3000)
    TriggerFactory(job=job, every=timedelta(seconds=1), created_at=long_ago, anchor_at=long_ago)
    body = {"from": "2020-01-01T00:00:00Z", "until": "2026-03-02T11:00:00Z", "dry_run": True}
    answer = api().post("/v1/jobs/a:b/backfill", body)
    assert (answer.status_code, list(answer.json()["fields"])) == (400, ["until"])


def test_no_look_ahead_is_without_end(api, everything):
    client = api()
    calendar = paths(everything)["{calendar_id}"]
    for path in (
        "/v1/dashboard/forecast?window_minutes=1000000000&bucket_minutes=1",
        "/v1/dashboard/forecast?window_minutes=100000&bucket_minutes=1",
        f"/v1/calendars/{calendar}/preview?from=0001-01-01&until=9999-12-31",
        f"/v1/calendars/{calendar}/preview?from=9999-12-31&until=9999-12-31",
        "/v1/insights/failures?days=1000000",
        "/v1/jobs/test:none/stats?days=99999999999999999999",
    ):
        answer = client.get(path)
        assert answer.status_code in (200, 400, 404), (path, answer.content[:300])
        assert len(answer.content) < 1_000_000, path


INSTANTS = {
    "0001-01-01T00:00:00Z": 200,
    "0001-01-01T00:00:00+23:59": 400,
    "9999-12-31T23:59:59Z": 200,
    "9999-12-31T23:59:59-23:59": 400,
    "2026-02-30T00:00:00Z": 400,
    "2026-03-01": 400,
    "2026-03-01T12:00:00": 400,
    "now": 400,
    "1e9": 400,
    "2026-03-01T12:00:00 01:00": 200,
}


def test_instants_in_queries_have_one_verdict(api, everything):
    client = api()
    for path in ("/v1/executions", "/v1/audit"):
        for name in ("since", "until"):
            for value, verdict in INSTANTS.items():
                answer = client.get(path, {name: value})
                assert answer.status_code == verdict, (path, name, value, answer.content[:300])
                if verdict == 400:
                    assert list(answer.json()["fields"]) == [name]


def test_the_document_names_each_body():
    """Else its fields would be in none of these tests."""
    assert all(operation.leaves for operation in operations())
