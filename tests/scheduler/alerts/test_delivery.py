"""How alerts go out: once for each cause that arrives, tried again for those that do not, never in anybody's way."""

from __future__ import annotations

import hashlib
import hmac
import json
import socket
import ssl
import threading
from datetime import timedelta
from pathlib import Path

import pytest

from croniq_site import configuration
from croniq_site.kernel.clock import ManualClock
from scheduler.domain.alerts import ATTEMPTS_MOST, wait_after
from scheduler.models import Alert, AlertChannel, AlertRule
from scheduler.services.alerts import transports
from scheduler.services.alerts.deliver import LEASE, Sending, claim_alert, deliver_next, record_failure, record_success
from scheduler.workers.alerter import END_SECONDS, PAUSE_SECONDS, REST_SECONDS, pass_once
from tests.factories import AlertChannelFactory, AlertFactory, AlertRuleFactory
from tests.runners.agent import local_http
from tests.support.polling import poll_until
from tests.support.races import Session, is_waiting_for_lock, together
from tests.support.receivers import SLOWLY, mail_server, webhook

pytestmark = pytest.mark.django_db

SECOND, MINUTE = timedelta(seconds=1), timedelta(minutes=1)


@pytest.fixture
def hook():
    with webhook() as receiver:
        yield receiver


@pytest.fixture
def mail(settings, monkeypatch):
    with mail_server() as server:
        monkeypatch.setenv("CRONIQ_SMTP_URL", server.url)
        settings.CRONIQ_SMTP = configuration.smtp_server(configuration.environ.Env(), "CRONIQ_SMTP_URL")
        settings.CRONIQ_MAIL_FROM = "croniq@example.org"
        yield server


@pytest.fixture
def waiting_little(monkeypatch):
    """Do something without patience for a receiver, which is to hang: one that answers may take its time."""

    def do(is_hanging, work, *args):
        with monkeypatch.context() as patch:
            if is_hanging:
                patch.setattr(transports, "SECONDS_MOST", 0.2)
            return work(*args)

    return do


def to(hook, **rule) -> AlertRule:
    return AlertRuleFactory(channel=AlertChannelFactory(target=hook.url, secret="s3cret"), **rule)


def by_mail() -> AlertRule:
    return AlertRuleFactory(channel=AlertChannelFactory(kind="email", target="ops@example.org", secret=""))


def states() -> dict[str, int]:
    found = [alert.state for alert in Alert.objects.all()]
    return {state: found.count(state) for state in set(found)}


def deliver_all(now) -> int:
    count = 0
    while deliver_next(ManualClock(now)):
        count += 1
    return count


def test_a_webhook_gets_what_happened_signed_and_once(now, hook):
    alert = AlertFactory(rule=to(hook, name="night"), detail={"error": "exit code 3 ü"})
    assert deliver_all(now) == 1
    ((headers, body),) = hook.seen
    assert json.loads(body) == {
        "id": str(alert.pk),
        "event": "failed",
        "rule": "night",
        "job_key": "demo:job",
        "tenant": "default",
        "at": now.isoformat(),
        "detail": {"error": "exit code 3 ü"},
    }
    seconds = str(int(now.timestamp()))
    digest = hmac.new(b"s3cret", seconds.encode() + b"." + body, hashlib.sha256).hexdigest()
    assert headers["x-croniq-signature"] == f"t={seconds},v1={digest}"
    assert (headers["x-croniq-delivery"], headers["content-type"]) == (str(alert.pk), "application/json")
    alert.refresh_from_db()
    assert (alert.state, alert.attempt, alert.finished_at, alert.error) == ("delivered", 1, now, "")


def test_a_mail_says_what_happened_and_has_the_alerts_id(now, mail):
    alert = AlertFactory(rule=by_mail(), detail={"error": "exit code 3"})
    assert deliver_all(now) == 1
    (message,) = mail.taken
    assert (message["Subject"], message["To"]) == ("Croniq: demo:job failed for good", "ops@example.org")
    assert (message["From"], message["Message-ID"]) == ("croniq@example.org", f"<{alert.pk}@croniq>")
    assert "error: exit code 3" in message.get_payload()
    assert states() == {"delivered": 1}


