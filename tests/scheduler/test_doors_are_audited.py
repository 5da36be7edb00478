"""The doors beside the API: admin, pages, commands and workers. What each of them changes leaves an event; a new door
is in one of these tables, or fails here."""

from __future__ import annotations

from datetime import timedelta

import pytest
from allauth.mfa.models import Authenticator
from allauth.socialaccount.models import SocialAccount
from django.contrib import admin
from django.contrib.auth.models import Group, User
from django.core.management import call_command
from django.test import Client, RequestFactory
from django.urls import URLPattern, reverse

from croniq_site.kernel.clock import ManualClock
from runners.models import AuditEvent
from scheduler.admin import actions as admin_actions
from scheduler.dashboard import pages
from scheduler.dashboard.urls import urlpatterns
from scheduler.models import Job, QueueEntry, Run, Trigger
from scheduler.services.maintenance import begin_maintenance
from scheduler.services.pause import pause_job
from scheduler.workers import reaper
from tests.architecture.test_commands import COMMANDS
from tests.calendars.test_admin import ADD as CALENDAR_ADD
from tests.calendars.test_admin import form as calendar_form
from tests.factories import (
    AuditEventFactory,
    HeartbeatFactory,
    JobFactory,
    QueueEntryFactory,
    RunFactory,
    RunnerFactory,
    SlotFactory,
    TriggerFactory,
)
from tests.scheduler.api.calls import ACTOR, World, build_world
from tests.scheduler.planning.support import make_job, make_trigger

DAY, MINUTE = timedelta(days=1), timedelta(minutes=1)

pytestmark = pytest.mark.django_db


@pytest.fixture
def world(now) -> World:
    return build_world("acme", now)


@pytest.fixture
def root(now, monkeypatch) -> Client:
    """A superuser, at the clock of the tests."""
    for module in (pages, admin_actions):
        monkeypatch.setattr(module, "DatabaseClock", lambda: ManualClock(now))
    client = Client()
    client.force_login(User.objects.create_superuser("root", password="a long secret"))
    return client


def newest() -> int:
    return AuditEvent.objects.order_by("-pk").values_list("pk", flat=True).first() or 0


def since(last: int, *actions: str) -> list[AuditEvent]:
    """The events after that one: each says something, and they are these."""
    events = list(AuditEvent.objects.filter(pk__gt=last).order_by("pk"))
    assert [event.action for event in events if not event.diff] == []
    assert {event.action for event in events} >= set(actions)
    return events


# The admin


def _calendar_page(world: World, what: str) -> str:
    return reverse(f"admin:calendars_calendar_{what}", args=[world.parts["spare_calendar"]])


def _job(world: World, which: str = "job_key") -> Job:
    return Job.objects.get(job_key=world.parts[which])


def _trigger(world: World, which: str = "job_key", *, is_off: bool = False) -> Trigger:
    found = Trigger.objects.filter(job=_job(world, which)).first() or TriggerFactory(job=_job(world, which))
    Trigger.objects.filter(pk=found.pk).update(enabled=not is_off)
    return found


def _ended(world: World) -> Run:
    return RunFactory(job=_job(world), completed=True)


def _list_action(client: Client, model: str, action: str, pk: object) -> object:
    fields = {"action": action, "_selected_action": str(pk), "post": "yes"}
    return client.post(reverse(f"admin:{model}_changelist"), fields)


PASSWORD = {"password1": "a long secret", "password2": "a long secret", "usable_password": "true"}
USER_FORM = {"username": "vera", "is_staff": "on", "date_joined_0": "2026-03-02", "date_joined_1": "12:00:00"}


def _user() -> User:
    return User.objects.get_or_create(username="vera")[0]


def _group() -> Group:
    return Group.objects.get_or_create(name="readers")[0]


def _second_factor() -> Authenticator:
    return Authenticator.objects.get_or_create(user=_user(), type=Authenticator.Type.TOTP, data={"secret": "s"})[0]


def _identity() -> SocialAccount:
    return SocialAccount.objects.get_or_create(user=_user(), provider="oidc", uid="1")[0]


def _lost_page(model: str, obj: Authenticator | SocialAccount) -> str:
    return reverse(f"admin:{model}_delete", args=[obj.pk])


def _user_page(what: str) -> str:
    return reverse(f"admin:auth_user_{what}", args=[_user().pk])


def _group_page(what: str) -> str:
    return reverse(f"admin:auth_group_{what}", args=[_group().pk])


