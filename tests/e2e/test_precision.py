"""The 888: a job of five seconds for two real minutes, with real processes and a clock that moves."""

from __future__ import annotations

import threading
from datetime import timedelta

import pytest

from scheduler.models import QueueEntry, Run, Trigger
from tests.e2e.installation import installation

pytestmark = [pytest.mark.realtime, pytest.mark.django_db(transaction=True), pytest.mark.timeout(240)]

REAL_SECONDS = 120


@pytest.mark.parametrize("materializers", [1, 2, 4])
def test_a_five_second_job_makes_24_runs_in_two_minutes(materializers):
    with installation(["materialize"] * materializers + ["reap"]) as site, site.http(site.key()) as api:
        assert api.post("/v1/jobs", json={"job_key": "real:five"}).status_code == 201
        assert api.post("/v1/schedules", json={"job_key": "real:five", "every": "5s"}).status_code == 201
        done: list[str] = []
        over = threading.Event()
        timer = threading.Timer(REAL_SECONDS, over.set)
        timer.start()
        while not over.is_set():
            answer = api.post(
                "/v1/work/poll", json={"runner_id": "r", "instance_id": "i", "max_inflight": 5}, timeout=40
            )
            for work in answer.json()["work"]:
                body = {"runner_id": "r", "execution_id": work["execution_id"], "status": "success", "attempt": 1}
                assert api.post("/v1/work/ack", json=body).status_code == 200
                done.append(work["scheduled_for"])
        timer.cancel()
    # The poll that was open at the end may have waited for one more.
    assert 23 <= len(done) <= 25
    assert len(set(done)) == len(done)
    anchor = Trigger.objects.get().anchor_at
    runs = list(Run.objects.order_by("scheduled_for").values_list("scheduled_for", flat=True))
    assert all((at - anchor) % timedelta(seconds=5) == timedelta(0) for at in runs)
    assert runs == [anchor + timedelta(seconds=5) * k for k in range(1, len(runs) + 1)]
    # What is not done is planned for later, not overdue.
    assert QueueEntry.objects.count() == len(runs) - len(done)
