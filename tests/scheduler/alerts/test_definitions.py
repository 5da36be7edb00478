"""Channels and rules over the API and in the admin: what is taken, what is refused, that secrets show once."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse

from runners.models import AuditEvent
from scheduler.models import Alert, AlertChannel, AlertExemption, AlertRule
from tests.factories import AlertChannelFactory, AlertFactory, AlertRuleFactory, CalendarFactory

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
        ({**HOOK, "kind": "apprise"}, "target"),
        ({**HOOK, "kind": "apprise", "target": "mailto://u:p@example.org"}, "target"),
        ({**HOOK, "kind": "apprise", "target": "syslog://x"}, "target"),
        ({**HOOK, "kind": "apprise", "target": "slack://a b"}, "target"),
        ({**HOOK, "kind": "apprise", "target": 7}, "target"),
        pytest.param({**HOOK, "kind": "apprise", "target": "slack://" + "x" * 4090}, "target", id="a long URL"),
        pytest.param({**MAIL, "target": "ops@" + "example." * 32 + "org"}, "target", id="a long mail address"),
        pytest.param({**MAIL, "target": "ops@ex\u00e4mple.org"}, "target", id="a mail address of other letters"),
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
        ({"channels": ["ops", "none"]}, "channels"),
        ({"channels": ["theirs"]}, "channels"),
        ({"channels": ["gone"]}, "channels"),
        ({"channels": []}, "channels"),
        ({"channels": ["ops"] * 21}, "channels"),
        ({"channels": "ops"}, "channels"),
        ({"channels": [["ops"]]}, "channels"),
        ({"tags": "x"}, "tags"),
        ({"recovery": 1}, "recovery"),
        ({"calendar": "none"}, "calendar"),
        ({"threshold": 3}, "threshold"),
        ({"kind": "dead_letters", "threshold": 0}, "threshold"),
        ({"kind": "overran"}, "expected_within"),
        ({"kind": "flapping", "job_glob": "a:*"}, "job_glob"),
        ({"kind": "weekly_digest", "calendar": "x"}, "calendar"),
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
    answer = api().post("/v1/alert-rules", {"name": "x", "kind": "failed", "channels": ["ops"], **body})
    assert (answer.status_code, list(answer.json()["fields"])) == (400, [field])
    assert not AlertRule.objects.exists()


def test_names_are_once_while_they_live_and_a_channel_in_use_stays(api):
    client = api()
    channel = client.post("/v1/alert-channels", MAIL).json()
    assert client.post("/v1/alert-channels", MAIL).json()["error"] == "alert_channel_exists"
    rule = {"name": "x", "kind": "failed", "channels": ["ops"], "throttle": "10m"}
    made = client.post("/v1/alert-rules", rule)
    assert (made.status_code, made.json()["throttle"], made.json()["job_glob"]) == (201, "600s", "*")
    assert client.post("/v1/alert-rules", rule).json()["error"] == "alert_rule_exists"
    assert client.delete(f"/v1/alert-channels/{channel['id']}").json()["error"] == "alert_channel_in_use"
    assert client.delete(f"/v1/alert-rules/{made.json()['id']}").status_code == 204
    assert client.delete(f"/v1/alert-rules/{made.json()['id']}").status_code == 404
    assert client.delete(f"/v1/alert-channels/{channel['id']}").status_code == 204
    assert client.get("/v1/alert-channels").json() == client.get("/v1/alert-rules").json() == []
    assert client.post("/v1/alert-channels", MAIL).status_code == 201


@pytest.mark.parametrize("number", ["9" * 5000, "\u00b2", "x"], ids=["5000 digits", "a power of two", "no number"])
def test_what_is_no_number_is_of_no_alert_channel(api, number):
    assert api().delete(f"/v1/alert-channels/{number}").status_code == 404


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


def test_of_a_channel_that_does_not_answer_the_list_says_so(api, now):
    AlertChannelFactory(failures=2, closed_until=now, error="it answered 500")
    (row,) = api().get("/v1/alert-channels").json()
    assert (row["failures"], row["closed_until"], row["error"]) == (2, "2026-03-02T12:00:00.000000Z", "it answered 500")


@pytest.mark.parametrize(
    ("path", "body", "fields"),
    [
        ("channels", {"kind": "email", "name": "", "target": "x"}, {"name", "target"}),
        ("rules", {"kind": "missed", "grace": "1s", "threshold": 3}, {"name", "channels", "grace", "threshold"}),
        (
            "exemptions",
            {"duration": "91d", "rule": "none", "throttle": "x"},
            {"effect", "duration", "note", "throttle", "rule"},
        ),
    ],
)
def test_all_that_is_wrong_is_said_at_once(api, path, body, fields):
    answer = api().post(f"/v1/alert-{path}", body)
    assert (answer.status_code, set(answer.json()["fields"])) == (400, fields)


def test_in_the_admin_a_test_goes_over_the_selected_channels_that_are_there(now):
    channel, gone = AlertChannelFactory(), AlertChannelFactory(deleted_at=now)
    root = Client()
    root.force_login(User.objects.create_superuser("root"))
    said = {"action": "send_test", "_selected_action": [str(channel.pk), str(gone.pk)]}
    answer = root.post(reverse("admin:scheduler_alertchannel_changelist"), said, follow=True)
    assert "1 test is on its way" in answer.content.decode()
    assert Alert.objects.get().channel == channel


def test_alerts_come_in_pages_newest_first(api):
    rule = AlertRuleFactory()
    pks = sorted((str(AlertFactory(rule=rule).pk) for _ in range(3)), reverse=True)
    client, found, path = api(), [], "/v1/alerts?page_size=2"
    while path:
        page = client.get(path).json()
        found += [row["id"] for row in page["results"]]
        path = page["next"]
    assert found == pks


def test_a_rule_is_changed_where_something_is_said_and_that_is_audited(api, now):
    one, two = AlertChannelFactory(name="ops"), AlertChannelFactory(name="boss")
    client, calendar = api(), CalendarFactory(name="office")
    rule = {"name": "x", "kind": "missed", "channels": ["ops"], "job_glob": "a:*", "grace": "90s"}
    made = client.post("/v1/alert-rules", rule).json()
    path = f"/v1/alert-rules/{made['id']}"
    said = {"name": "y", "channels": ["boss"], "tags": ["night"], "calendar": "office", "recovery": False}
    assert client.put(path, {"job_glob": None}).json()["job_glob"] == "*"
    assert client.put(path, {"job_glob": "a:*"}).json()["grace"] == "90s"
    answer = client.put(path, said)
    assert (answer.status_code, client.get(path).json()) == (200, answer.json())
    assert answer.json() == made | said
    assert client.put(path, {}).json() == answer.json()
    assert list(AlertRule.objects.get().routes.values_list("channel", flat=True)) == [two.pk]
    edits = AuditEvent.objects.filter(action="alert_rule.updated").order_by("pk")
    assert [list(edit.diff) for edit in edits][:2] == [["job_glob"]] * 2
    assert edits[2].diff["channels"] == [["ops"], ["boss"]]
    assert "kind" not in edits[2].diff
    # Nothing new is no event.
    client.put(path, said)
    assert edits.count() == 3
    # What is of its old kind alone goes with it.
    client.put(path, {"grace": "5m"})
    changed = client.put(path, {"kind": "failed", "throttle": "1m"}).json()
    assert (changed["grace"], changed["throttle"], changed["recovery"]) == ("60s", "60s", False)
    assert client.put(path, {"throttle": None}).json()["throttle"] == "0s"
    assert client.put(path, {"throttle": "0s"}).json()["throttle"] == "0s"  # as it was answered
    for field in ("id", "tenant", "created_at"):
        told = client.put(path, {field: made[field]}).json()["fields"]
        assert told == {field: [f"The {field} of a rule stays what it is. Leave it out."]}
    assert list(client.put(path, {"grace": "5m"}).json()["fields"]) == ["grace"]
    # A channel that is told no more may go, a calendar that keeps a rule quiet may not.
    assert client.delete(f"/v1/alert-channels/{one.pk}").status_code == 204
    assert client.delete(f"/v1/calendars/{calendar.pk}").json()["error"] == "calendar_in_use"
    client.delete(path)
    assert client.delete(f"/v1/calendars/{calendar.pk}").status_code == 204
    assert client.put(path, said).status_code == 404
    assert client.get(path).status_code == 404


@pytest.mark.parametrize("shown", ["slack://***", "tgram://***"])
def test_nothing_but_the_service_is_shown_of_an_apprise_channel(api, shown):
    client = api()
    scheme = shown.partition(":")[0]
    made = client.post("/v1/alert-channels", {"name": "ops", "kind": "apprise", "target": f"{scheme}://t0p/s3c/ret"})
    assert (made.status_code, made.json()["target"], made.json()["secret"]) == (201, shown, "")
    text = str(list(AuditEvent.objects.values())) + client.get("/v1/alert-channels").content.decode()
    assert "t0p" not in text
    assert "s3c" not in text


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"note": None}, "note"),
        ({"note": ""}, "note"),
        ({"note": " "}, "note"),
        ({"duration": None}, "duration"),
        ({"duration": "91d"}, "duration"),
        ({"duration": 1e-9}, "duration"),
        ({"effect": "mute"}, "effect"),
        ({"rule": "none"}, "rule"),
        ({"rule": "theirs"}, "rule"),
        ({"throttle": "5m"}, "effect"),
        ({"effect": "override"}, "effect"),
        ({"effect": "override", "grace": "1s"}, "grace"),
        ({"until": "2027-01-01T00:00:00Z"}, "until"),
    ],
)
def test_what_is_no_exemption_is_refused_by_its_field(api, body, field):
    AlertRuleFactory(name="theirs", tenant="other", channel__tenant="other")
    said = {"effect": "snooze", "duration": "1h", "note": "why", **body}
    answer = api("alerts:snooze").post("/v1/alert-exemptions", {k: v for k, v in said.items() if v is not None})
    assert (answer.status_code, list(answer.json()["fields"])) == (400, [field])
    assert not AlertExemption.objects.exists()


def test_an_exemption_is_listed_while_it_is_in_effect_and_ended_once(api, now, clock):
    AlertRuleFactory(name="night")
    client = api("alerts:read", "alerts:snooze")
    said = {"effect": "override", "rule": "night", "job_glob": "a:*", "throttle": "1h", "duration": "2h", "note": "why"}
    made = client.post("/v1/alert-exemptions", said)
    assert made.status_code == 201
    assert made.json() | {"rule": "night", "throttle": "3600s", "grace": None, "note": "why"} == made.json()
    assert client.get("/v1/alert-exemptions").json() == [made.json()]
    assert client.post("/v1/alert-exemptions", said | {"throttle": "0s"}).json()["throttle"] == "0s"
    clock.tick(timedelta(hours=3))
    assert client.get("/v1/alert-exemptions").json() == []
    assert client.delete(f"/v1/alert-exemptions/{made.json()['id']}").status_code == 404
    again = client.post("/v1/alert-exemptions", said).json()
    assert client.delete(f"/v1/alert-exemptions/{again['id']}").status_code == 204
    assert client.delete(f"/v1/alert-exemptions/{again['id']}").status_code == 404
    assert client.get("/v1/alert-exemptions").json() == []
    actions = AuditEvent.objects.filter(target_type="alert_exemption").order_by("pk").values_list("action", flat=True)
    assert list(actions) == ["alert_exemption.created"] * 3 + ["alert_exemption.ended"]