CLIENT_FORM = {"name": "acme-client", "scopes": ["jobs:write"], "tenant": "", "is_active": "on"}
ADMIN = {
    ("runners.apiclient", "add"): (
        lambda root, world: root.post(reverse("admin:runners_apiclient_add"), CLIENT_FORM | {"name": "new"}),
        "api_client.created",
    ),
    ("runners.apiclient", "change"): (
        lambda root, world: root.post(
            reverse("admin:runners_apiclient_change", args=[world.parts["client_id"]]), CLIENT_FORM
        ),
        "api_client.updated",
    ),
    ("runners.apikey", "revoke"): (
        lambda root, world: _list_action(root, "runners_apikey", "revoke", world.parts["key_id"]),
        "api_key.revoked",
    ),
    ("runners.auditevent", "take_back"): (
        lambda root, world: _list_action(
            root, "runners_auditevent", "take_back", AuditEvent.objects.get(event_id=world.parts["job_edit"]).pk
        ),
        "job.reverted",
    ),
    ("scheduler.job", "pause"): (
        lambda root, world: _list_action(root, "scheduler_job", "pause", _job(world).pk),
        "job.paused",
    ),
    ("scheduler.job", "resume"): (
        lambda root, world: _list_action(root, "scheduler_job", "resume", _job(world, "paused").pk),
        "job.resumed",
    ),
    ("scheduler.job", "run_now"): (
        lambda root, world: _list_action(root, "scheduler_job", "run_now", _job(world).pk),
        "job.triggered",
    ),
    ("scheduler.trigger", "pause"): (
        lambda root, world: _list_action(root, "scheduler_trigger", "pause", _trigger(world).pk),
        "job.paused",
    ),
    ("scheduler.trigger", "resume"): (
        lambda root, world: _list_action(root, "scheduler_trigger", "resume", _trigger(world, "paused").pk),
        "job.resumed",
    ),
    ("scheduler.trigger", "run_now"): (
        lambda root, world: _list_action(root, "scheduler_trigger", "run_now", _trigger(world).pk),
        "job.triggered",
    ),
    ("scheduler.trigger", "switch_off"): (
        lambda root, world: _list_action(root, "scheduler_trigger", "switch_off", _trigger(world).pk),
        "trigger.updated",
    ),
    ("scheduler.trigger", "switch_on"): (
        lambda root, world: _list_action(root, "scheduler_trigger", "switch_on", _trigger(world, is_off=True).pk),
        "trigger.updated",
    ),
    ("scheduler.run", "replay"): (
        lambda root, world: _list_action(root, "scheduler_run", "replay", _ended(world).pk),
        "run.replayed",
    ),
    ("scheduler.run", "cancel"): (
        lambda root, world: _list_action(root, "scheduler_run", "cancel", world.parts["execution_id"]),
        "run.cancelled",
    ),
    ("scheduler.deadletter", "replay"): (
        lambda root, world: _list_action(root, "scheduler_deadletter", "replay", world.parts["letter_id"]),
        "dead_letter.replayed",
    ),
    ("scheduler.deadletter", "discard"): (
        lambda root, world: _list_action(root, "scheduler_deadletter", "discard", world.parts["letter_id"]),
        "dead_letter.deleted",
    ),
    ("calendars.calendar", "add"): (
        lambda root, world: root.post(CALENDAR_ADD, calendar_form()),
        "calendar.created",
    ),
    ("calendars.calendar", "change"): (
        lambda root, world: root.post(_calendar_page(world, "change"), calendar_form(initial=0)),
        "calendar.updated",
    ),
    ("calendars.calendar", "delete"): (
        lambda root, world: root.post(_calendar_page(world, "delete"), {"post": "yes"}),
        "calendar.deleted",
    ),
    ("calendars.calendar", "delete_selected"): (
        lambda root, world: _list_action(root, "calendars_calendar", "delete_selected", world.parts["spare_calendar"]),
        "calendar.deleted",
    ),
    ("scheduler.alertchannel", "send_test"): (
        lambda root, world: _list_action(root, "scheduler_alertchannel", "send_test", world.parts["channel_id"]),
        "alert_channel.tested",
    ),
    ("auth.user", "add"): (
        lambda root, world: root.post(reverse("admin:auth_user_add"), {"username": "new", **PASSWORD}),
        "user.created",
    ),
    ("auth.user", "change"): (lambda root, world: root.post(_user_page("change"), USER_FORM), "user.updated"),
    ("auth.user", "delete"): (lambda root, world: root.post(_user_page("delete"), {"post": "yes"}), "user.deleted"),
    ("auth.user", "delete_selected"): (
        lambda root, world: _list_action(root, "auth_user", "delete_selected", _user().pk),
        "user.deleted",
    ),
    ("auth.group", "add"): (
        lambda root, world: root.post(reverse("admin:auth_group_add"), {"name": "new"}),
        "auth_group.created",
    ),
    ("auth.group", "change"): (
        lambda root, world: root.post(_group_page("change"), {"name": "other"}),
        "auth_group.updated",
    ),
    ("auth.group", "delete"): (
        lambda root, world: root.post(_group_page("delete"), {"post": "yes"}),
        "auth_group.deleted",
    ),
    ("auth.group", "delete_selected"): (
        lambda root, world: _list_action(root, "auth_group", "delete_selected", _group().pk),
        "auth_group.deleted",
    ),
    ("mfa.authenticator", "delete"): (
        lambda root, world: root.post(_lost_page("mfa_authenticator", _second_factor()), {"post": "yes"}),
        "mfa_authenticator.deleted",
    ),
    ("mfa.authenticator", "delete_selected"): (
        lambda root, world: _list_action(root, "mfa_authenticator", "delete_selected", _second_factor().pk),
        "mfa_authenticator.deleted",
    ),
    ("socialaccount.socialaccount", "delete"): (
        lambda root, world: root.post(_lost_page("socialaccount_socialaccount", _identity()), {"post": "yes"}),
        "socialaccount_socialaccount.deleted",
    ),
    ("socialaccount.socialaccount", "delete_selected"): (
        lambda root, world: _list_action(root, "socialaccount_socialaccount", "delete_selected", _identity().pk),
        "socialaccount_socialaccount.deleted",
    ),
}
"""What can be changed in the admin, how, and what the audit calls it."""


