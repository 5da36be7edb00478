"""`manage.py croniq_sync`: what the code declares is what Croniq has."""

from __future__ import annotations

import httpx
import pytest
from croniq_tasks import scheduled
from croniq_tasks.compat import TaskResultDoesNotExist
from croniq_tasks.management.commands import croniq_sync, croniq_worker
from croniq_tasks.schedules import declared
from django.core.management import call_command
from django.core.management.base import CommandError

from scheduler.models import Job, QueueEntry, Run, Trigger
from tests.clients import depot as tasks
from tests.factories import CalendarFactory, JobFactory

KEY = "depot-schedule:{}:tests.clients.depot.{}"


def sync(capsys, *argv: str) -> list[str]:
    call_command(croniq_sync.Command(), *argv)
    return capsys.readouterr().out.splitlines()


def live() -> set[str]:
    return set(Job.objects.filter(deleted_at__isnull=True).values_list("job_key", flat=True))


def test_what_is_gone_is_deleted_with_prune_and_nothing_else_is(depot, capsys):
    depot()
    tasks.pack.enqueue()
    # Somebody else's, with our tag; and ours of another prefix.
    JobFactory(job_key="ops:nightly", tags=["depot-schedule"])
    JobFactory(job_key="depot-two-schedule:default:a.b", tags=["depot-two-schedule", "django-task"])
    # Another backend of this project, which is the same project to Croniq.
    scheduled("1h", name="there")(tasks.report.using(backend="other"))
    sync(capsys, "--backend", "other")
    others = live()
    assert KEY.format("there", "report") in others
    scheduled("5m", name="often#2")(tasks.report)
    scheduled("0 3 * * *")(tasks.send)
    assert sync(capsys) == [f"{KEY.format('often#2', 'report')}: 5m", f"{KEY.format('default', 'send')}: 0 3 * * *"]
    assert live() == others | {KEY.format("often#2", "report"), KEY.format("default", "send")}
    assert Job.objects.get(job_key=KEY.format("default", "send")).priority == 5
    del declared["tests.clients.depot.report", "often#2"]
    sync(capsys)
    assert KEY.format("often#2", "report") in live(), "without --prune nothing is deleted"
    assert sync(capsys, "--prune")[1:] == [f"{KEY.format('often#2', 'report')}: deleted"]
    assert live() == others | {KEY.format("default", "send")}


def test_the_same_again_changes_nothing_and_what_is_dropped_is_gone(depot, capsys):
    depot()
    CalendarFactory(name="austria", tenant="default")
    scheduled("0 3 * * *", timezone="Europe/Vienna", calendar="austria", args=["EUR"])(tasks.report)
    sync(capsys)
    trigger = Trigger.objects.get()
    assert (trigger.timezone, trigger.calendar.name) == ("Europe/Vienna", "austria")
    runs = set(Run.objects.values_list("pk", flat=True))
    sync(capsys)
    assert Trigger.objects.get().updated_at == trigger.updated_at
    assert set(Run.objects.values_list("pk", flat=True)) == runs
    declared.clear()
    scheduled("0 4 * * *")(tasks.report)
    sync(capsys)
    changed = Trigger.objects.get()
    assert (changed.pk, changed.timezone, changed.calendar) == (trigger.pk, "", None)
    assert changed.cron_expression == "0 4 * * *"
    sync(capsys)
    assert Trigger.objects.get().updated_at == changed.updated_at
    assert Job.objects.get().metadata["django_task"]["args"] == []


