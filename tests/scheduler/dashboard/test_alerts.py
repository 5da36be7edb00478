"""The page of alerts: what is shown to whom, its forms, and that no secret is on it."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.contrib.auth.models import Permission
from django.db import connection
from django.test.utils import CaptureQueriesContext

from scheduler.dashboard.alert_fields import RECOVERIES
from scheduler.domain.alerts import subject_of
from scheduler.models import Alert, AlertChannel, AlertExemption, AlertRule
from scheduler.services.alerts.definitions import OWN_FIELDS
from scheduler.services.alerts.deliver import message_of
from tests.factories import (
    AlertChannelFactory,
    AlertExemptionFactory,
    AlertFactory,
    AlertRuleFactory,
    CalendarFactory,
    RunFactory,
)
from tests.scheduler.dashboard.conftest import client_of, person
from tests.scheduler.dashboard.markup import Page

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


def test_an_end_says_what_the_mail_says_and_leads_to_the_run_that_succeeded(admin, now):
    failed, well = RunFactory(dead=True, job__job_key="a:job"), RunFactory(completed=True)
    detail = {"of": "failed", "execution_id": str(failed.pk), "error": "exit code 3", "succeeded": str(well.pk)}
    alert = AlertFactory(event="recovered", job_key="a:job", detail=detail)
    page = Page(admin.get("/alerts"))
    assert subject_of(message_of(alert)) == "Croniq: a:job succeeds again"
    assert "a:job succeeds again the run" in page.text
    assert ("is over" in page.text, "exit code 3" in page.text) == (False, False)
    assert page.links("/runs/") == [f"/runs/{well.pk}"]
    # Where no run succeeded it is the one that it was about.
    Alert.objects.update(detail={"of": "overran", "execution_id": str(failed.pk)})
    page = Page(admin.get("/alerts"))
    assert "a:job no run takes longer than expected any more the run" in page.text
    assert page.links("/runs/") == [f"/runs/{failed.pk}"]


def test_each_end_has_its_words():
    assert set(RECOVERIES) == set(Alert.Event) - {Alert.Event.RECOVERED, Alert.Event.DIGEST, Alert.Event.TEST}


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
    assert 'value="5m"' in shown
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
    every = {"kind": "overran", "name": " ", "channels": [], "expected_within": "soon", "throttle": "-1s"}
    page = admin.post("/alerts/rules/new", every).content.decode()
    for field in ("name", "channels", "expected_within", "throttle"):
        assert f'id="{field}-wrong"' in page
    assert "Choose at least one." in page
    page = admin.post("/alerts/rules/new", {**said, "name": "other", "grace": "1s"}).content.decode()
    assert "The shortest possible “Grace” is 10 seconds." in page
    assert AlertRule.objects.count() == 1
    assert admin.get("/alerts/rules/999999/edit").status_code == 404


FIELDS = {"expected_within", "throttle", "grace", "threshold", "job_glob", "tags", "recovery", "calendar"}


@pytest.mark.parametrize("kind", sorted({*AlertRule.Kind.values} - {"failed"}))
def test_the_form_of_a_rule_has_the_fields_of_its_kind_alone(admin, kind):
    AlertChannelFactory(name="ops")
    said = {"kind": kind, "drawn-kind": "failed", "name": "late", "channels": ["ops"], "recovery": "on"}
    asked = admin.post("/alerts/rules/new", {**said, "choose": "1"}, headers={"HX-Request": "true"})
    forced = admin.post("/alerts/rules/new", said)
    for answer in (asked, forced):
        page = answer.content.decode()
        assert {field for field in FIELDS if f'name="{field}"' in page} == OWN_FIELDS[kind]
        assert (answer.status_code, 'value="late"' in page, 'value="ops" checked' in page) == (200, True, True)
        assert f'name="drawn-kind" value="{kind}"' in page
    assert "<html" not in asked.content.decode()
    # What was not asked for yet is not saved as if it had been answered.
    assert "Look them through" in forced.content.decode()
    assert not AlertRule.objects.exists()


def test_what_a_form_did_not_ask_for_is_as_usual_and_not_empty(admin):
    AlertChannelFactory(name="ops")
    said = {"kind": "failed", "drawn-kind": "weekly_digest", "name": "late", "channels": ["ops"], "choose": "1"}
    page = admin.post("/alerts/rules/new", said).content.decode()
    assert 'name="recovery" checked' in page
    assert 'name="job_glob" value="*"' in page


def test_the_table_of_rules_says_grace_and_throttle(admin):
    AlertRuleFactory(name="late", kind="missed", grace_seconds=300, throttle_seconds=3600)
    AlertRuleFactory(name="silent", kind="scheduler_silent", grace_seconds=120)
    page = admin.get("/alerts").content.decode()
    for text in (">5 min<", ">once in 1 h<", ">2 min<"):
        assert text in page, text


def test_rules_channels_and_snoozes_of_each_tenant_are_made_and_shown(admin):
    AlertChannelFactory(name="ops", tenant="acme")
    AlertChannelFactory(name="ours")
    page = admin.get("/alerts/rules/new?tenant=acme").content.decode()
    assert ('value="ops"' in page, 'value="ours"' in page) == (True, False)
    rule = {"tenant": "acme", "kind": "failed", "name": "theirs", "channels": ["ops"], "job_glob": "*"}
    assert admin.post("/alerts/rules/new", rule).status_code == 302
    assert admin.post("/alerts/rules/new", {**rule, "tenant": "default", "name": "x"}).status_code == 400
    channel = {"tenant": "acme", "name": "boss", "kind": "email", "target": "boss@example.org"}
    assert admin.post("/alerts/channels/new", channel).status_code == 302
    assert "exemptions/new?rule=theirs&amp;tenant=acme" in admin.get("/alerts").content.decode()
    form = admin.get("/alerts/exemptions/new?rule=theirs&tenant=acme").content.decode()
    assert '<option value="theirs" selected>' in form
    said = {"tenant": "acme", "effect": "snooze", "rule": "theirs", "job_glob": "*", "duration": "1h", "note": "why"}
    assert admin.post("/alerts/exemptions/new", said).status_code == 302
    assert {row.tenant for model in (AlertRule, AlertExemption) for row in model.objects.all()} == {"acme"}
    assert AlertChannel.objects.get(name="boss").tenant == "acme"
    AlertFactory(rule=AlertRule.objects.get(), tenant="acme", job_key="acme:night")
    theirs, ours = (admin.get(f"/alerts?tenant={name}").content.decode() for name in ("acme", "default"))
    assert ("boss" in theirs, "ours" in theirs, "boss" in ours, "ours" in ours) == (True, False, False, True)
    for text in ('/edit">theirs</a>', '<th scope="row">theirs', "acme:night"):
        assert (text in theirs, text in ours) == (True, False), text
    assert admin.post("/alerts/rules/new", {**rule, "tenant": "nobody", "name": "y"}).status_code == 400


def test_an_override_of_no_throttle_is_said_in_words(admin):
    said = {"effect": "override", "note": "why", "duration": "2h", "job_glob": "*", "throttle": "0s"}
    assert admin.post("/alerts/exemptions/new", said).status_code == 302
    assert ">every one<" in admin.get("/alerts").content.decode()


def test_an_override_alone_has_other_values(admin):
    said = {"effect": "override", "drawn-effect": "snooze", "choose": "1", "note": "why", "duration": "2h"}
    page = admin.post("/alerts/exemptions/new", said).content.decode()
    assert ('name="grace"' in page, 'value="2h"' in page) == (True, True)
    assert 'name="grace"' not in admin.get("/alerts/exemptions/new").content.decode()
    wrong = admin.post("/alerts/exemptions/new", {"effect": "override", "grace": "1s", "duration": "91d", "note": ""})
    for field in ("grace", "duration", "note"):
        assert f'id="{field}-wrong"' in wrong.content.decode()


def test_the_log_and_the_channels_follow_by_themselves(admin, now):
    """What a test comes to is seen without anybody's asking."""
    alert = AlertFactory(rule=AlertRuleFactory(name="night"), event="test")
    page = admin.get("/alerts").content.decode()
    where = page.partition('id="told"')[2].partition('hx-get="')[2].partition('"')[0].replace("&amp;", "&")
    part = {"HX-Request": "true"}
    assert admin.get(where, headers=part).status_code == 204
    AlertChannel.objects.update(failures=3, closed_until=now + timedelta(days=9999), error="answered 500")
    seen = admin.get(where, headers=part)
    for text in ("does not answer", "3 attempts", "answered 500"):
        assert text in seen.content.decode()
    assert "night" not in seen.content.decode().partition("What was told")[0]
    Alert.objects.filter(pk=alert.pk).update(state="delivered", next_at=None, finished_at=now)
    assert "delivered</span>" in admin.get(where, headers=part).content.decode()
    assert "hx-get" not in admin.get(f"/alerts?before={alert.pk}").content.decode().partition('id="told"')[2][:200]


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
    assert (seen.get("/jobs").status_code, seen.get("/alerts").status_code) == (200, 403)


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