def test_each_door_of_the_admin_is_in_the_table():
    request = RequestFactory().get("/")
    request.user = User.objects.create_superuser("root", password="a long secret")
    doors = set()
    for model, shown in admin.site._registry.items():
        ways = {way for way in ("add", "change", "delete") if getattr(shown, f"has_{way}_permission")(request)}
        doors |= {(model._meta.label_lower, way) for way in ways | set(shown.get_actions(request))}
    assert doors == set(ADMIN)


def test_a_password_changed_in_the_admin_is_told_and_not_shown(root):
    last = newest()
    page = reverse("admin:auth_user_password_change", args=[_user().pk])
    assert root.post(page, PASSWORD).status_code == 302
    (event,) = since(last, "user.updated")
    assert (event.target_id, event.diff) == ("vera", {"password": "changed"})


@pytest.mark.parametrize("door", ADMIN, ids=" ".join)
def test_each_write_of_the_admin_leaves_an_event_of_its_user(root, world, door):
    write, action = ADMIN[door]
    last = newest()
    answer = write(root, world)
    assert answer.status_code == 302, answer.content
    events = since(last, action)
    assert {(event.actor_type, event.actor_id) for event in events} == {("user", "root")}
    assert {event.request_id for event in events} == {answer["X-Request-ID"]}


# Pages

