"""Each rare event is on `/metrics` of another process than the one it happened in, at its next scrape.

On PostgreSQL runners speak to one server and another is scraped. SQLite has one server: there the one that is scraped
was started after all of it.
"""

from __future__ import annotations

from datetime import timedelta
from itertools import count

import httpx
import pytest

from croniq_site.kernel.clock import DatabaseClock
from runners.models import Runner, RunnerInstance
from scheduler.models import DeadLetter, QueueEntry, Run
from scheduler.workers.pruner import prune
from tests.e2e.installation import Installation, free_port, installation
from tests.scheduler.metrics.scrapes import Scrape, parsed
from tests.support.polling import poll_until

pytestmark = [pytest.mark.realtime, pytest.mark.django_db(transaction=True), pytest.mark.timeout(180)]

RARE = {
    ("croniq_runner_takeovers_total",): 3,
    ("croniq_runner_identity_flapping_total",): 1,
    ("croniq_runner_flapping", "runner_id", "shared"): 1,
    ("croniq_runner_identity_rejected_total",): 1,
    ("croniq_runs_lost_total", "cause", "lease"): 1,
    ("croniq_runs_lost_total", "cause", "takeover"): 1,
    ("croniq_runs_buried_total",): 1,
    ("croniq_runs_failed_total", "job_key", "demo:frail"): 1,
}


def told(scrape: Scrape) -> dict[tuple[str, ...], float | None]:
    found = {}
    for name, *label in RARE:
        values = scrape.of(name, label[0]) if label else {"": scrape.value(name)}
        if name == "croniq_runs_failed_total":
            values = {label[1]: scrape.value(name, job_key=label[1], outcome="dead")}
        found[name, *label] = values.get(label[1] if label else "")
    return found


def second_server(site: Installation, database: str) -> str:
    if database == "sqlite":
        site.processes[0].terminate()
        assert site.processes.pop(0).wait(20) == 0
    port = free_port()
    site.start("serve", "--port", str(port))
    site.wait_for_server(f"http://127.0.0.1:{port}")
    return f"http://127.0.0.1:{port}"


def test_each_event_is_told_by_a_process_that_it_did_not_happen_in(database, settings):
    instances = count()
    with installation(processes=()) as site:
        key, strange = site.key(), site.key("work:poll")

        def poll(key: str = key, **more) -> httpx.Response:
            body = {"runner_id": "shared", "instance_id": f"i{next(instances)}", "capabilities": [], **more}
            return httpx.post(f"{site.base_url}/v1/work/poll", json=body, headers={"authorization": f"ApiKey {key}"})

        def trigger(job_key: str, **fields) -> None:
            with site.http(key) as api:
                assert api.post("/v1/jobs", json={"job_key": job_key, **fields}).status_code == 201
                assert api.post("/v1/trigger", json={"job_key": job_key}).status_code == 200

        if database == "postgresql":
            scraped_at = second_server(site, database)
        # A claim that the next process of the runner takes over, then two more of those: a third within ten minutes.
        trigger("demo:taken")
        assert len(poll().json()["work"]) == 1
        for _ in range(3):
            assert poll(max_inflight=0).status_code == 200
        assert poll(strange).status_code == 403
        # A claim whose lease runs out, and which had no attempt but that one.
        QueueEntry.objects.all().delete()
        trigger("demo:frail", max_retries=0, max_losses=0, lease="5s")
        frail = httpx.post(
            f"{site.base_url}/v1/work/poll",
            json={"runner_id": "frail", "instance_id": "i", "capabilities": []},
            headers={"authorization": f"ApiKey {key}"},
        )
        assert len(frail.json()["work"]) == 1
        entry = QueueEntry.objects.get()
        poll_until(lambda: DatabaseClock().now() > entry.lease_expires_at, 30, what="the lease runs out")
        assert site.start("reap", "--once").wait(60) == 0
        site.processes.pop()
        assert not QueueEntry.objects.exists()
        if database == "sqlite":
            scraped_at = second_server(site, database)
        assert RunnerInstance.objects.filter(deposed_at__isnull=False).count() == 3
        assert told(parsed(httpx.get(f"{scraped_at}/metrics").text)) == RARE

        # Whatever is thrown away afterwards lowers none of them, whoever is asked.
        for kept in ("RUN", "LOG", "RUNNER", "AUDIT"):
            setattr(settings, f"CRONIQ_{kept}_RETENTION_SECONDS", 1.0)
        DeadLetter.objects.all().delete()
        gone = prune(DatabaseClock().now() + timedelta(days=30))
        assert not Run.objects.filter(verdict__isnull=False).exists()
        assert not Runner.objects.exists(), gone
        never_fall = {name: count for name, count in RARE.items() if name[0].endswith("_total")}
        for server in {site.base_url if database == "postgresql" else scraped_at, scraped_at}:
            after = told(parsed(httpx.get(f"{server}/metrics").text))
            assert {name: after[name] for name in never_fall} == never_fall
