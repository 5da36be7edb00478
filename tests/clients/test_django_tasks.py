"""`clients/django-tasks` in its example project: a Django of its own, in processes of its own, a real server.

``CRONIQ_TASKS_PYTHON``: the interpreter of those processes, for other versions of Django (see docs/testing.md).
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from datetime import datetime
from pathlib import Path
from uuid import UUID

import pytest

from scheduler.models import Job, QueueEntry, Run, RunLog
from tests.e2e.installation import PATIENCE_SECONDS, ROOT, installation
from tests.support.polling import poll_until

pytestmark = [pytest.mark.realtime, pytest.mark.django_db(transaction=True), pytest.mark.timeout(300)]
CLIENT = ROOT / "clients/django-tasks"
PYTHON = os.environ.get("CRONIQ_TASKS_PYTHON", sys.executable)
PRODUCER = """
import json, sys
from datetime import timedelta
from django.utils import timezone
from shop import tasks
from tests.clients.warehouse.tasks import drop
soon = tasks.attempt_number.using(run_after=timezone.now() + timedelta(seconds=2), priority=9)
calls = [(tasks.total, ([9.5, 3],), {"discount": 0.5}), (tasks.confirm, (7,), {}), (tasks.charge, (8,), {}),
         (soon, (), {}), (drop, (), {})]
ids = [task.enqueue(*args, **kwargs).id for task, args, kwargs in calls]
print(json.dumps([*ids, soon.run_after.isoformat()]))
"""
READER = """
import json, sys
from croniq_tasks.compat import task_backends
result = task_backends["default"].get_result(sys.argv[1])
print(json.dumps({
    "path": result.task.module_path, "status": result.status, "args": result.args, "kwargs": result.kwargs,
    "value": result.return_value if result.status == "SUCCESSFUL" else None,
    "errors": [[error.exception_class.__name__, error.traceback] for error in result.errors],
    "attempts": result.attempts, "finished": result.finished_at is not None, "workers": result.worker_ids,
}))
"""


LOSES_AN_ANSWER = """
import json, os, httpx
from shop import tasks
answers = []
class Lossy(httpx.HTTPTransport):
    def handle_request(self, request):
        answer = super().handle_request(request)
        answers.append(request.url.path)
        if len(answers) == 1:
            answer.close()
            raise httpx.ReadError("lost")
        return answer
