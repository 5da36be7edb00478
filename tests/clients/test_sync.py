"""`manage.py croniq_sync`: what the code declares is what Croniq has."""

from __future__ import annotations

import pytest
from croniq_tasks import scheduled
from croniq_tasks.management.commands import croniq_sync
from croniq_tasks.schedules import declared
from django.core.management import call_command
from django.core.management.base import CommandError

from scheduler.models import Job, Run, Trigger
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
    others = live()
    scheduled("5m", name="often")(tasks.report)
    scheduled("0 3 * * *")(tasks.send)
    assert sync(capsys) == [f"{KEY.format('often', 'report')}: 5m", f"{KEY.format('default', 'send')}: 0 3 * * *"]
    assert live() == others | {KEY.format("often", "report"), KEY.format("default", "send")}
    assert Job.objects.get(job_key=KEY.format("default", "send")).priority == 5
    del declared["tests.clients.depot.report", "often"]
    sync(capsys)
    assert KEY.format("often", "report") in live(), "without --prune nothing is deleted"
    assert sync(capsys, "--prune")[1:] == [f"{KEY.format('often', 'report')}: deleted"]
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
