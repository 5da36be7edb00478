"""What every page is made of: nothing that the policy would refuse, nothing that somebody wrote as markup."""

from __future__ import annotations

import re
import sys
from datetime import timedelta
from urllib.parse import quote

import pytest
from django.conf import settings
from django.contrib.staticfiles import finders

from scheduler.models import Job, Run
from tests.factories import (
    AlertExemptionFactory,
    AlertFactory,
    AlertRuleFactory,
    AttemptFactory,
    AuditEventFactory,
    CalendarFactory,
    CalendarRuleFactory,
    ConcurrencyGroupFactory,
    DeadLetterFactory,
    JobFactory,
    QueueEntryFactory,
    RunFactory,
    RunLogFactory,
    SlotFactory,
    TriggerFactory,
)
from tests.scheduler.dashboard.markup import Page

pytestmark = pytest.mark.django_db

EVIL = "<script>alert(1)</script><img src=x onerror=alert(2)>\"'{{ 7|add:7 }}"
HIDDEN = "\u202egpj.exe\x1b[8m\x9b\u2066"
"""Turned around it is an .exe that ends like a picture; and a terminal hides what follows."""
KEY = "x:<img src=x onerror=alert(3)>'\""


@pytest.fixture
def pages(now) -> dict[str, str]:
    """Pages that show what a hostile caller could write anywhere."""
    job = JobFactory(
        job_key=KEY,
        tenant="other",
        description=EVIL,
        tags=[EVIL],
        require=[EVIL],
        action={"type": "command", "shell": EVIL},
        paused_at=now,
        paused_reason=EVIL,
    )
    TriggerFactory(job=job, config_error=EVIL, managed_by="<b>api</b>")
    calendar = CalendarFactory(name=EVIL, tenant="other", description=EVIL)
    CalendarRuleFactory(calendar=calendar, effect="exclude", name=EVIL, window_start="12:05", window_end="12:30")
    TriggerFactory(job=JobFactory(job_key=f"{KEY}2", paused_at=now), calendar=calendar)
    dead = RunFactory(job=job, dead=True, attempt=2, error=EVIL, runner_id=EVIL, reason=EVIL)
    AttemptFactory(run=dead, attempt=1, error=EVIL, runner_id=EVIL)
    RunLogFactory(run=dead, message=EVIL, level="<b>info", fields={EVIL: EVIL})
    live = QueueEntryFactory(
        job=job,
        claimed=True,
        holder__runner__runner_id=EVIL,
        holder__runner__capabilities=[EVIL],
        holder__runner__tags=[EVIL],
        holder__runner__drained_at=now,
        holder__runner__drain_reason=EVIL[:255],
        holder__instance_id=EVIL,
        run__scheduled_for=now,
    )
    QueueEntryFactory(job=job, run__scheduled_for=now + timedelta(minutes=5))
    letter = DeadLetterFactory(
        job=job, error=EVIL, fingerprint=EVIL, note=EVIL, dead_reason="<b>x", run__metadata={EVIL: EVIL}
    )
    gone = {"verdict": "skipped", "problem": "skipped", "finished_at": now, "reason": EVIL}
    RunFactory(job=job, scheduled_for=now - timedelta(hours=1), **gone)
    group = ConcurrencyGroupFactory(name=EVIL, tenant="other")
    limited = JobFactory(job_key=f"{KEY}3", concurrency_group=group, tags=[EVIL])
    SlotFactory(run=QueueEntryFactory(job=limited, claimed=True).run, budget=f"group:{group.pk}")
    QueueEntryFactory(job=limited, state=1, run__scheduled_for=now)
    AuditEventFactory(actor_id=EVIL, action=EVIL[:64], target_id=EVIL, diff={EVIL: [EVIL, {EVIL: EVIL}]})
    rule = AlertRuleFactory(name=EVIL, job_glob=EVIL, tags=[EVIL], channel__name=EVIL, channel__target=EVIL)
    AlertExemptionFactory(rule=rule, note=EVIL, created_by=EVIL, job_glob=EVIL)
    AlertFactory(rule=rule, job_key=KEY, error=EVIL, detail={"error": EVIL})
    name = quote(KEY, safe="")
    return {
        "jobs": "/jobs",
        "job": f"/jobs/{name}",
        "jobs to pause": "/jobs/bulk?do=pause&all=1",
        "job form": f"/jobs/{name}/edit",
        "backfill": f"/jobs/{name}/backfill",
        "search": f"/jobs?q={quote(EVIL)}",
        "runs": "/runs",
        "filtered": f"/runs?job={name}&runner={quote(EVIL)}",
        "planned": f"/runs/planned?job={name}",
        "run": f"/runs/{dead.id}",
        "live": f"/runs/{live.run_id}",
        "log": f"/runs/{dead.id}/log?q={quote(EVIL[:20])}",
        "runners": "/runners",
        "runner": f"/runners/{live.holder.runner_id}",
        "letters": "/letters",
        "letter group": f"/letters?fingerprint={quote(EVIL)}",
        "letter": f"/letters/{letter.pk}",
        "letters to replay": f"/letters/confirm?do=replay&fingerprint={quote(EVIL)}&job={name}",
        "missed": "/missed",
        "missed of a job": f"/missed/{name}",
        "budgets": "/budgets",
        "alerts": "/alerts",
        "snooze": f"/alerts/exemptions/new?rule={quote(EVIL)}&job={quote(EVIL)}",
        "audit": "/audit",
        "audit of one": f"/audit?actor_id={quote(EVIL)}",
        "overlap": "/overlap?by=tag&day=2026-03-02",
        "overlap by runner": "/overlap?by=runner",
        "next": "/next",
        "calendars": "/calendars",
        "calendar": f"/calendars/{calendar.pk}",
        "calendar year": f"/calendars/{calendar.pk}/year",
        "missing job": "/jobs/" + quote("no:" + EVIL.replace("/", ""), safe=""),
        "missing": "/" + quote(EVIL),
        "refused": f"/runs?state={quote(EVIL)}",
    }


