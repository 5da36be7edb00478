"""Only the materializer stops: the pages go on answering, and each of them says it."""

from __future__ import annotations

import contextlib
import signal
from datetime import timedelta

import httpx
import pytest
from django.conf import global_settings
from django.contrib.auth.models import Group, User
from django.db.models import F

from runners.models import Heartbeat
from scheduler.dashboard.frame import SILENT
from tests.e2e.installation import PATIENCE_SECONDS, Installation
from tests.support.polling import poll_until

pytestmark = [pytest.mark.realtime, pytest.mark.django_db(transaction=True)]

SAID, REAPER = "The materializer is not at work", "The reaper is not at work"
PASSWORD = "a long secret of hers"
PATHS = ("/jobs", "/runs", "/palette")


def signed_in(site: Installation) -> httpx.Client:
    user = User.objects.create_user("vera", password=PASSWORD)
    user.groups.set([Group.objects.get(name="viewer")])
    browser = httpx.Client(base_url=site.base_url, timeout=40)
    browser.get("/sign-in")
    fields = {"username": "vera", "password": PASSWORD, "csrfmiddlewaretoken": browser.cookies["csrftoken"]}
    assert browser.post("/sign-in", data=fields).status_code == 302
    return browser


def says_it(browser: httpx.Client) -> bool:
    answers = [browser.get(path) for path in PATHS]
    assert [answer.status_code for answer in answers] == [200] * len(PATHS)
    return all(SAID in answer.text and REAPER not in answer.text for answer in answers)


def test_a_materializer_that_is_killed_or_stopped_is_told_of_on_every_page_until_another_works(site, settings):
    settings.PASSWORD_HASHERS = global_settings.PASSWORD_HASHERS  # those that the server knows
    materializer, reaper = site.processes[1:]
    poll_until(lambda: Heartbeat.objects.filter(tick_at__isnull=False).count() == 3, PATIENCE_SECONDS, what="all work")
    with contextlib.closing(signed_in(site)) as browser:
        assert not any(SAID in browser.get(path).text for path in PATHS)
        site.stop(materializer, signal.SIGKILL)
        # The time passes for its row alone: 40 seconds are not waited for.
        silent = Heartbeat.objects.filter(kind="materialize")
        silent.update(beat_at=F("beat_at") - SILENT, tick_at=F("tick_at") - SILENT - timedelta(seconds=1))
        poll_until(lambda: says_it(browser), PATIENCE_SECONDS, what="the pages say that the killed one is silent")
        another = site.start("materialize")
        poll_until(lambda: not any(SAID in browser.get(path).text for path in PATHS), PATIENCE_SECONDS, what="it works")
        site.stop(another)
        poll_until(lambda: says_it(browser), PATIENCE_SECONDS, what="the pages say that it was stopped")
    assert reaper.poll() is None