@pytest.mark.parametrize(("status", "said"), [(500, "answered 500"), (302, "answered 302"), (0, "did not answer")])
def test_a_webhook_that_fails_and_recovers_gets_each_alert_once_more_with_its_id(
    now, hook, waiting_little, status, said
):
    alert = AlertFactory(rule=to(hook))
    hook.status = status
    assert waiting_little(not status, deliver_all, now) == 1
    alert.refresh_from_db()
    assert (alert.state, alert.next_at) == ("waiting", now + wait_after(1))
    assert alert.error.startswith("http://127.0.0.1:")
    assert said in alert.error
    # Its path may be a key.
    assert "/services" not in alert.error
    assert deliver_all(now + wait_after(1) - SECOND) == 0
    hook.status = 204
    assert deliver_all(now + wait_after(1)) == 1
    # Who had no patience may have left before the request was read.
    assert hook.ids in ([[str(alert.pk)] * 2] if status else [[str(alert.pk)] * n for n in (1, 2)])
    alert.refresh_from_db()
    assert (alert.state, alert.attempt, alert.error) == ("delivered", 2, "")
    assert deliver_all(now + timedelta(days=1)) == 0


# What a server says may quote what it was told, and so a password: its code is told alone.
@pytest.mark.parametrize(("mode", "said"), [("refuse", "SMTPDataError 451"), ("hang", "SMTPServerDisconnected")])
def test_a_mail_server_that_fails_and_recovers_takes_each_mail_once(now, mail, waiting_little, mode, said):
    alert = AlertFactory(rule=by_mail())
    mail.mode = mode
    assert waiting_little(mode == "hang", deliver_all, now) == 1
    alert.refresh_from_db()
    assert (alert.state, alert.error) == ("waiting", f"127.0.0.1: the mail was not taken ({said})")
    mail.mode = "take"
    assert deliver_all(now + wait_after(1)) == 1
    assert len(mail.taken) == 1
    assert states() == {"delivered": 1}


def test_a_mail_server_that_is_to_begin_tls_and_does_not_is_told_nothing(now, mail, settings):
    settings.CRONIQ_SMTP = {**settings.CRONIQ_SMTP, "use_tls": True}
    AlertFactory(rule=by_mail())
    assert deliver_all(now) == 1
    assert (mail.taken, states()) == ([], {"waiting": 1})


def test_what_is_no_answer_is_none(now, hook):
    alert = AlertFactory(rule=to(hook))
    hook.says = b"hello\r\n\r\n"
    deliver_all(now)
    alert.refresh_from_db()
    assert alert.error.endswith(": no answer (RemoteProtocolError)")


def test_a_certificate_that_is_not_right_is_told_as_that(now):
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(Path(local_http.__file__).with_name("localhost.pem"))  # signed by itself
    with local_http.serving(lambda request, peer: peer.reply(b""), tls) as server:
        channel = AlertChannelFactory(target=f"https://localhost:{server.port}/key")
        alert = AlertFactory(rule=AlertRuleFactory(channel=channel))
        deliver_all(now)
    alert.refresh_from_db()
    assert alert.error.startswith(f"https://localhost:{server.port}/***: no TLS connection: ")
    assert "certificate verify failed" in alert.error
    assert not server.requests


def test_a_webhook_that_dribbles_has_so_long_in_all(now, hook, waiting_little):
    alert = AlertFactory(rule=to(hook))
    hook.says, hook.dribbles = b"HTTP/1.1 204 No Content\r\nX: " + SLOWLY + b"\r\n\r\n", True
    waiting_little(True, deliver_all, now)
    alert.refresh_from_db()
    assert "did not answer within 0.2 s" in alert.error


def test_a_mail_server_that_dribbles_has_so_long_in_all(now, mail, monkeypatch):
    alert = AlertFactory(rule=by_mail())
    mail.mode = "dribble"
    monkeypatch.setattr(transports, "PROCESS_SECONDS_MOST", 1.0)
    deliver_all(now)
    alert.refresh_from_db()
    assert (alert.state, alert.error) == ("waiting", "127.0.0.1 did not answer within 1 s")


def test_a_name_that_nobody_looks_up_holds_up_no_sender(now, waiting_little, monkeypatch):
    given_up, looked_up = threading.Event(), threading.Event()

    def look_up(*name, **options):
        given_up.wait(10)
        looked_up.set()
        return []

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    alert = AlertFactory(rule=AlertRuleFactory(channel__target="https://hooks.example.org/t0p"))
    waiting_little(True, deliver_all, now)
    assert not looked_up.is_set()
    given_up.set()
    alert.refresh_from_db()
    assert "did not answer within 0.2 s" in alert.error