def test_what_is_wrong_with_one_is_told_with_its_name_and_the_others_are_made(depot, capsys):
    depot()
    JobFactory(job_key="depot-schedule:gone:a.b", tags=["depot-schedule"])
    scheduled("61 * * * *", name="bad")(tasks.report)
    scheduled("5m", timezone="Europe/Wien")(tasks.report)
    scheduled("2h", name="good")(tasks.report)
    with pytest.raises(CommandError) as refused:
        sync(capsys, "--prune")
    bad, zone = str(refused.value).splitlines()
    assert bad.startswith(f"{KEY.format('bad', 'report')}: Croniq refused: 400 schedule: 61 is not in 0-59")
    assert zone.startswith(f"{KEY.format('default', 'report')}: Croniq refused: 400 timezone: ")
    assert Trigger.objects.get().job.job_key == KEY.format("good", "report")
    assert "depot-schedule:gone:a.b" in live(), "nothing is deleted by a declaration that is wrong"


def test_a_result_whose_schedule_is_gone_does_not_exist(depot, capsys):
    backend = depot()
    scheduled("1m", args=[5])(tasks.pack)
    sync(capsys)
    run = Run.objects.first()
    assert backend.get_result(str(run.pk)).args == [5]
    declared.clear()
    Run.objects.update(verdict="skipped", problem="skipped", finished_at=run.scheduled_for)  # what is over stays
    QueueEntry.objects.all().delete()
    sync(capsys, "--prune")
    with pytest.raises(TaskResultDoesNotExist):
        backend.get_result(str(run.pk))


def test_what_another_has_deleted_meanwhile_is_gone_too(depot, wire, capsys):
    depot()
    scheduled("1h")(tasks.report)
    sync(capsys)
    declared.clear()
    mine = wire.handle_request

    def late(request: httpx.Request) -> httpx.Response:
        if request.method == "DELETE":
            mine(request)
        return mine(request)

    wire.handle_request = late
    assert sync(capsys, "--prune") == []
    assert live() == set()


def test_a_priority_that_is_dropped_is_gone(depot, capsys):
    depot()
    scheduled("2h")(tasks.report.using(priority=7))
    sync(capsys)
    declared.clear()
    scheduled("2h")(tasks.report)
    sync(capsys)
    assert Job.objects.get().priority == 0


def test_a_server_that_is_away_and_a_backend_that_is_none_are_told_in_a_sentence(depot, wire, monkeypatch):
    monkeypatch.setattr("croniq_tasks.api.PATIENCE_SECONDS", -1)
    depot()
    scheduled("2h")(tasks.report)
    wire.faults = [httpx.ConnectError("refused")]
    with pytest.raises(CommandError, match="http://testserver does not answer: refused"):
        call_command(croniq_sync.Command())
    for command in (croniq_sync, croniq_worker):
        with pytest.raises(CommandError, match="default, other; not nope"):
            call_command(command.Command(), "--backend", "nope")
    with pytest.raises(CommandError, match="allow_insecure_http is one of the backend's OPTIONS"):
        call_command(croniq_worker.Command(), "--runner-id", "w")


@pytest.mark.parametrize(
    ("argv", "says"),
    [
        (["--queue", "mial"], "default, mail; not mial"),
        (["--concurrency", "0"], "at least 1"),
        (["--drain-timeout", "nan"], "0 or more"),
        (["--drain-timeout", "-1"], "0 or more"),
        ([], "QUEUES is empty"),
    ],
)
def test_a_worker_that_is_told_nonsense_does_not_begin(depot, argv, says):
    backend = depot()
    if not argv:
        backend.queues = set()
    with pytest.raises(CommandError, match=says):
        call_command(croniq_worker.Command(), *argv)


def test_a_refusal_is_told_in_a_sentence(depot):
    depot("jobs:read", "jobs:write")
    scheduled("2h")(tasks.report)
    with pytest.raises(CommandError, match=r"403 .*jobs:register"):
        call_command(croniq_sync.Command())


def test_a_schedule_has_a_task_and_a_name(depot):
    depot()
    scheduled("2h")(tasks.report)
    with pytest.raises(ValueError, match="name of its own"):
        scheduled("3h")(tasks.report)
    with pytest.raises(TypeError, match="above @task"):
        scheduled("3h")(len)
