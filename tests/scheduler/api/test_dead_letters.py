"""/v1/dead-letters."""

from __future__ import annotations

from datetime import timedelta
from uuid import uuid4

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