def test_what_comes_of_an_attempt_is_written_with_the_instant_at_which_it_was_over(now, hook):
    clock, alert = ManualClock(now), AlertFactory(rule=to(hook))
    hook.asked, hook.status = lambda: clock.tick(MINUTE), 500
    assert deliver_next(clock)
    alert.refresh_from_db()
    again = now + MINUTE + wait_after(1)
    assert (alert.began_at, alert.next_at, alert.channel.closed_until) == (now, again, again)
    hook.status = 204
    assert deliver_next(ManualClock(again - SECOND)) is False
    clock.set(again)
    assert deliver_next(clock)
    alert.refresh_from_db()
    assert (alert.began_at, alert.finished_at) == (again, again + MINUTE)


def test_a_sender_rests_between_alerts_and_longer_where_there_are_none(now, hook):
    AlertFactory(rule=to(hook))
    clock = ManualClock(now)
    assert pass_once(clock) == REST_SECONDS > 0, "a storm of alerts takes the cores from claims"
    assert pass_once(clock) == PAUSE_SECONDS


def test_without_a_mail_server_the_log_says_so(now, settings):
    settings.CRONIQ_SMTP = None
    alert = AlertFactory(rule=by_mail())
    deliver_all(now)
    alert.refresh_from_db()
    assert "CRONIQ_SMTP_URL is not set" in alert.error


def test_what_never_arrives_has_failed_at_last(now, hook):
    alert = AlertFactory(rule=to(hook))
    hook.status = 500
    at = now
    for _ in range(ATTEMPTS_MOST):
        assert deliver_all(at) == 1
        alert.refresh_from_db()
        at = alert.next_at or at
    assert (alert.state, alert.attempt, alert.next_at) == ("failed", ATTEMPTS_MOST, None)
    assert len(hook.seen) == ATTEMPTS_MOST
    assert timedelta(hours=1) < at - now < timedelta(hours=3)


def test_what_kills_its_sender_every_time_has_failed_at_last(now, hook):
    alert = AlertFactory(rule=to(hook))
    at = now
    for _ in range(ATTEMPTS_MOST):
        assert (last := claim_alert(at)) is not None
        at += LEASE
    assert claim_alert(at) is None
    # It is over: the last sender lives after all, and comes too late with whatever he says.
    assert not record_success(last, at)
    alert.refresh_from_db()
    assert alert.state == "failed"


def test_a_webhook_does_not_reach_what_gives_out_the_machines_credentials(now, settings):
    channel = AlertChannelFactory(target="http://169.254.169.254/latest/meta-data/")
    alert = AlertFactory(rule=AlertRuleFactory(channel=channel))
    deliver_all(now)
    alert.refresh_from_db()
    assert "credentials, and no CRONIQ_ALERT_HTTP_ALLOW names it" in alert.error


def test_a_webhook_reaches_nothing_but_what_the_site_allows(now, hook, settings):
    settings.CRONIQ_ALERT_HTTP_ALLOW = ["hooks.example.org"]
    alert = AlertFactory(rule=to(hook))
    deliver_all(now)
    alert.refresh_from_db()
    assert "not among what CRONIQ_ALERT_HTTP_ALLOW names" in alert.error
    settings.CRONIQ_ALERT_HTTP_ALLOW = ["127.0.0.0/8"]
    deliver_all(now + wait_after(1))
    assert states() == {"delivered": 1}
    assert len(hook.seen) == 1


# Throttle


def test_of_the_alerts_of_a_job_one_is_said_in_the_time_of_the_throttle(now, hook):
    rule = to(hook, throttle_seconds=600)
    first = AlertFactory(rule=rule)
    AlertFactory(rule=rule)
    other = AlertFactory(rule=rule, job_key="other:job")
    deliver_all(now)
    assert states() == {"delivered": 2, "throttled": 1}
    assert len(hook.ids) == 2
    assert str(other.pk) in hook.ids
    late = AlertFactory(rule=rule, next_at=now + 10 * MINUTE)
    deliver_all(now + 10 * MINUTE)
    late.refresh_from_db()
    assert (late.state, first.rule) == ("delivered", rule)


def test_the_throttle_holds_no_alert_that_was_tried_before(now, hook):
    rule = to(hook, throttle_seconds=600)
    AlertFactory(rule=rule)
    hook.status = 500
    deliver_all(now)
    hook.status = 204
    deliver_all(now + wait_after(1))
    assert states() == {"delivered": 1}


def test_whoever_is_told_to_end_has_the_time_that_any_receiver_may_take_and_the_lease_is_longer():
    assert max(transports.SECONDS_MOST, transports.PROCESS_SECONDS_MOST) < END_SECONDS < LEASE.total_seconds()


def claimed_at_once(session: Session, now) -> Sending | None:
    """What the session claims while another one has a channel; it waits for nobody."""
    pid = session.backend_pid
    found = session.start(claim_alert, now)
    poll_until(lambda: found.done() or is_waiting_for_lock(pid), what="it has claimed, or waits")
    assert found.done()
    return found.result()


