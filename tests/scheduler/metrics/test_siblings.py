"""`serve --processes N`: whichever process is scraped tells what all have counted, and never less than before."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from scheduler.metrics import hot, siblings
from tests.e2e.installation import free_port, installation
from tests.factories import JobFactory
from tests.scheduler.metrics.scrapes import parsed, scraped
from tests.support.polling import poll_until

BY_STATUS = "django_http_responses_total_by_status_view_method_total"


@pytest.fixture
def shared(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path
    siblings.leave()


@pytest.mark.django_db
def test_what_all_have_counted_is_added_up(shared, clock):
    job = JobFactory(job_key="demo:a")
    for number in range(3):
        siblings.join(shared, number)
        hot.note_ended([(job.pk, "completed", 700)] * (number + 1))
        siblings.publish()
    scrape = scraped()  # of the last one
    assert scrape.value("croniq_runs_completed_total", job_key="demo:a", outcome="completed") == 6
    assert scrape.value("croniq_run_duration_seconds_count", job_key="demo:a") == 6
    assert scrape.value("croniq_run_duration_seconds_sum", job_key="demo:a") == pytest.approx(4.2)
    # What does not add up is of the process that answers.
    assert scrape.value("process_start_time_seconds") > 0


@pytest.mark.django_db
def test_what_was_told_is_written_down_before(shared, clock):
    JobFactory(pk=1, job_key="demo:a")

    def told() -> float | None:
        return scraped().value("croniq_runs_completed_total", job_key="demo:a", outcome="completed")

    siblings.join(shared, 0)
    siblings.publish()
    hot.note_ended([(1, "completed", 5)])
    assert told() == 1
    siblings.join(shared, 1)  # another process is met next
    assert told() == 1


@pytest.mark.realtime
@pytest.mark.django_db(transaction=True)
def test_two_real_processes_tell_the_same_and_it_never_falls(database):
    if database != "postgresql":
        pytest.skip("SQLite is served by one process")
    with installation(processes=(), serve=False) as site:
        port = free_port()
        base = f"http://127.0.0.1:{port}"
        server = site.start("serve", "--port", str(port), "--processes", "2")
        site.wait_for_server(base)
        sent, told = 0, []

        def all_is_told() -> bool:
            nonlocal sent
            for _ in range(5):  # each on a connection of its own, which either process may accept
                assert httpx.get(f"{base}/version").status_code == 200
                sent += 1
            scrape = parsed(httpx.get(f"{base}/metrics").text)
            told.append(scrape.value(BY_STATUS, status="200", view="version", method="GET") or 0.0)
            return len(told) >= 20 and told[-1] > sent / 2

        poll_until(all_is_told, 40, what="both processes are told of")
        poll_until(
            lambda: (
                parsed(httpx.get(f"{base}/metrics").text).value(BY_STATUS, status="200", view="version", method="GET")
                == sent
            ),
            40,
            what="whoever is asked has written down and added up everything",
        )
        assert told == sorted(told)
        assert site.stop(server) == 0
