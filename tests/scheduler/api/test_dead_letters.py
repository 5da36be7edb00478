"""/v1/dead-letters."""

from __future__ import annotations

from datetime import timedelta
from uuid import uuid4

from scheduler.models import DeadLetter, Run
from tests.factories import DeadLetterFactory, JobFactory


def test_a_letter_has_the_protocols_fields(api, now):
    letter = DeadLetterFactory(
        job__job_key="a:b", error="boom", attempt=4, metadata={"n": 1, "__x": 2}, run__scheduled_for=now
    )
    client = api("dead-letters:read")
    body = client.get(f"/v1/dead-letters/{letter.pk}").json()
    assert body == {
        "id": str(letter.pk),
        "execution_id": str(letter.run_id),
        "job_key": "a:b",
        "error": "boom",
        "attempt": 4,
        "dead_reason": "retries_exhausted",
        "scheduled_for": "2026-03-02T12:00:00.000000Z",
        "fire_at": "2026-03-02T12:00:00.000000Z",
        "metadata": {"n": 1},
        "created_at": "2026-03-02T12:00:00.000000Z",
        "expires_at": "2026-04-01T12:00:00.000000Z",
        "replayed_as": None,
    }
    assert client.get("/v1/dead-letters").json() == [body]


def test_newest_first_by_job_and_in_pages(api, now):
    one, other = JobFactory(job_key="a:one"), JobFactory(job_key="a:other")
    letters = [
        DeadLetterFactory(job=(one, other)[number % 2], created_at=now - timedelta(minutes=number // 2))
        for number in range(5)
    ]
    letters.sort(key=lambda letter: (letter.created_at, letter.pk), reverse=True)
    expected = [str(letter.pk) for letter in letters]
    client = api()
    assert [row["id"] for row in client.get("/v1/dead-letters").json()] == expected
    assert [row["id"] for row in client.get("/v1/dead-letters?job_key=a:other").json()] == [
        str(letter.pk) for letter in letters if letter.job_id == other.pk
    ]
    url, seen = "/v1/dead-letters?page_size=2", []
    while url:
        page = client.get(url).json()
        seen += [row["id"] for row in page["results"]]
        url = page["next"]
    assert seen == expected


def test_no_uuid_is_400_and_an_unknown_one_404(api):
    assert api().get("/v1/dead-letters/x").status_code == 400
    assert api().get(f"/v1/dead-letters/{uuid4()}").status_code == 404


def test_a_letter_is_replayed_once_and_thrown_away(api, now):
    letter = DeadLetterFactory(run__scheduled_for=now)
    client = api("dead-letters:write")
    answers = [client.post(f"/v1/dead-letters/{letter.pk}/replay", body) for body in ({}, {"force": True}, None)]
    assert [answer.status_code for answer in answers] == [200, 200, 200]
    (body,) = {str(answer.json()): answer.json() for answer in answers}.values()
    run = Run.objects.get(kind="replay")
    assert body == {"execution_id": str(run.pk), "attempt": 1, "scheduled_for": "2026-03-02T12:00:00.000000Z"}
    assert client.delete(f"/v1/dead-letters/{letter.pk}").status_code == 204
    assert client.delete(f"/v1/dead-letters/{letter.pk}").status_code == 404
    assert client.post(f"/v1/dead-letters/{letter.pk}/replay").status_code == 404


def test_a_letter_and_its_replay_know_each_other(api, now):
    letter, other = DeadLetterFactory(), DeadLetterFactory()
    client = api()
    made = client.post(f"/v1/dead-letters/{letter.pk}/replay").json()["execution_id"]
    assert client.get(f"/v1/dead-letters/{letter.pk}").json()["replayed_as"] == made
    listed = {row["id"]: row["replayed_as"] for row in client.get("/v1/dead-letters").json()}
    assert listed == {str(letter.pk): made, str(other.pk): None}
    assert client.get(f"/v1/executions/{made}").json()["replay_of"] == str(letter.run_id)
    assert client.get(f"/v1/executions/{letter.run_id}").json()["replay_of"] is None


def test_a_stale_replay_is_409_unless_forced(api, now):
    letter = DeadLetterFactory(job__dead_letter_replay_max_age_seconds=60, created_at=now - timedelta(seconds=61))
    client = api("dead-letters:write")
    refused = client.post(f"/v1/dead-letters/{letter.pk}/replay", {"force": False})
    assert (refused.status_code, refused.json()["error"]) == (409, "stale_replay")
    assert client.post(f"/v1/dead-letters/{letter.pk}/replay", {"force": True}).status_code == 200


def test_what_is_no_replay_is_400_by_field(api):
    url = f"/v1/dead-letters/{DeadLetterFactory().pk}/replay"
    for body, field in (({"force": "yes"}, "force"), ({"force": None}, "force"), ({"when": 1}, "when")):
        answer = api().post(url, body)
        assert (answer.status_code, set(answer.json()["fields"])) == (400, {field})
    assert api().post("/v1/dead-letters/x/replay").status_code == 400


def test_letters_are_thrown_away_in_bulk_within_the_tenant(api):
    foreign, mine = DeadLetterFactory(job__tenant="acme"), [DeadLetterFactory() for _ in range(3)]
    client = api("dead-letters:write", tenant="default")
    url = "/v1/dead-letters/bulk-delete"
    assert client.post(url, {"ids": [str(mine[0].pk), str(foreign.pk)]}).json() == {"deleted": 1}
    assert client.post(url, {"all": True, "job_key": mine[1].job.job_key}).json() == {"deleted": 1}
    assert client.post(url, {"all": True}).json() == {"deleted": 1}
    assert client.post(url, {"every": True}).status_code == 400
    assert client.post(url, {}).json()["fields"].keys() == {"ids"}
    assert list(DeadLetter.objects.all()) == [foreign]