@pytest.mark.django_db(transaction=True)
def test_two_alerts_of_a_job_that_are_claimed_at_once_are_one_that_is_said(now, hook, database):
    if database != "postgresql":
        pytest.skip("one writer at a time on SQLite")
    rule = to(hook, throttle_seconds=600)
    for _ in range(2):
        AlertFactory(rule=rule)
    with Session() as second, Session() as first:
        first.begin()
        assert first.run(claim_alert, now) is not None
        assert claimed_at_once(second, now) is None
        first.commit()
    assert claim_alert(now) is None
    assert states() == {"waiting": 1, "throttled": 1}


# Whose it is


@pytest.mark.django_db(transaction=True)
def test_of_many_senders_one_has_an_alert(now, hook):
    alerts = {AlertFactory(rule=to(hook)).pk for _ in range(3)}
    together([lambda: deliver_all(now)] * 4)
    assert sorted(hook.ids) == sorted(str(pk) for pk in alerts)
    assert states() == {"delivered": 3}


def test_what_a_dead_sender_had_is_sent_after_its_lease_with_the_same_id(now, hook):
    alert = AlertFactory(rule=to(hook))
    dead = claim_alert(now)
    assert deliver_all(now + LEASE - SECOND) == 0
    assert deliver_all(now + LEASE) == 1
    assert hook.ids == [str(alert.pk)]
    # It was not dead after all: what it says is of an attempt that is not the last one.
    assert not record_failure(dead, "too late", now + LEASE)
    assert not record_success(dead, now + LEASE)
    alert.refresh_from_db()
    assert (alert.state, alert.error) == ("delivered", "")


def test_who_lost_an_alert_that_is_being_sent_again_says_nothing_about_it(now, hook):
    alert = AlertFactory(rule=to(hook))
    dead = claim_alert(now)
    assert claim_alert(now + LEASE).attempt == 2
    assert not record_success(dead, now + LEASE)
    assert not record_failure(dead, "too late", now + LEASE)
    alert.refresh_from_db()
    assert (alert.state, alert.next_at, alert.error) == ("waiting", now + 2 * LEASE, "")


@pytest.mark.parametrize("model", [AlertRule, AlertChannel])
def test_what_waits_for_a_deleted_rule_or_channel_is_dropped(now, hook, model):
    AlertFactory(rule=to(hook))
    model.objects.update(deleted_at=now)
    assert deliver_all(now) == 0
    assert (states(), hook.seen) == ({"dropped": 1}, [])


def test_a_message_that_a_receiver_never_takes_holds_up_no_other_one(now, hook):
    rule = to(hook)
    first, other = AlertFactory(rule=rule), AlertFactory(rule=rule, next_at=now + SECOND)
    hook.status = 400
    assert deliver_next(ManualClock(now))
    hook.status = 204
    assert deliver_all(now + SECOND) == 1
    assert hook.ids == [str(first.pk), str(other.pk)]
    assert states() == {"waiting": 1, "delivered": 1}


@pytest.mark.django_db(transaction=True)
def test_an_alert_that_is_seen_late_by_one_sender_is_throttled_by_what_another_one_says(now, hook, database):
    """Its transaction ends late: it is the first one for the second sender, while the first one knows nothing of it."""
    if database != "postgresql":
        pytest.skip("one writer at a time on SQLite")
    rule = to(hook, throttle_seconds=600)
    AlertFactory(rule=rule)
    with Session() as second, Session() as first:
        first.begin()
        assert first.run(claim_alert, now) is not None
        AlertFactory(rule=rule, next_at=now - SECOND)
        assert claimed_at_once(second, now) is None
        first.commit()
    assert claim_alert(now) is None
    assert states() == {"waiting": 1, "throttled": 1}


@pytest.mark.django_db(transaction=True)
def test_a_sender_that_stops_while_it_claims_stops_no_other_channel(now, hook, database):
    """Its transaction, and with it the channel, is its own for as long as it is frozen."""
    if database != "postgresql":
        pytest.skip("one writer at a time on SQLite")
    for _ in range(2):
        AlertFactory(rule=to(hook))
    with Session() as other, Session() as frozen:
        frozen.begin()
        its = frozen.run(claim_alert, now)
        found = claimed_at_once(other, now)
        assert found.alert_id != its.alert_id
        assert claimed_at_once(other, now) is None
        frozen.rollback()
    assert claim_alert(now).alert_id == its.alert_id