def test_nothing_that_a_caller_wrote_becomes_markup(operator, pages):
    for name, path in pages.items():
        page = Page(operator.get(path))
        assert page.refused == [], name
        assert not page.all("img", src="x"), name
        assert not page.all("b", class_=""), name
        assert "alert(" in page.text or name in ("missing", "refused", "search", "filtered"), name


def test_nothing_that_a_caller_wrote_hides_or_turns_around_what_stands_beside_it(
    operator, admin_client, monkeypatch, request
):
    monkeypatch.setattr(sys.modules[__name__], "EVIL", HIDDEN)
    pages = request.getfixturevalue("pages")
    seen = set()
    for name, path in pages.items():
        page = operator.get(path).content.decode()
        fields = "".join(re.findall(r"<textarea.*?</textarea>|<input[^>]*>|<option[^>]*>", page, re.DOTALL))
        page = re.sub(r"<textarea.*?</textarea>|<(?:input|option)[^>]*>", "", page, flags=re.DOTALL)
        assert not re.search("[\x00-\x08\x0e-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069]", page), name
        if r"\u202egpj.exe␛[8m\u009b\u2066" in page:
            seen.add(name)
        if name == "job form":
            assert HIDDEN in fields  # it is sent back as it was
    assert {
        "job",
        "run",
        "letter",
        "letters",
        "runner",
        "missed of a job",
        "alerts",
        "audit",
        "calendars",
    } <= seen
    run = Run.objects.get(verdict="dead", attempt=2)
    page = admin_client.get(f"/admin/scheduler/run/{run.pk}/change/", follow=True).content.decode()
    assert r"\u202egpj" in page
    assert "\u202e" not in page


def test_no_page_has_inline_script_or_style_or_another_host(operator, client, pages):
    for path in pages.values():
        assert Page(operator.get(path)).refused == []
    assert Page(client.get("/sign-in")).refused == []


def test_the_policy_of_every_answer_forbids_inline_and_other_hosts(operator, client, pages):
    answers = [operator.get(path) for path in pages.values()]
    for answer in [
        *answers,
        client.get("/jobs"),
        client.get("/sign-in"),
        operator.get("/admin/"),
        operator.get("/health"),
    ]:
        policy = answer["Content-Security-Policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert "http:" not in policy
        assert "https:" not in policy


def test_htmx_neither_evaluates_nor_injects_nor_leaves_the_site(viewer):
    [meta] = Page(viewer.get("/jobs")).all("meta", name="htmx-config")
    for said in (
        '"includeIndicatorStyles": false',
        '"allowEval": false',
        '"allowScriptTags": false',
        '"selfRequestsOnly": true',
    ):
        assert said in meta["content"]


def test_every_static_file_that_a_page_names_is_there(viewer, client):
    for answer in (viewer.get("/jobs"), client.get("/sign-in")):
        named = re.findall(r'(?:src|href)="/static/([^"]+)"', answer.content.decode())
        assert {"croniq.css", "croniq-parts.css", "croniq-time.js"} <= set(named)
        assert [path for path in named if finders.find(path) is None] == []
    assert settings.STATIC_URL == "/static/"
    assert client.get("/favicon.ico")["Location"] == "/static/croniq.svg"


def test_states_are_words_and_each_has_its_class(viewer, pages):
    for path in (pages["runs"], pages["job"]):
        page = Page(viewer.get(path))
        states = page.all("span", class_="state")
        assert states
        for values in states:
            word = values["class"].split("state-")[-1]
            assert {"claimed": "Running", "config_error": "Config error"}.get(word, word.capitalize()) in page.text


def test_a_page_names_every_field_and_speaks_of_its_cells_on_a_narrow_screen(viewer, pages):
    for path in ("/jobs", "/runs", "/runs/planned", "/next", "/calendars"):
        page = Page(viewer.get(path))
        labels = {values["for"] for values in page.all("label")}
        fields = {
            values["id"] for tag in ("input", "select") for values in page.all(tag) if values.get("type") != "hidden"
        }
        assert fields <= labels
        assert page.all("meta", name="viewport")
        assert all("data-label" in values or "first" in values.get("class", "") for values in page.all("td"))
    assert Job.objects.count() == 3