PAGES = {
    "run-now": ({}, "job.triggered"),
    "pause": ({}, "job.paused"),
    "resume": ({}, "job.resumed"),
    "skip-next": ({}, "job.next_skipped"),
    "job-delete": ({"typed": "{job_key}"}, "job.deleted"),
    "jobs-bulk": ({"do": "pause", "all": "1", "q": "{job_key}", "expected": "1"}, "job.paused"),
    "cancel": ({}, "run.cancelled"),
    "rerun": ({}, "run.replayed"),
    "runs-bulk": ({"do": "cancel", "ids": "{execution_id}", "expected": "1"}, "run.cancelled"),
    "revert": ({"event_id": "{job_edit}"}, "job.reverted"),
    "letter-replay": ({}, "dead_letter.replayed"),
    "letter-discard": ({}, "dead_letter.deleted"),
    "letter-note": ({"note": "x"}, "dead_letter.noted"),
    "letters-replay": ({"until": "2026-03-02T12:00:00Z", "expected": "1"}, "dead_letter.replayed"),
    "letters-discard": ({"until": "2026-03-02T12:00:00Z", "expected": "1"}, "dead_letters.deleted"),
    "missed-run": (
        {"since": "2026-03-02T00:00:00Z", "until": "2026-03-02T11:00:00Z", "seen_at": "2026-03-02T11:00:00Z"},
        "job.backfilled",
    ),
    "alert-exemption-end": ({}, "alert_exemption.ended"),
    "alert-rule-delete": ({}, "alert_rule.deleted"),
    "alert-channel-test": ({}, "alert_channel.tested"),
    "alert-channel-delete": ({}, "alert_channel.deleted"),
    "missed-dismiss": ({"seen_at": "2026-03-02T11:00:00Z"}, "job.missed_dismissed"),
    "runner-drain": ({"reason": "x"}, "runner.drained"),
    "runner-resume": ({}, "runner.resumed"),
    "runner-release": ({"typed": "{runner_id}"}, "runner.released"),
    "settings-key-new": ({"newest": "{key_id}"}, "api_key.issued"),
    "settings-key-rotate": ({"newest": "{key_id}"}, "api_key.rotated"),
    "settings-key-revoke": ({}, "api_key.revoked"),
    "settings-user-password": ({}, "user.updated"),
    "settings-user-delete": ({"typed": "{tenant}-user"}, "user.deleted"),
}
"""By name, the actions of pages: what is sent, and what the audit calls what it did."""
OWN = {
    "resume": {"job_key": "paused"},
    "cancel": {"run_id": "execution_id"},
    "rerun": {"run_id": "finished"},
    "runner-resume": {"runner_pk": "drained_pk"},
    "alert-channel-delete": {"channel_id": "spare_channel"},
}


BY_NAME = {pattern.name: pattern for pattern in urlpatterns if isinstance(pattern, URLPattern) and pattern.name}
SIGN_OUT = "logout"
"""Ends a session and changes nothing else."""


def actions(client: Client) -> list[str]:
    """Pages that take nothing but POST, whoever asks."""
    return [name for name, pattern in BY_NAME.items() if client.get(_somewhere(pattern)).status_code == 405]


def _somewhere(pattern: URLPattern) -> str:
    kinds = {"uuid": "0195f9a0-0000-7000-8000-000000000000", "int": 1, "str": "x:y", "path": "x"}
    converters = pattern.pattern.converters.items()
    kwargs = {
        name: kinds[type(kind).__name__.removesuffix("Converter").lower().replace("string", "str")]
        for name, kind in converters
    }
    return reverse(pattern.name, kwargs=kwargs)


def test_each_action_of_a_page_is_in_the_table(client):
    assert set(actions(client)) <= {*PAGES, SIGN_OUT}


@pytest.mark.parametrize("name", [name for name in PAGES if name in BY_NAME])
def test_each_action_of_a_page_leaves_an_event_of_its_user(root, world, name):
    fields, action = PAGES[name]
    pattern = BY_NAME[name]
    own = OWN.get(name, {})
    parts = {part: world.parts[own.get(part, part)] for part in pattern.pattern.converters}
    last = newest()
    answer = root.post(
        reverse(name, kwargs=parts), {field: text.format(**world.parts) for field, text in fields.items()}
    )
    assert answer.status_code in (200, 302), answer.content  # what is seen this once is in the answer
    (event,) = [event for event in since(last, action) if event.action == action]
    assert (event.actor_type, event.actor_id, event.request_id) == ("user", "root", answer["X-Request-ID"])


# Commands

K8S = """
apiVersion: batch/v1
kind: CronJob
metadata: {name: backup}
spec:
  schedule: "0 3 * * *"
  jobTemplate: {spec: {template: {spec: {containers: [{name: main, image: busybox, command: [/bin/true]}]}}}}
"""
JOBS_FILE = "jobs: {'demo:file': {triggers: [{every: 5m}]}}\n"
COMMANDS_THAT_WRITE = {
    "create_api_key": (["somebody", "--scopes", "jobs:read"], {"api_client.created", "api_key.issued"}),
    "maintenance": (["on"], {"maintenance.began"}),
    "import_crontab": (["{crontab}"], {"job.created", "trigger.created"}),
    "import_k8s": (["{manifest}"], {"job.created", "trigger.created"}),
    "jobs": (["apply", "{jobs_file}"], {"job.created", "trigger.created", "jobs_file.applied"}),
}
NO_COMMANDS = {
    "doctor", "next_fires", "test", "makemessages",  # look, or are no part of a site
    "migrate",  # makes the tables
    "serve", "materialize", "reap", "runner", "quickstart", "prune",  # run what services do that are told of below
    "backup", "move_to_postgres",  # copy a database with its audit
    "seed_demo",  # fills an empty one for a demonstration
    "import_celery_beat",  # as import_k8s, of another database
    "apply_api_clients",  # tests/people/test_declared.py
    "changepassword",  # asks at a terminal: tests/people/test_lost_passwords.py
}  # fmt: skip


