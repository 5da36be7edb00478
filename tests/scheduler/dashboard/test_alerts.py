"""The page of alerts: what is shown to whom, its forms, and that no secret is on it."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.contrib.auth.models import Permission
from django.db import connection
from django.test.utils import CaptureQueriesContext

from scheduler.models import Alert, AlertChannel, AlertExemption, AlertRule
from tests.factories import (
    AlertChannelFactory,
    AlertExemptionFactory,
    AlertFactory,
    AlertRuleFactory,
    CalendarFactory,
    RunFactory,
)
from tests.scheduler.dashboard.conftest import client_of, person

pytestmark = pytest.mark.django_db


@pytest.fixture
def admin():
    return client_of(person("alma", "admin"))


def test_the_page_shows_rules_channels_exemptions_and_the_log_without_secrets(admin, now):
    channel = AlertChannelFactory(name="ops-hook", target="https://hooks.example.org/t0p", secret="s3cret")
    rule = AlertRuleFactory(name="night", kind="overran", expected_within_seconds=600, channel=channel, tags=["money"])
    AlertExemptionFactory(rule=rule, note="the bank is down", until=now + timedelta(days=9999))
    run = RunFactory(dead=True)
    AlertFactory(rule=rule, error="hooks answered 500", detail={"execution_id": str(run.pk), "error": "exit code 3"})
    page = admin.get("/alerts").content.decode()
    for text in ("ops-hook", "night", "longer than 10 min", "money", "the bank is down", "answered 500", "exit code 3"):
        assert text in page
    assert "https://hooks.example.org/***" in page
    assert "t0p" not in page
    assert "s3cret" not in page


def test_the_log_is_filtered_and_goes_on_where_a_page_ends(admin, now):
    rule = AlertRuleFactory()
    for number in range(51):
        AlertFactory(rule=rule, job_key=f"a:{number}x")
    done = AlertFactory(rule=rule, job_key="a:done", state="delivered", next_at=None, finished_at=now)
    text = admin.get("/alerts?state=delivered").content.decode()
    assert "a:done" in text
    assert "a:1x" not in text
    first = admin.get("/alerts").content.decode()
    more = first.partition('href="/alerts?before=')[2].partition('"')[0]
    rest = admin.get(f"/alerts?before={more}").content.decode()
    shown = [[key for key in (f"a:{n}x" for n in range(51)) if f"{key}<" in text] for text in (first, rest)]
    assert sorted(shown[0] + shown[1]) == sorted(f"a:{n}x" for n in range(51))
    assert Alert.objects.count() == 52
    assert done.state == "delivered"
    assert admin.get("/alerts?before=x").status_code == 400
    assert admin.get("/alerts?state=x").status_code == 400


def test_a_channel_is_made_and_its_secret_is_on_that_answer_alone(admin):
    target = "https://hooks.example.org/t0p"
    made = admin.post("/alerts/channels/new", {"name": "ops", "kind": "webhook", "target": target})
    channel = AlertChannel.objects.get()
    assert channel.secret in made.content.decode()
    assert channel.secret not in admin.get("/alerts").content.decode()
    wrong = admin.post("/alerts/channels/new", {"name": "x", "kind": "email", "target": target})
    assert (wrong.status_code, 'id="target-wrong"' in wrong.content.decode()) == (400, True)
    again = admin.post("/alerts/channels/new", {"name": "ops", "kind": "email", "target": "a@example.org"})
    assert (again.status_code, AlertChannel.objects.count()) == (409, 1)


def test_a_rule_is_made_and_edited_in_the_same_form(admin):
    AlertChannelFactory(name="ops")
    AlertChannelFactory(name="boss")
    CalendarFactory(name="office")
    said = {"name": "late", "kind": "missed", "channels": ["ops"], "grace": "5m", "job_glob": "a:*", "tags": "x, y"}
    assert admin.post("/alerts/rules/new", {**said, "recovery": "on"}).status_code == 302
    rule = AlertRule.objects.get()
    assert (rule.grace_seconds, rule.tags, rule.recovery, rule.job_glob) == (300, ["x", "y"], True, "a:*")
    shown = admin.get(f"/alerts/rules/{rule.pk}/edit").content.decode()
    assert 'value="300s"' in shown
    assert 'value="ops" checked' in shown
    changed = {"name": "late", "kind": "missed", "channels": ["ops", "boss"], "calendar": "office", "job_glob": "*"}
    assert admin.post(f"/alerts/rules/{rule.pk}/edit", changed).status_code == 302
    rule.refresh_from_db()
    assert (rule.grace_seconds, rule.tags, rule.recovery, rule.calendar.name) == (60, [], False, "office")
    assert rule.routes.count() == 2
    refused = [({"channels": []}, "channels"), ({"kind": "overran"}, "expected_within"), ({"kind": "x"}, "kind")]
    for wrong, field in refused:
        answer = admin.post("/alerts/rules/new", {**said, "grace": "", "name": "other", **wrong})
        assert (answer.status_code, f'id="{field}-wrong"' in answer.content.decode()) == (400, True)
    assert AlertRule.objects.count() == 1
    assert admin.get("/alerts/rules/999999/edit").status_code == 404


def test_an_operator_may_snooze_and_sees_no_button_of_an_admin(operator, now):
    AlertRuleFactory(name="night", channel=AlertChannelFactory(name="ops"))
    page = operator.get("/alerts").content.decode()
    assert "/alerts/exemptions/new?rule=night" in page
    assert "/alerts/rules/" not in page
    assert "/alerts/channels/" not in page
    form = operator.get("/alerts/exemptions/new?rule=night").content.decode()
    assert '<option value="night" selected>' in form
    said = {"effect": "snooze", "rule": "night", "job_glob": "*", "duration": "1h", "note": "the bank is down"}
    assert operator.post("/alerts/exemptions/new", {**said, "note": ""}).status_code == 400
    assert operator.post("/alerts/exemptions/new", said).status_code == 302
    row = AlertExemption.objects.get()
    assert (row.note, row.created_by, row.until - row.created_at) == (
        "the bank is down",
        "user:otto",
        timedelta(hours=1),
    )
    assert operator.post(f"/alerts/exemptions/{row.pk}/end").status_code == 302
    row.refresh_from_db()
    assert row.ended_at is not None


def test_a_viewer_looks_and_changes_nothing():
    viewer = client_of(person("vera", "viewer"))
    AlertRuleFactory(name="night")
    page = viewer.get("/alerts").content.decode()
    assert "night" in page
    assert '<form method="post" action="/alerts' not in page
    assert "/alerts/exemptions" not in page


def test_whoever_may_see_jobs_alone_sees_no_alerts():
    kim = person("kim")
    kim.user_permissions.set(Permission.objects.filter(codename="view_job"))
    seen = client_of(kim)
    assert (seen.get("/").status_code, seen.get("/alerts").status_code) == (200, 403)


def test_many_of_everything_cost_as_many_queries_as_few(admin, now):
    counts = []
    for _ in range(2):
        for number in range(5):
            rule = AlertRuleFactory(channel=[AlertChannelFactory(), AlertChannelFactory()], calendar=CalendarFactory())
            AlertFactory(rule=rule, channel=rule.routes.first().channel, job_key=f"a:{number}")
            AlertExemptionFactory(rule=rule, until=now + timedelta(days=9999))
        with CaptureQueriesContext(connection) as asked:
            admin.get("/alerts")
        counts.append(len(asked))
    assert counts[0] == counts[1] <= 15
