"""Channels and rules over the API and in the admin: what is taken, what is refused, that secrets show once."""

from __future__ import annotations

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse

from runners.models import AuditEvent
from scheduler.models import Alert, AlertChannel, AlertRule
from tests.factories import AlertChannelFactory, AlertFactory, AlertRuleFactory

pytestmark = pytest.mark.django_db

HOOK = {"name": "ops", "kind": "webhook", "target": "https://hooks.example.org/services/t0p?key=t0p"}
MAIL = {"name": "ops", "kind": "email", "target": "ops@example.org"}


def test_the_secret_of_a_webhook_is_told_once_and_the_path_of_its_url_never(api):
    client = api("alerts:read", "alerts:write")
    made = client.post("/v1/alert-channels", HOOK)
    assert made.status_code == 201
    channel = AlertChannel.objects.get()
    assert made.json()["secret"] == channel.secret
    assert len(channel.secret) >= 40
    AlertFactory(rule=AlertRuleFactory(channel=channel))
    root = Client()
    root.force_login(User.objects.create_superuser("root"))
    pages = [reverse("admin:scheduler_alertchannel_changelist")]
    pages += [reverse("admin:scheduler_alertchannel_change", args=[channel.pk])]
    shown = [client.get(path) for path in ("/v1/alert-channels", "/v1/alert-rules", "/v1/alerts")]
    shown += [root.get(page) for page in pages]
    assert [answer.status_code for answer in shown] == [200] * 5
    text = "".join(answer.content.decode() for answer in shown) + str(list(AuditEvent.objects.values()))
    assert "hooks.example.org" in text
    assert "t0p" not in text
    assert channel.secret not in text
    client.delete(f"/v1/alert-channels/{channel.pk}")
    AlertRule.objects.update(deleted_at="2026-03-02T12:00:00Z")
    assert client.delete(f"/v1/alert-channels/{channel.pk}").status_code == 204
    channel.refresh_from_db()
    assert (channel.secret, channel.target) == ("", "https://hooks.example.org/***")


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({**HOOK, "target": "ftp://example.org"}, "target"),
        ({**HOOK, "target": "https://u:p@example.org/"}, "target"),
        ({**HOOK, "target": {"secret": "X"}}, "target"),
        ({**MAIL, "target": "ops@example.org, eve@example.org"}, "target"),
        ({**MAIL, "target": "ops@example.org\nBcc: eve@example.org"}, "target"),
        ({**MAIL, "target": HOOK["target"]}, "target"),
        ({**MAIL, "kind": "pigeon"}, "kind"),
        ({**MAIL, "name": ""}, "name"),
        ({**MAIL, "secret": "mine"}, "secret"),
    ],
)
def test_what_is_no_channel_is_refused_by_its_field(api, body, field):
    answer = api().post("/v1/alert-channels", body)
    assert (answer.status_code, list(answer.json()["fields"])) == (400, [field])
    assert not AlertChannel.objects.exists()


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"channel": "none"}, "channel"),
        ({"channel": "theirs"}, "channel"),
        ({"channel": "gone"}, "channel"),
        ({"kind": "overslept"}, "kind"),
        ({"job_glob": ""}, "job_glob"),
        ({"throttle": "-1s"}, "throttle"),
        ({"grace": "60s"}, "grace"),
        ({"kind": "scheduler_silent", "grace": "9s"}, "grace"),
        ({"kind": "scheduler_silent", "throttle": "9s"}, "throttle"),
    ],
)
def test_what_is_no_rule_is_refused_by_its_field(api, now, body, field):
    AlertChannelFactory(name="ops")
    AlertChannelFactory(name="theirs", tenant="other")
    AlertChannelFactory(name="gone", deleted_at=now)
    answer = api().post("/v1/alert-rules", {"name": "x", "kind": "failed", "channel": "ops", **body})
    assert (answer.status_code, list(answer.json()["fields"])) == (400, [field])
    assert not AlertRule.objects.exists()


def test_names_are_once_while_they_live_and_a_channel_in_use_stays(api):
    client = api()
    channel = client.post("/v1/alert-channels", MAIL).json()
    assert client.post("/v1/alert-channels", MAIL).json()["error"] == "alert_channel_exists"
    rule = {"name": "x", "kind": "failed", "channel": "ops", "throttle": "10m"}
    made = client.post("/v1/alert-rules", rule)
    assert (made.status_code, made.json()["throttle"], made.json()["job_glob"]) == (201, "600s", "*")
    assert client.post("/v1/alert-rules", rule).json()["error"] == "alert_rule_exists"
    assert client.delete(f"/v1/alert-channels/{channel['id']}").json()["error"] == "alert_channel_in_use"
    assert client.delete(f"/v1/alert-rules/{made.json()['id']}").status_code == 204
    assert client.delete(f"/v1/alert-rules/{made.json()['id']}").status_code == 404
    assert client.delete(f"/v1/alert-channels/{channel['id']}").status_code == 204
    assert client.post("/v1/alert-channels", MAIL).status_code == 201


def test_a_test_waits_to_be_sent_as_any_alert(api, now):
    channel = AlertChannelFactory()
    alert_id = api().post(f"/v1/alert-channels/{channel.pk}/test").json()["alert_id"]
    alert = Alert.objects.get()
    assert (str(alert.pk), alert.event, alert.channel, alert.state, alert.next_at) == (
        alert_id,
        "test",
        channel,
        "waiting",
        now,
    )
    assert [row["id"] for row in api().get("/v1/alerts?state=waiting").json()] == [alert_id]
    assert api().get("/v1/alerts?state=delivered").json() == []
    assert api().get("/v1/alerts?state=lost").status_code == 400


def test_alerts_come_in_pages_newest_first(api):
    rule = AlertRuleFactory()
    pks = sorted((str(AlertFactory(rule=rule).pk) for _ in range(3)), reverse=True)
    client, found, path = api(), [], "/v1/alerts?page_size=2"
    while path:
        page = client.get(path).json()
        found += [row["id"] for row in page["results"]]
        path = page["next"]
    assert found == pks