def test_each_command_is_in_a_table():
    assert set(COMMANDS) <= {*COMMANDS_THAT_WRITE, *NO_COMMANDS}


@pytest.mark.parametrize("name", [name for name in COMMANDS_THAT_WRITE if name in COMMANDS])
def test_each_command_that_writes_leaves_its_events(name, tmp_path):
    texts = {"crontab": "0 3 * * * /bin/true\n", "manifest": K8S, "jobs_file": JOBS_FILE}
    files = {key: tmp_path / f"{key}.yaml" for key in texts}
    for key, path in files.items():
        path.write_text(texts[key])
    arguments, expected = COMMANDS_THAT_WRITE[name]
    call_command(name, *(text.format(**files) for text in arguments))
    assert {event.action for event in since(0)} == expected


# Workers


def _stopped(now):
    make_trigger(make_job(now - MINUTE, catch_up="none"), now - MINUTE, cron_expression="*/5 * * * *")
    HeartbeatFactory(kind="serve", beat_at=now)


def _crowded(now):
    job = JobFactory(max_queue_depth=1)
    for number in range(2):
        at = now + number * timedelta(seconds=1)
        QueueEntryFactory(job=job, available_at=at, run__scheduled_for=at)


def _last_claim(now):
    QueueEntryFactory(claimed=True, job__max_losses=0, job__max_retries=0)


def _stray_slot(now):
    SlotFactory(run=QueueEntryFactory(state=QueueEntry.State.HELD).run)


CHORES = {
    "clock": (lambda now: HeartbeatFactory(beat_at=now + DAY), ["site.clock_set_back"]),
    "missed_fires": (_stopped, ["site.outage", "run.skipped"]),
    "leases": (_last_claim, ["run.lost", "run.buried"]),
    "pauses": (lambda now: pause_job(make_job(now).job_key, now, until=now + MINUTE), ["job.resumed"]),
    "maintenance": (lambda now: begin_maintenance(now, ACTOR, until=now + MINUTE), ["maintenance.ended"]),
    "queue_ttl": (lambda now: QueueEntryFactory(job__queue_ttl_seconds=60), ["run.cancelled"]),
    "queue_depth": (_crowded, ["run.skipped"]),
    "stray_slots": (_stray_slot, ["slots.dropped"]),
    "stray_runs": (lambda now: QueueEntryFactory(), ["runs.gated"]),
    "audit": (lambda now: AuditEventFactory(created_at=now - 90 * DAY), ["audit.pruned"]),
    "runners": (lambda now: RunnerFactory(last_poll_at=now - 90 * DAY), ["runner.forgotten"]),
}  # fmt: skip
"""By chore: what makes it due, and what the audit says of it."""
TOLD_ELSEWHERE = {
    "deadlines",  # an attempt that timed out is a row of its own, and in the run's history
    "unclaimed", "admit",  # whose turn it is
    "idempotency_keys", "dead_letters", "log_lines", "runs", "newest_runs", "gaps", "instances", "heartbeats",
    "sessions",  # end when said
    "tallies",  # the same sums in fewer rows
    "alert_rules", "alerts",  # are the log of alerts
}  # fmt: skip


def test_each_chore_is_in_a_table():
    assert set(reaper.CHORES) <= {*CHORES, *TOLD_ELSEWHERE}


@pytest.mark.parametrize("name", CHORES)
def test_each_repair_of_a_worker_leaves_its_event(now, settings, name):
    settings.CRONIQ_AUDIT_RETENTION_SECONDS = 30 * 86_400
    settings.CRONIQ_TENANT_MAX_CONCURRENT = 5 if name == "stray_runs" else None
    make, expected = CHORES[name]
    make(now)
    last = newest()
    assert reaper.CHORES[name](now + 31 * MINUTE, 100) >= 1
    assert {(event.actor_type, event.actor_id) for event in since(last, *expected)} == {("system", "")}
