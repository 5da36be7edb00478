"""Alerts over apprise: in a process of its own, which reaches what the site allows and nothing else."""

from __future__ import annotations

import json
import os

import pytest

from croniq_site.kernel.clock import ManualClock
from scheduler.models import Alert
from scheduler.services.alerts import transports
from scheduler.services.alerts.deliver import deliver_next
from tests.factories import AlertChannelFactory, AlertFactory, AlertRuleFactory
from tests.support.receivers import webhook

pytestmark = pytest.mark.django_db


@pytest.fixture
def hook():
    with webhook() as receiver:
        yield receiver


def to(url: str) -> Alert:
    channel = AlertChannelFactory(kind="apprise", target=url, secret="")
    return AlertFactory(rule=AlertRuleFactory(channel=channel), detail={"error": "exit code 3"})


def sent(alert: Alert, now) -> Alert:
    assert deliver_next(ManualClock(now))
    alert.refresh_from_db()
    return alert


def test_a_service_gets_what_happened_once_and_one_that_refuses_gets_it_again(now, hook, settings):
    settings.CRONIQ_ALERT_HTTP_ALLOW = ["localhost"]
    alert = to(hook.url.replace("http://127.0.0.1", "json://localhost"))
    hook.status = 500
    assert sent(alert, now).error == "json://***: the service did not take it"
    hook.status = 204
    assert sent(alert, alert.next_at).state == "delivered"
    body = json.loads(hook.seen[-1][1])
    assert (len(hook.seen), body["title"]) == (2, "Croniq: demo:job failed for good")
    assert f"id: {alert.pk}" in body["message"]
    assert "error: exit code 3" in body["message"]


@pytest.mark.parametrize(
    ("url", "allow", "why"),
    [
        ("json://169.254.169.254/t0p", [], "credentials, and no CRONIQ_ALERT_HTTP_ALLOW names it"),
        ("json://localhost:9/t0p", ["hooks.example.org"], "not among what CRONIQ_ALERT_HTTP_ALLOW names"),
        ("rsyslog://127.0.0.1:9", ["10.0.0.0/8"], "not among what CRONIQ_ALERT_HTTP_ALLOW names"),
        ("nosuchservice://t0p", [], "no service of apprise takes this URL"),
        ("syslog://local0/?x=t0p", [], "it would tell this machine, not somebody"),
        (f"workflow://localhost:9/t0p/x/?template={__file__}", [], "it would open a file of this machine"),
    ],
    ids=["the machine's credentials", "another host", "by UDP", "no service", "the machine itself", "its files"],
)
def test_what_is_closed_is_not_reached_and_the_log_says_so_without_the_url(now, settings, url, allow, why):
    settings.CRONIQ_ALERT_HTTP_ALLOW = allow
    alert = sent(to(url), now)
    assert alert.state == "waiting"
    assert why in alert.error
    assert "t0p" not in alert.error


def test_a_channel_is_one_service_however_many_its_url_names(now, hook):
    url = hook.url.replace("http:", "json:")
    assert sent(to(f"{url},{url}"), now).state == "delivered"
    assert len(hook.seen) == 1


def test_a_redirect_leads_nowhere_that_is_closed(now, hook, settings):
    settings.CRONIQ_ALERT_HTTP_ALLOW = ["127.0.0.1/32"]
    hook.status, hook.location = 307, "http://169.254.169.254/latest"
    alert = sent(to(hook.url.replace("http:", "json:")), now)
    assert "credentials" in alert.error or "did not take it" in alert.error
    assert (alert.state, len(hook.seen)) == ("waiting", 1)


def test_one_that_hangs_is_ended(now, hook, monkeypatch):
    monkeypatch.setattr(transports, "PROCESS_SECONDS_MOST", 0.2)
    hook.status = 0
    assert "did not answer within" in sent(to(hook.url.replace("http:", "json:")), now).error


def test_it_knows_nothing_of_this_process(now, hook, monkeypatch):
    monkeypatch.setenv("DATABASE_PASSWORD", "s3cret")
    seen = {}
    run = transports.subprocess.run

    def look(*args, **options):
        seen.update(options["env"])
        return run(*args, **options)

    monkeypatch.setattr(transports.subprocess, "run", look)
    assert sent(to(hook.url.replace("http:", "json:")), now).state == "delivered"
    assert "DATABASE_PASSWORD" not in seen
    assert set(seen) <= {*os.environ, "PYTHONPATH"}
