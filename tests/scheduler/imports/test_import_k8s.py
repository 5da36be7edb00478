"""`manage.py import_k8s`: CronJobs become jobs once, and what an import is run for is there afterwards."""

from __future__ import annotations

import io
import sys
from pathlib import Path

import pytest
from django.core.management.base import CommandError

from runners.models import AuditEvent
from scheduler.models import Job, Trigger
from tests.scheduler.imports.support import run, snapshot
from tests.scheduler.imports.test_k8s import KUBECTL
from tests.scheduler.planning.support import make_job

pytestmark = pytest.mark.django_db

SIMPLE = """
apiVersion: batch/v1
kind: CronJob
metadata: {name: simple}
spec:
  schedule: "SCHEDULE"
  jobTemplate: {spec: {template: {spec: {containers: [{name: c, command: ["COMMAND"]}]}}}}
"""


@pytest.fixture
def simple(tmp_path: Path):
    def write(schedule: str = "0 3 * * *", command: str = "true", name: str = "simple") -> str:
        path = tmp_path / f"{name}.yaml"
        path.write_text(SIMPLE.replace("SCHEDULE", schedule).replace("COMMAND", command).replace("simple", name))
        return str(path)

    return write


def test_what_kubectl_prints_becomes_jobs_and_again_changes_nothing() -> None:
    out = run("import_k8s", str(KUBECTL))
    assert "2 CronJobs taken (2 created, 0 changed, 0 unchanged), 1 not taken." in out
    assert "not taken  kubectl.yaml, document 1, item 3: entrypoint" in out
    job = Job.objects.get(job_key="k8s:ops:backup")
    assert (job.timeout_seconds, job.max_retries, job.max_losses, job.overlap) == (7200, 2, 0, "skip")
    assert (job.catch_up, job.misfire_grace_seconds, job.managed_by, job.tags) == ("latest", 600, "k8s", ["k8s"])
    assert (job.retry_base_seconds, job.retry_cap_seconds, job.retry_jitter) == (10, 360, 0)
    assert job.action["env"]["PGPASSWORD"] == {"secret": "DB_CREDENTIALS_PASSWORD"}
    (trigger,) = job.triggers.all()
    assert (trigger.cron_expression, trigger.timezone) == ("30 2 * * *", "Europe/Vienna")
    assert Job.objects.get(job_key="k8s:web:ping").is_active is False
    before = snapshot()
    assert "(0 created, 0 changed, 2 unchanged)" in run("import_k8s", str(KUBECTL))
    assert snapshot() == before


def test_a_dry_run_says_what_would_be_and_writes_nothing() -> None:
    out = run("import_k8s", str(KUBECTL), "--dry-run")
    assert not Job.objects.exists()
    assert not AuditEvent.objects.exists()
    assert "would be created k8s:ops:backup" in out
    assert "at 02:30, Europe/Vienna" in out
    assert "ops/backup: pg_dump -Fc" in out
    (fires,) = (line for line in out.splitlines() if " next " in line and "02:30" in line)
    assert fires.count(" 02:30 CE") == 3
    assert "2 CronJobs would be taken (2 created" in out


def test_a_dry_run_says_what_would_be_refused_by_whoever_saves_it(simple) -> None:
    late = Path(simple())
    late.write_text(late.read_text().replace("spec:\n", "spec:\n  startingDeadlineSeconds: 0\n", 1))
    with pytest.raises(CommandError, match="Nothing could be taken"):
        run("import_k8s", str(late), "--dry-run")
    out = run("import_k8s", str(late), simple(name="other"), "--dry-run")
    assert "not taken  simple.yaml, document 1: default/simple: true\n           misfire_grace" in out
    assert "would be created k8s:default:other" in out
    assert "1 CronJobs would be taken (1 created, 0 changed, 0 unchanged), 1 not taken." in out


def test_an_edited_manifest_changes_command_and_schedule_and_leaves_the_rest(simple) -> None:
    run("import_k8s", simple())
    Job.objects.update(max_retries=9, is_active=False)
    assert "changed    k8s:default:simple" in run("import_k8s", simple("@every 10m", "false"))
    job, trigger = Job.objects.get(), Trigger.objects.get()
    assert (job.action["argv"], job.max_retries, job.is_active) == (["false"], 9, False)
    assert (trigger.kind, trigger.every.total_seconds(), trigger.cron_expression) == ("interval", 600, "")
    before = snapshot()
    assert "1 unchanged" in run("import_k8s", simple("@every 10m", "false"))
    assert snapshot() == before


def test_a_handler_has_no_command_and_needs_what_the_options_say(simple) -> None:
    run("import_k8s", simple(), "--handler", "--require", "reports", "--pin", "r1", "--tenant", "acme", "--prefix", "p")
    job = Job.objects.get()
    assert (job.job_key, job.tenant, job.action, job.require, job.pin) == (
        "p:default:simple",
        "acme",
        {},
        ["reports"],
        "r1",
    )
    assert job.metadata == {"containers": [{"name": "c", "command": ["true"]}]}


def test_what_an_earlier_import_of_the_namespace_made_is_named_when_it_is_gone(simple) -> None:
    run("import_k8s", simple(name="a"), simple(name="b"))
    out = run("import_k8s", simple(name="b"))
    assert "left       k8s:default:a" in out
    assert "left       k8s:default:b" not in out
    assert Job.objects.filter(is_active=True).count() == 2


def test_a_job_of_somebody_else_is_not_touched(simple, now) -> None:
    make_job(now, "k8s:default:simple", description="mine")
    with pytest.raises(CommandError, match="Nothing could be taken"):
        run("import_k8s", simple())
    assert Job.objects.get().description == "mine"


def test_one_file_that_cannot_be_read_takes_no_other_along(simple, tmp_path: Path) -> None:
    broken = tmp_path / "broken.yaml"
    broken.write_text("a: [\n")
    out = run("import_k8s", str(broken), simple())
    assert "not taken  broken.yaml\n           line 2: it is no YAML" in out
    assert "1 CronJobs taken" in out
    with pytest.raises(CommandError, match="Not every CronJob could be taken"):
        run("import_k8s", str(broken), simple(), "--strict")
    with pytest.raises(CommandError, match="cannot be read"):
        run("import_k8s", str(tmp_path / "none.yaml"))


def test_standard_input_is_a_file_too(simple, monkeypatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(Path(simple()).read_bytes())))
    assert "1 CronJobs taken" in run("import_k8s", "-")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--timezone", "Europe/Berln"], "timezone: There is no time zone"),
        (["--prefix", "a:b"], "prefix"),
        (["--namespace", "a/b"], "prefix"),
        (["--tenant", "No Slug"], "tenant"),
    ],
)
def test_wrong_options_are_refused_by_name(simple, arguments: list[str], says: str) -> None:
    with pytest.raises(CommandError) as refused:
        run("import_k8s", simple(), *arguments)
    assert says in str(refused.value)
