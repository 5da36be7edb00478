"""Every page says its instants in one way: in the viewer's zone, on hover in the job's and in UTC."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.contrib.auth.models import User
from django.template import Context, Template

from tests.factories import (
    DeadLetterFactory,
    JobFactory,
    PreferencesFactory,
    QueueEntryFactory,
    RunFactory,
    SkippedSpanFactory,
    TriggerFactory,
)
from tests.scheduler.dashboard.markup import Page

pytestmark = pytest.mark.django_db
VIENNA = "Europe/Vienna"


@pytest.fixture
def letter(now):
    """Of a job whose schedule is told in Vienna, which has something on every page."""
    job = JobFactory(job_key="ops:vienna")
    TriggerFactory(job=job, timezone=VIENNA, every=timedelta(minutes=20))
    SkippedSpanFactory(job=job, first_at=now - timedelta(hours=2), last_at=now - timedelta(hours=1), count=2)
    QueueEntryFactory(job=job, run__scheduled_for=now + timedelta(minutes=20), available_at=now + timedelta(minutes=20))
    RunFactory(job=job, completed=True)
    return DeadLetterFactory(job=job, fingerprint="x")


@pytest.mark.parametrize(
    ("path", "least"),
    [
        ("/next?window=1h", 3),
        ("/letters?fingerprint=x", 2),
        ("/letters/{letter}", 2),
        ("/missed", 3),
        ("/missed/ops:vienna", 2),
        ("/runs", 1),
        ("/runs/planned", 1),
        ("/jobs/ops:vienna", 3),
    ],
)
def test_instants_of_a_job_say_its_zone_and_utc_on_hover(viewer, letter, path, least):
    page = Page(viewer.get(path.format(letter=letter.pk)))
    titles = [time["title"].split("\n") for time in page.all("time")]
    both = [title for title in titles if len(title) == 2 and title[0].endswith(f"+01:00 {VIENNA}")]
    assert len(both) >= least
    assert all(title[-1].endswith(" UTC") for title in titles)


def test_the_zone_of_a_job_is_named_where_it_is_another_than_the_viewers(viewer, letter):
    preview = f"/jobs/preview?t0-text=0+2+*+*+*&t0-timezone={VIENNA}"
    page = Page(viewer.get("/jobs/ops:vienna"))
    assert f"Times are UTC ; in {VIENNA} on hover" in page.text
    assert page.all("span", data_unless_zone=VIENNA), "the script leaves it out where the browser's is the same"
    assert f"Its next fires: (in {VIENNA} on hover)" in Page(viewer.get(preview)).text
    PreferencesFactory(user=User.objects.get(username="vera"))
    page = Page(viewer.get("/jobs/ops:vienna"))
    assert f"Times are in {VIENNA} ." in page.text
    assert "on hover" not in page.text + Page(viewer.get(preview)).text


@pytest.mark.parametrize(
    ("sentence", "shown"),
    [
        ("It died 2026-03-02T12:00:00+01:00.", "It died <2026-03-02T11:00:00.000000Z 2026-03-02 11:00:00 UTC>."),
        ("No pass since 2026-03-02T12:00:00Z.", "No pass since <2026-03-02T12:00:00.000000Z 2026-03-02 12:00:00 UTC>."),
        (
            "The fire of 2026-03-02 12:00:00 UTC is out.",
            "The fire of <2026-03-02T12:00:00.000000Z 2026-03-02 12:00:00 UTC> is out.",
        ),
        ("2026-03-02 12:00:00.25 UTC", "<2026-03-02T12:00:00.250000Z 2026-03-02 12:00:00 UTC>"),
        # No instant, or none that there is: as it was said, and what is no markup stays none.
        ("At 2026-03-02 12:00:00 <b>", "At 2026-03-02 12:00:00 &lt;b&gt;"),
        ("Until 2026-02-30T12:00:00Z.", "Until 2026-02-30T12:00:00Z."),
        ("12026-03-02T12:00:00Zx 2026-03-02T25:00:00Z", "12026-03-02T12:00:00Zx 2026-03-02T25:00:00Z"),
    ],
)
def test_instants_in_what_services_say_are_times(sentence, shown):
    html = Template("{% load texts %}{% told sentence %}").render(Context({"sentence": sentence}))
    if "<time" in html:
        before, rest = html.split('<time datetime="')
        instant, rest = rest.split('" title', 1)
        text, after = rest.split(">", 1)[1].split("</time>")
        html = f"{before}<{instant} {text}>{after}"
    assert html == shown
