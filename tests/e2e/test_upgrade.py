"""The version before works on with the new tables while the new one starts: no run is lost, none happens twice."""

from __future__ import annotations

import contextlib
import io
import os
import subprocess
import sys
import tarfile
from collections import Counter
from datetime import timedelta
from pathlib import Path

import httpx
import pytest
from django.db.migrations.loader import MigrationLoader

from croniq_site.kernel.clock import DatabaseClock
from scheduler.models import Run
from tests.e2e.installation import ROOT, START_SECONDS, Installation, free_port, installation
from tests.scheduler.planning.support import make_job, make_trigger
from tests.schema.additive import FIRST_RELEASE, is_after, ordered
from tests.support.database import database_url
from tests.support.polling import poll_until

pytestmark = [pytest.mark.realtime, pytest.mark.django_db(transaction=True), pytest.mark.timeout(400)]
RUNS = 4


def git(*arguments: str) -> bytes:
    done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, check=False)
    return done.stdout if done.returncode == 0 else b""


def candidates() -> list[str]:
    """The newest release; else the commit before the newest one with a migration that releases will know, whose tables
    are others; else the commits before this one, of which some may not start."""
    if release := git("describe", "--tags", "--abbrev=0", "HEAD^"):
        return release.decode().split()
    later = [
        f"{m.app_label}/migrations/{m.name}.py" for m in ordered(MigrationLoader(None)) if is_after(m, FIRST_RELEASE)
    ]
    others = git("log", "--max-count=1", "--diff-filter=A", "--format=%P", "HEAD", "--", *later) if later else b""
    return [*others.decode().split(), *git("rev-list", "--max-count=20", "HEAD^").decode().split()]


@pytest.fixture
def version_before(tmp_path) -> Path:
    """The tree of the first of the candidates that is here and starts at all."""
    for commit in candidates():
        tree = tmp_path / commit
        if not (packed := git("archive", "--format=tar", commit)):
            continue  # the history here does not reach so far
        with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
            archive.extractall(tree, filter="data")
        check = [sys.executable, str(tree / "manage.py"), "check"]
        env = {**os.environ, "DATABASE_URL": database_url(), "CRONIQ_DATA_DIR": str(tmp_path)}
        if subprocess.run(check, env=env, capture_output=True, check=False).returncode == 0:
            return tree
    return pytest.skip(
        "there is no git history here: that the version before works on with these tables was NOT checked"
    )


class Runner:
    """One that claims by hand, at whichever server, and remembers what it was given."""

    def __init__(self, key: str) -> None:
        self.headers = {"Authorization": f"ApiKey {key}"}
        self.given: Counter[str] = Counter()

    def work(self, base_url: str) -> int:
        """Claim what is due and complete it; return how many runs it has had so far."""
        body = {"runner_id": "by-hand", "instance_id": "one", "max_inflight": 5, "inflight": []}
        answer = httpx.post(f"{base_url}/v1/work/poll", json=body, headers=self.headers, timeout=60)
        assert answer.status_code == 200, answer.text
        for run in answer.json()["work"]:
            self.given[run["execution_id"]] += 1
            ack = {"runner_id": "by-hand", "execution_id": run["execution_id"], "attempt": run["attempt"]}
            done = httpx.post(
                f"{base_url}/v1/work/ack", json={**ack, "status": "success"}, headers=self.headers, timeout=60
            )
            assert done.status_code == 200, done.text
        return len(self.given)


def start(site: Installation, tree: Path) -> tuple[str, list[subprocess.Popen]]:
    """Server, materializer and reaper of that tree; return the server's address, and all of them."""
    url = f"http://127.0.0.1:{(port := free_port())}"
    commands = (f"serve --port {port}", "materialize", "reap")
    started = [site.start(sys.executable, str(tree / "manage.py"), *command.split()) for command in commands]

    def answers() -> bool:
        for process in started:
            assert process.poll() is None, site.log_of(process)
        with contextlib.suppress(httpx.TransportError):
            return httpx.get(f"{url}/health", timeout=5).status_code == 200
        return False

    poll_until(answers, START_SECONDS, what="the server answers /health")
    return url, started


def test_the_version_before_works_on_with_the_new_tables_until_the_new_one_takes_over(version_before, database):
    with installation((), serve=False) as site:
        runner = Runner(site.key())
        old_url, old = start(site, version_before)
        now = DatabaseClock().now()
        job = make_job(now, catch_up="all", max_queue_depth=10_000)
        make_trigger(job, now, every="1s")
        poll_until(lambda: runner.work(old_url) >= RUNS, 90, what="the version before plans, hands out and completes")
        if database == "sqlite":  # one server at a time
            assert site.stop(old[0]) == 0
        new_url, _ = start(site, ROOT)
        poll_until(lambda: runner.work(new_url) >= 2 * RUNS, 90, what="beside it, the new one does")
        for process in old:
            assert site.stop(process) == 0
        poll_until(lambda: runner.work(new_url) >= 3 * RUNS, 90, what="alone, it does")
        # Nothing was lost or done twice, on either side of the change.
        assert set(runner.given.values()) == {1}
        runs = Run.objects.filter(job=job, verdict="completed").order_by("scheduled_for")
        instants = list(runs.values_list("scheduled_for", flat=True))
        assert instants == [instants[0] + n * timedelta(seconds=1) for n in range(len(runner.given))]
        for process in site.processes:
            assert "Traceback" not in site.log_of(process), site.log_of(process)
