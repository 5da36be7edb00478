"""A busy installation for the eyes: it is there at once, holds together, and never mixes with a real one."""

from __future__ import annotations

from io import StringIO

import pytest
from django.core.management import CommandError, call_command
from django.db.models import Count, F

from croniq_site.kernel.clock import ManualClock
from scheduler.management.commands import seed_demo as command
from scheduler.models import Attempt, DeadLetter, Job, QueueEntry, Run, Slot, Trigger
from scheduler.queries.fires import trigger_fires
from scheduler.services.materialize import materialize
from scheduler.services.rules import follow_rules, forget_rules
from tests.factories import RunFactory

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def clock(monkeypatch, now) -> None:
    monkeypatch.setattr(command, "DatabaseClock", lambda: ManualClock(now))


def seeded(**options) -> str:
    out = StringIO()
    call_command("seed_demo", stdout=out, **options)
    return out.getvalue()


def test_it_makes_what_was_asked_for_as_if_it_had_happened(now):
    said = seeded(jobs=25, runs=700)
    ended = Run.objects.filter(verdict__isnull=False)
    assert "Made 25 jobs, 700 runs" in said
    assert (Job.objects.count(), ended.count()) == (25, 700)
    assert set(ended.values_list("verdict", flat=True)) == {"completed", "dead", "skipped"}
    assert not ended.filter(scheduled_for__gt=now).exists()
    assert not ended.filter(finished_at__gt=now).exists()
    assert not ended.filter(claimed_at__lt=F("scheduled_for")).exists()
    earlier = Attempt.objects.filter(run__in=ended)
    assert earlier.exists()
    assert not earlier.filter(claimed_at__lt=F("run__scheduled_for")).exists()
    assert not earlier.filter(ended_at__gt=F("run__claimed_at")).exists()
    assert DeadLetter.objects.count() == ended.filter(verdict="dead").count() > 0
    assert not DeadLetter.objects.filter(fingerprint="").exists()
    # The instants are those of the schedules.
    trigger = Trigger.objects.annotate(runs=Count("job__runs")).order_by("-runs").select_related("job").first()
    fires = {fire.at for fire in trigger_fires(trigger, after=trigger.created_at, until=now)}
    instants = set(Run.objects.filter(job=trigger.job, kind="scheduled").values_list("scheduled_for", flat=True))
    assert instants
    assert instants <= fires


def test_what_runs_has_its_slots_and_what_waits_has_none(now):
    seeded(jobs=25, runs=0)
    assert QueueEntry.objects.filter(state=QueueEntry.State.CLAIMED).exists()
    waiting = QueueEntry.objects.filter(state=QueueEntry.State.GATED)
    assert waiting.exists()
    assert not Slot.objects.filter(run__entry__in=waiting).exists()
    assert Slot.objects.exists()


def test_the_materializer_goes_on_from_now_and_makes_up_for_nothing(now):
    forget_rules()
    seeded(jobs=12, runs=50)
    follow_rules(now)
    planned = {(run.scheduled_for > now, run.verdict) for run in materialize_and_read(now)}
    assert planned == {(True, None)}


def materialize_and_read(now) -> list[Run]:
    before = set(Run.objects.values_list("pk", flat=True))
    materialize(now)
    return list(Run.objects.exclude(pk__in=before))


@pytest.mark.parametrize(("option", "value"), [("jobs", 0), ("jobs", 5001), ("runs", -1)])
def test_what_is_too_much_or_nothing_is_refused(option, value):
    with pytest.raises(CommandError, match=f"{option} is a number"):
        seeded(**{option: value})


def test_it_never_mixes_with_real_runs(now):
    RunFactory(completed=True)
    with pytest.raises(CommandError, match="empty database"):
        seeded(jobs=1, runs=1)
    assert Job.objects.count() == 1
