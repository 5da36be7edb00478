"""What the admin does to the rows that somebody ticks: by the services; what they refuse is told as refused."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.contrib import admin
from django.contrib.auth.models import Group, User
from django.test import Client, RequestFactory
from django.urls import reverse

from runners.models import AuditEvent
from scheduler.admin import actions
from scheduler.models import DeadLetter, Job, QueueEntry, Run, Trigger
from tests.factories import (
    DeadLetterFactory,
    JobFactory,
    QueueEntryFactory,
    RunFactory,
    TriggerFactory,
)

pytestmark = pytest.mark.django_db


def person(role: str) -> Client:
    user = User.objects.create_user(role, is_staff=True)
    user.groups.set(Group.objects.filter(name=role))
    client = Client()
    client.force_login(user)
    return client


@pytest.fixture
def operator() -> Client:
    return person("operator")


def do(client: Client, what: str, *rows: object, **more: str) -> list[str]:
    """Do it to the rows; what the list says afterwards, with the kind of each message."""
    model = type(rows[0])._meta.model_name
    form = {"action": what, "_selected_action": [str(row.pk) for row in rows], **more}
    answer = client.post(reverse(f"admin:scheduler_{model}_changelist"), form, follow=True)
    assert answer.status_code == 200
    return [f"{message.level_tag}: {message}" for message in answer.context["messages"]]


def told() -> list[tuple[str, str, str]]:
    return list(AuditEvent.objects.order_by("pk").values_list("action", "target_id", "actor_id"))


def test_jobs_are_paused_with_a_reason_and_go_on(operator: Client, now):
    jobs = [JobFactory(job_key=f"ops:{name}") for name in "ab"]
    old = JobFactory(job_key="ops:old", paused_at=now - timedelta(days=1), paused_reason="before")
    said = do(operator, "pause", *jobs, old, reason=" a new disk ")
    assert said == ["success: 2 jobs are paused.", "warning: Nothing changed for 1 of them."]
    assert {job.paused_reason for job in Job.objects.all()} == {"a new disk", "before"}
    assert told() == [("job.paused", "ops:a", "operator"), ("job.paused", "ops:b", "operator")]
    assert do(operator, "resume", *jobs) == ["success: 2 jobs go on."]
    assert not Job.objects.filter(pk__in=[job.pk for job in jobs], paused_at__isnull=False).exists()


def test_what_is_refused_is_told_and_is_no_success(operator: Client, now):
    gone = JobFactory(job_key="ops:a", deleted_at=now)
    living = JobFactory(job_key="ops:a")
    for what in ("pause", "resume", "run_now"):
        assert do(operator, what, gone) == ["error: ops:a: The job 'ops:a' is deleted."]
    living.refresh_from_db()
    assert (living.paused_at, Run.objects.count(), told()) == (None, 0, [])
    assert do(operator, "pause", living, reason="x" * 256)[0].startswith("error: ops:a: ")
    full = JobFactory(job_key="ops:full", max_queue_depth=1)
    QueueEntryFactory(job=full, run__kind="triggered")
    said = do(operator, "run_now", full, living)
    assert said[0] == "success: 1 run is made."
    assert said[1].startswith("error: ops:full: 1 due runs of 'ops:full' wait already")


def test_of_many_refusals_the_first_are_told_and_the_rest_counted(operator: Client, now):
    gone = [JobFactory(job_key=f"ops:{n}", deleted_at=now) for n in range(7)]
    said = do(operator, "pause", *gone)
    assert [message[:5] for message in said] == ["error"] * 6
    assert said[-1] == "error: 2 more were refused."


def test_a_form_that_is_sent_twice_runs_a_job_once(operator: Client):
    job = JobFactory()
    assert do(operator, "run_now", job, token="t1") == ["success: 1 run is made."]
    assert do(operator, "run_now", job, token="t1") == ["warning: Nothing changed for 1 of them."]
    assert do(operator, "run_now", job, token="t2") == ["success: 1 run is made."]
    assert Run.objects.filter(job=job).count() == 2
    assert do(operator, "run_now", job, token="x" * 300) == ["success: 1 run is made."]  # a key has 255 at most
    page = operator.get(reverse("admin:scheduler_job_changelist"))
    assert len(page.context["action_form"]["token"].value()) == 36


def test_triggers_are_switched_and_their_jobs_dealt_with_once(operator: Client):
    one, two = TriggerFactory(), TriggerFactory()
    both = TriggerFactory(job=one.job)
    assert do(operator, "switch_off", one, both, two) == ["success: 3 triggers are off."]
    assert not Trigger.objects.filter(enabled=True).exists()
    assert do(operator, "switch_on", one) == ["success: 1 trigger is on."]
    assert do(operator, "switch_on", one) == ["warning: Nothing changed for 1 of them."]
    assert AuditEvent.objects.filter(action="trigger.updated").count() == 4
    assert do(operator, "run_now", one, both) == ["success: 1 run is made."]
    assert do(operator, "pause", one, both, two) == ["success: 2 jobs are paused."]
    filed = TriggerFactory(job__managed_by="file")
    (said,) = do(operator, "switch_off", filed)
    assert said.startswith("error: ")
    filed.refresh_from_db()
    assert filed.enabled


def test_runs_are_replayed_once_and_cancelled(operator: Client):
    ended, unfinished = RunFactory(completed=True), QueueEntryFactory().run
    said = do(operator, "replay", ended, unfinished)
    assert said[0] == "success: 1 run is made."
    assert said[1].startswith(f"error: {unfinished.pk}: ")
    assert Run.objects.get(replay_of=ended).kind == "replay"
    assert do(operator, "replay", ended) == ["warning: Nothing changed for 1 of them."]
    said = do(operator, "cancel", unfinished, ended, reason="not today")
    assert said[0] == "success: 1 run is cancelled."
    assert said[1].startswith(f"error: {ended.pk}: ")
    assert "255 are allowed" in do(operator, "cancel", QueueEntryFactory().run, reason="x" * 256)[0]
    unfinished.refresh_from_db()
    assert (unfinished.verdict, unfinished.reason) == ("cancelled", "not today")
    assert QueueEntry.objects.filter(run=unfinished).count() == 0


def test_letters_are_replayed_and_thrown_away(operator: Client, now):
    fresh, stale = DeadLetterFactory(), DeadLetterFactory(job__dead_letter_replay_max_age_seconds=1)
    said = do(operator, "replay", fresh, stale)
    assert said[0] == "success: 1 run is made."
    assert said[1].startswith(f"error: {stale}: This letter is older")
    assert do(operator, "discard", fresh, stale) == ["success: 2 letters are thrown away."]
    assert not DeadLetter.objects.exists()


def test_too_many_rows_are_none(operator: Client, monkeypatch):
    monkeypatch.setattr(actions, "MOST_AT_ONCE", 2)
    jobs = [JobFactory() for _ in range(3)]
    (said,) = do(operator, "pause", jobs[0], select_across="1")
    assert said.startswith("error: Nothing was done: here at most 2 rows at once.")
    assert not Job.objects.filter(paused_at__isnull=False).exists()


def test_who_only_looks_is_offered_nothing_and_does_nothing(now):
    viewer, job, run, letter = person("viewer"), JobFactory(), RunFactory(completed=True), DeadLetterFactory()
    for row, whats in ((job, ("pause", "run_now")), (run, ("replay", "cancel")), (letter, ("replay", "discard"))):
        page = viewer.get(reverse(f"admin:scheduler_{type(row)._meta.model_name}_changelist"))
        assert page.status_code == 200
        assert "_selected_action" not in page.content.decode()
        for what in whats:
            do(viewer, what, row)
    assert told() == []
    assert Run.objects.filter(kind__in=["triggered", "replay"]).count() == 0
    assert DeadLetter.objects.count() == 1


def test_what_was_skipped_was_never_a_run_and_is_not_replayed(operator: Client, now):
    skipped = RunFactory(verdict="skipped", problem="skipped", finished_at=now)
    do(operator, "replay", skipped)
    assert not Run.objects.filter(replay_of=skipped).exists()


def test_of_no_model_is_anything_offered_to_who_only_looks(now):
    request = RequestFactory().get("/admin/")
    request.user = User.objects.create_user("kim", is_staff=True)
    request.user.groups.set(Group.objects.filter(name="viewer"))
    offered = {model._meta.label: list(shown.get_actions(request)) for model, shown in admin.site._registry.items()}
    assert {model: actions for model, actions in offered.items() if actions} == {}


def test_who_is_no_staff_is_told_what_is_lacking_and_not_that_he_has_no_role(client: Client):
    user = User.objects.create_user("otto")
    user.groups.set(Group.objects.filter(name="operator"))
    client.force_login(user)
    answer = client.get("/admin/", follow=True)
    assert answer.status_code == 403
    text = answer.content.decode()
    assert "for staff alone" in text
    assert "has not the role" not in text