api = tasks.total.get_backend().api
api._client = os.getpid(), httpx.Client(base_url=api._url, headers=api._http().headers, transport=Lossy())
id = tasks.total.enqueue([1]).id
print(json.dumps({"id": id, "answers": answers.count("/v1/trigger")}))
"""


class Shop:
    """The example project, with the keys that its README says: of a producer, of a worker, of a deployment."""

    def __init__(self, site, directory: Path) -> None:
        self.site = site
        self.worker_key = site.key("work:poll", "work:ack", "work:renew", "work:events")
        self.sync_key = site.key("jobs:read", "jobs:write", "jobs:register", "schedules:write")
        self.env = {
            "CRONIQ_URL": site.base_url,
            "CRONIQ_API_KEY": site.key("jobs:trigger", "jobs:write", "jobs:read", "executions:read"),
            "SHOP_DATABASE": str(directory / "shop.sqlite3"),
            "DJANGO_SETTINGS_MODULE": "tests.clients.warehouse.settings",
            "PYTHONPATH": os.pathsep.join([str(CLIENT), str(CLIENT / "example"), str(ROOT)]),
            "CRONIQ_RUNNER_DATA_DIR": str(directory),
        }

    def manage(self, key: str, *argv: str) -> subprocess.CompletedProcess[str]:
        command = [PYTHON, str(CLIENT / "example/manage.py"), *argv]
        env = {**self._clean(), **self.env, "CRONIQ_API_KEY": key}
        return subprocess.run(command, env=env, capture_output=True, text=True, check=False)

    def says(self, code: str, *argv: str):
        whole = f"import django; django.setup()\n{code}"
        command = [PYTHON, "-c", whole, *argv]
        done = subprocess.run(command, env={**self._clean(), **self.env}, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    def work(self, *argv: str) -> subprocess.Popen:
        env = {**self.env, "CRONIQ_API_KEY": self.worker_key}
        return self.site.start(PYTHON, str(CLIENT / "example/manage.py"), "croniq_worker", *argv, **env)

    def result(self, run_id: str):
        return self.says(READER, run_id)

    @staticmethod
    def _clean() -> dict[str, str]:
        return {name: value for name, value in os.environ.items() if not name.startswith(("CRONIQ_", "DATABASE_URL"))}


@pytest.fixture
def shop(tmp_path, database):
    if database != "postgresql":
        pytest.skip("the client knows HTTP alone; what the server's database is it cannot tell")
    with installation() as site:
        yield Shop(site, tmp_path)


def test_tasks_of_a_django_project_are_run_and_scheduled_by_croniq(shop):
    total, confirm, charge, attempt, drop, run_after = shop.says(PRODUCER)
    assert shop.result(total) | {"status": ""} == {
        "path": "shop.tasks.total",
        "status": "",
        "args": [[9.5, 3]],
        "kwargs": {"discount": 0.5},
        "value": None,
        "errors": [],
        "attempts": 0,
        "finished": False,
        "workers": [],
    }
    synced = shop.manage(shop.sync_key, "croniq_sync")
    assert synced.returncode == 0, synced.stderr
    assert synced.stdout == "shop-schedule:often:shop.tasks.report: 2s\n"
    again = shop.manage(shop.sync_key, "croniq_sync", "--prune")
    assert again.stdout == synced.stdout, "what is the same is left alone"

    worker, post = shop.work("--queue", "default"), shop.work("--queue", "mail")
    ids = [total, confirm, charge, attempt, drop]
    poll_until(
        lambda: not Run.objects.filter(pk__in=ids, verdict__isnull=True).exists(),
        PATIENCE_SECONDS,
        what="all five tasks have ended",
    )
    assert shop.result(total)["value"] == 6.25
    assert shop.result(total)["attempts"] == 1
    assert shop.result(confirm)["value"] == "order 7 is on its way"
    soon = shop.result(attempt)
    later = Run.objects.get(pk=attempt)
    assert (soon["value"], later.job.priority) == (1, 9)
    assert later.claimed_at >= datetime.fromisoformat(run_after)
    posted = shop.result(confirm)["workers"]
    assert (len(posted), set(posted) & set(soon["workers"])) == (1, set()), "each queue has its worker"
    dropped = shop.result(drop)["errors"]
    assert [(name, "half ?" in told) for name, told in dropped] == [("ValueError", True)]
    assert "half ?" in RunLog.objects.filter(run_id=drop).values_list("message", flat=True)
    failed = shop.result(charge)
    assert (failed["status"], failed["finished"]) == ("FAILED", True)
    ((name, traceback),) = failed["errors"]
    assert name == "ValueError"
    assert "in charge" in traceback
    assert "the card of order 8 was refused" in traceback
    run = Run.objects.get(pk=charge)
    assert run.error == "builtins.ValueError: the card of order 8 was refused"

    said = RunLog.objects.filter(run_id=total).order_by("id").values_list("level", "message")
    assert list(said) == [("warn", "adding 2 prices"), ("info", "6.25")]

    scheduled = poll_until(
        lambda: Run.objects.filter(job__job_key="shop-schedule:often:shop.tasks.report", verdict="completed").first(),
        PATIENCE_SECONDS,
        what="the schedule has fired and its task has ended",
    )
    value = shop.result(str(scheduled.pk))["value"]
    assert value == f"EUR until {scheduled.scheduled_for.isoformat()}"

    for process in (worker, post):
        assert shop.site.stop(process, signal.SIGTERM) == 0, shop.site.log_of(process)
    poor = shop.manage(shop.sync_key, "croniq_worker")
    assert (poor.returncode, "lacks the scope work:poll" in poor.stderr) == (1, True), poor.stderr


def test_a_lost_answer_makes_no_second_run_and_only_declared_tasks_of_installed_apps_are_run(shop):
    Path(shop.env["CRONIQ_RUNNER_DATA_DIR"], "outside.py").write_text("raise SystemExit('imported')\n")
    (known,) = shop.says("import json\nfrom shop import tasks\nprint(json.dumps([tasks.total.enqueue([]).id]))")
    second = shop.says(LOSES_AN_ANSWER)
    assert second["answers"] == 2
    assert set(Run.objects.values_list("id", flat=True)) == {UUID(known), UUID(second["id"])}
    shop.work()
    with shop.site.http(shop.env["CRONIQ_API_KEY"]) as api:
        refused = {}
        for path in ("outside.anything", "shop.tasks.log.warning", "shop.tasks.gone", "os.system"):
            call = {"django_task": {"path": path, "args": [], "kwargs": {}}}
            body = {"job_key": Job.objects.get().job_key, "metadata": call}
            refused[path] = api.post("/v1/trigger", json=body).json()["execution_id"]
    poll_until(
        lambda: not Run.objects.filter(pk__in=[known, *refused.values()], verdict__isnull=True).exists(),
        PATIENCE_SECONDS,
        what="all have ended",
    )
    assert Run.objects.get(pk=known).verdict == "completed"
    errors = {path: Run.objects.get(pk=run_id).error for path, run_id in refused.items()}
    assert errors["outside.anything"] == "'outside.anything' is in none of the installed apps."
    assert errors["os.system"] == "'os.system' is in none of the installed apps."
    assert errors["shop.tasks.log.warning"].startswith("'shop.tasks.log.warning' is not there")
    assert errors["shop.tasks.gone"].startswith("'shop.tasks.gone' is not there")


def test_a_cancelled_run_is_its_tasks_until_its_thread_has_ended_and_what_a_worker_leaves_is_run_again(shop, tmp_path):
    enqueues = f"id = tasks.pack.enqueue({str(tmp_path)!r}).id"
    call = f"import json\nfrom tests.clients.warehouse import tasks\n{enqueues}\nprint(json.dumps(id))"
    begun, may_end = tmp_path / "begun", tmp_path / "may-end"
    run_id = shop.says(call)
    worker = shop.work()
    poll_until(begun.exists, PATIENCE_SECONDS, what="the task has begun")
    with shop.site.http(shop.site.key()) as api:
        assert api.post(f"/v1/executions/{run_id}/cancel").json()["delivered_via_runner"] is True
        # The answer that brings the next task brings the cancel, or comes after it; so does that of the one after it.
        for _ in range(3):
            later = shop.says("import json\nfrom shop import tasks\nprint(json.dumps(tasks.total.enqueue([]).id))")
            poll_until(
                lambda run_id=later: Run.objects.filter(pk=run_id, verdict="completed").exists(),
                PATIENCE_SECONDS,
                what="another task has ended",
            )
        assert QueueEntry.objects.filter(run_id=run_id, state=QueueEntry.State.STOPPING).exists()
        may_end.touch()
        poll_until(lambda: not QueueEntry.objects.filter(run_id=run_id).exists(), PATIENCE_SECONDS, what="it is over")
    assert shop.result(run_id)["errors"][0][0] == "EndedWithoutException"

    # Killed, and ended in the middle for want of time: the next worker has its name, and so its runs, at once.
    for path in (begun, may_end):
        path.unlink()
    run_id = shop.says(call)
    poll_until(begun.exists, PATIENCE_SECONDS, what="the task has begun")
    assert shop.result(run_id)["status"] == "RUNNING"
    shop.site.stop(worker, signal.SIGKILL)
    begun.unlink()
    worker = shop.work("--drain-timeout", "0")
    poll_until(begun.exists, PATIENCE_SECONDS, what="the task has begun again")
    assert shop.site.stop(worker, signal.SIGTERM) == 1, shop.site.log_of(worker)
    assert f"left to other workers: {run_id}" in shop.site.log_of(worker)
    may_end.touch()
    shop.work()
    poll_until(lambda: Run.objects.get(pk=run_id).verdict, PATIENCE_SECONDS, what="it has ended")
    result = shop.result(run_id)
    assert (result["status"], result["value"], result["attempts"]) == ("SUCCESSFUL", "packed", 3)
