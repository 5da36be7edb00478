"""Dead letters as work: groups of equal errors, one letter, and all of a group at once."""

from __future__ import annotations

from datetime import timedelta

import pytest

from runners.models import AuditEvent
from scheduler.dashboard import bulk, letters
from scheduler.models import DeadLetter, QueueEntry, Run
from scheduler.queries import letter_groups
from scheduler.services import letter_groups as group_services
from tests.factories import DeadLetterFactory, JobFactory, RunFactory
from tests.scheduler.dashboard.markup import Page

pytestmark = pytest.mark.django_db

DAY = timedelta(days=1)


def dead(job, fingerprint="exit code <n>", **columns) -> DeadLetter:
    return DeadLetterFactory(job=job, fingerprint=fingerprint, **columns)


@pytest.fixture
def backup(db):
    return JobFactory(job_key="ops:backup", metadata={"depth": 1})


def replayed(letter) -> Run:
    return RunFactory(job=letter.job, kind="replay", replay_of=letter.run, completed=True)


def test_equal_errors_are_one_group_over_all_jobs(viewer, backup, now):
    other = JobFactory(job_key="ops:restore")
    old = dead(backup, created_at=now - DAY)
    dead(other)
    dead(other, "KeyError: <n>")
    replayed(old)
    page = Page(viewer.get("/letters"))
    assert "exit code <n> 1 2 ops:backup and 1 more" in page.text  # to do, letters, jobs
    assert "KeyError: <n> 1 1 ops:restore" in page.text
    assert len(page.links("/letters?fingerprint=")) == 2


def test_what_is_to_do_is_the_same_on_every_page_and_letters_of_deleted_jobs_are_marked(viewer, backup, now):
    gone = JobFactory(job_key="ops:gone", deleted_at=now)
    for job in (backup, backup, gone):
        dead(job)
    dead(gone, "KeyError: <n>")
    replayed(dead(gone, "KeyError: <n>"))
    page = Page(viewer.get("/letters"))
    assert "exit code <n> 2 1 of a deleted job 3 ops:backup and 1 more" in page.text  # to do, marked, letters, jobs
    assert "KeyError: <n> none 1 of a deleted job 2 ops:gone (deleted)" in page.text
    assert "/jobs/ops:gone" not in page.links("/jobs/"), "the page of a deleted job is gone"
    assert page.text.index("exit code <n>") < page.text.index("KeyError"), "what is to do is first"
    assert "Dead letters 1 job ops:backup 2" in Page(viewer.get("/now")).text
    assert "Dead letters 2 All its letters" in Page(viewer.get("/jobs/ops:backup")).text
    group = Page(viewer.get("/letters?fingerprint=exit+code+<n>"))
    assert len(group.links("/letters/0")) == 3, "as many as the group's number of letters"
    assert group.text.count("ops:gone (deleted)") == group.text.count("its job is gone") == 1
    assert "Replay 2 of 3 letters?" in Page(viewer.get("/letters/confirm?do=replay&fingerprint=exit+code+<n>")).text


def test_the_group_with_the_most_to_do_is_first(viewer, backup, now):
    for _ in range(3):
        replayed(dead(backup, "all replayed"))
    dead(backup, "one to do")
    text = Page(viewer.get("/letters")).text
    assert text.index("one to do") < text.index("all replayed")


def test_groups_by_job_and_by_a_part_of_the_error(viewer, backup):
    dead(backup)
    dead(JobFactory(job_key="ops:other"), "Disk Full")
    assert "Disk Full" not in Page(viewer.get("/letters?job=ops:backup")).text
    found = Page(viewer.get("/letters?q=disk")).text
    assert "Disk Full" in found
    assert "exit code" not in found
    assert "No dead letter matches" in Page(viewer.get("/letters?q=nothing+like+it")).text


def test_a_group_is_told_by_its_address_and_goes_on(viewer, backup, now, monkeypatch):
    monkeypatch.setattr(letters, "PAGE_ROWS", 2)
    made = [dead(backup, created_at=now - timedelta(minutes=m)) for m in (1, 2, 2, 3, 4)]
    dead(backup, "another")
    seen, path = [], Page(viewer.get("/letters")).links("/letters?fingerprint=exit")[0]
    while path:
        page = Page(viewer.get(path))
        seen += page.links("/letters/0")
        path = next(iter(values["href"] for values in page.all("a", rel="next")), "")
    assert sorted(seen) == sorted(f"/letters/{letter.pk}" for letter in made)


def test_letters_without_a_fingerprint_are_a_group_too(viewer, backup):
    letter = dead(backup, "")
    page = Page(viewer.get("/letters"))
    assert "no error was told" in page.text
    [link] = page.links("/letters?fingerprint=")
    assert Page(viewer.get(link)).links(f"/letters/{letter.pk}")


def test_a_letter_that_is_too_old_says_both_times_and_how_to_go_on(operator, viewer, now):
    job = JobFactory(job_key="ops:backup", dead_letter_replay_max_age_seconds=86_400)
    letter = dead(job, created_at=now - 2 * DAY)
    text = Page(operator.get(f"/letters/{letter.pk}")).text
    assert "It died 2026-02-28 12:00:00 UTC ; the job lets letters be replayed until 2026-03-01 12:00:00 UTC" in text
    assert "All the same, although it is too old" in text
    answer = operator.post(f"/letters/{letter.pk}/replay", {"metadata": "{}"}, follow=True)
    assert "older than the job's dead_letter_replay_max_age" in Page(answer).text
    assert not Run.objects.filter(kind="replay").exists()
    operator.post(f"/letters/{letter.pk}/replay", {"metadata": "{}", "force": "on"})
    assert Run.objects.filter(kind="replay", replay_of=letter.run).count() == 1


def test_a_letter_in_time_is_replayed_by_one_press(operator, backup):
    letter = dead(backup, run__metadata={"a": 1})
    answer = operator.post(f"/letters/{letter.pk}/replay")
    run = Run.objects.get(kind="replay")
    assert answer["Location"] == f"/runs/{run.pk}"
    assert (run.replay_of_id, run.metadata) == (letter.run_id, {"a": 1})
    assert "replayed" in Page(operator.get(f"/letters/{letter.pk}")).text
    again = operator.post(f"/letters/{letter.pk}/replay", follow=True)
    assert "was replayed before" in Page(again).text


def test_edited_metadata_takes_the_place_of_the_runs_own(operator, backup):
    letter = dead(backup, run__metadata={"a": 1, "__traceparent": "00-1-2-01"})
    page = operator.get(f"/letters/{letter.pk}")
    assert '"a": 1' in Page(page).text
    assert "over the job’s (depth)" in Page(page).text
    operator.post(f"/letters/{letter.pk}/replay", {"metadata": '{"b": [2]}'})
    assert Run.objects.get(kind="replay").metadata == {"b": [2]}
    event = AuditEvent.objects.get(action="dead_letter.replayed")
    assert (event.actor_id, event.diff["edited"]) == ("otto", ["a", "b"])


@pytest.mark.parametrize(
    ("metadata", "said"),
    [("{", "This is no JSON in line 1"), ("[]", "“Metadata” is an object"), ('{"a": NaN}', "beyond 64 bits")],
)
def test_metadata_that_is_none_is_refused(operator, backup, metadata, said):
    letter = dead(backup)
    answer = operator.post(f"/letters/{letter.pk}/replay", {"metadata": metadata})
    assert answer.status_code == 400
    assert said in Page(answer).text
    assert not QueueEntry.objects.exists()


def test_a_note_stays_on_the_letter(operator, viewer, backup):
    letter = dead(backup)
    operator.post(f"/letters/{letter.pk}/note", {"note": " the disk was full \r\nagain"})
    assert "the disk was full again" in Page(viewer.get(f"/letters/{letter.pk}")).text
    assert "the disk was full" in Page(viewer.get("/letters?fingerprint=exit+code+<n>")).text
    letter.refresh_from_db()
    assert letter.note == "the disk was full \nagain"
    assert AuditEvent.objects.get(action="dead_letter.noted").diff["note"] == ["", letter.note]
    assert operator.post(f"/letters/{letter.pk}/note", {"note": "x" * 1001}).status_code == 400


def test_a_letter_that_is_thrown_away_is_gone_and_its_run_stays(operator, backup):
    letter = dead(backup)
    answer = operator.post(f"/letters/{letter.pk}/discard", follow=True)
    assert "Thrown away" in Page(answer).text
    assert not DeadLetter.objects.exists()
    assert Run.objects.filter(pk=letter.run_id).exists()
    assert operator.get(f"/letters/{letter.pk}").status_code == 404
    assert operator.post(f"/letters/{letter.pk}/discard").status_code == 404


@pytest.fixture
def mixed(backup, now):
    """Five letters of one kind: two to replay, one replayed, one too old, one of a deleted job."""
    strict = JobFactory(job_key="ops:strict", dead_letter_replay_max_age_seconds=3600)
    gone = JobFactory(job_key="ops:gone", deleted_at=now)
    made = {
        "first": dead(backup, created_at=now - DAY),
        "second": dead(backup),
        "replayed": dead(backup),
        "stale": dead(strict, created_at=now - DAY),
        "gone": dead(gone),
    }
    replayed(made["replayed"])
    return made


def confirmed(client, do: str, query: str = "fingerprint=exit+code+<n>") -> tuple[str, dict[str, str]]:
    """The form of the page that asks whether it is meant: its text, and what its hidden fields send."""
    page = Page(client.get(f"/letters/confirm?do={do}&{query}"))
    hidden = [values for values in page.all("input", type="hidden") if values["name"] != "csrfmiddlewaretoken"]
    return page.text, {values["name"]: values["value"] for values in hidden}


def test_all_of_a_group_are_replayed_after_it_was_said_what_that_means(operator, mixed):
    text, form = confirmed(operator, "replay")
    assert "Replay 2 of 5 letters?" in text
    for said in ("1 was replayed already", "1 is older than the job’s", "1 is of a deleted job"):
        assert said in text
    answer = operator.post("/letters/replay", form, follow=True)
    assert "2 runs made" in Page(answer).text
    made = Run.objects.filter(kind="replay", verdict=None).values_list("replay_of_id", flat=True)
    assert set(made) == {mixed["first"].run_id, mixed["second"].run_id}


def test_those_that_are_too_old_only_if_it_is_said(operator, mixed):
    _, form = confirmed(operator, "replay")
    operator.post("/letters/replay", {**form, "force": "on"})
    assert Run.objects.filter(kind="replay", replay_of=mixed["stale"].run).exists()


def test_nothing_is_done_where_there_are_other_letters_than_were_shown(operator, backup, now, clock):
    letter = dead(backup)
    _, form = confirmed(operator, "replay")
    dead(backup)  # in the same instant
    answer = operator.post("/letters/replay", form, follow=True)
    assert "There are 2 such letters by now, not 1. Nothing was done" in Page(answer).text
    assert operator.post("/letters/discard", form, follow=True).status_code == 200
    assert DeadLetter.objects.count() == 2
    assert not QueueEntry.objects.exists()
    _, form = confirmed(operator, "discard")
    clock.set(now + timedelta(seconds=1))
    later = dead(backup, created_at=clock.now())
    operator.post("/letters/discard", form)
    assert list(DeadLetter.objects.all()) == [later]  # what comes after the look is not meant
    assert letter.pk != later.pk


def test_many_have_to_be_typed(operator, backup, monkeypatch):
    monkeypatch.setattr(bulk, "TYPED_ABOVE", 2)
    for _ in range(3):
        dead(backup)
    text, form = confirmed(operator, "discard")
    assert "Type 3 to say that you mean all of them" in text
    for typed in ({}, {"typed": "2"}, {"typed": "yes"}):
        assert operator.post("/letters/discard", {**form, **typed}).status_code == 400
    assert DeadLetter.objects.count() == 3
    operator.post("/letters/discard", {**form, "typed": "3"})
    assert not DeadLetter.objects.exists()


def test_a_great_many_are_replayed_in_parts(operator, backup, monkeypatch, now):
    monkeypatch.setattr(group_services, "MOST_REPLAYED", 2)
    made = [dead(backup, created_at=now - timedelta(minutes=m)) for m in (3, 2, 1)]
    _, form = confirmed(operator, "replay")
    answer = operator.post("/letters/replay", form, follow=True)
    assert "2 runs made. 1 is left: do it again." in Page(answer).text
    oldest = [letter.run_id for letter in made[:2]]
    assert sorted(Run.objects.filter(kind="replay").values_list("replay_of_id", flat=True)) == sorted(oldest)
    operator.post("/letters/replay", form)
    assert Run.objects.filter(kind="replay").count() == 3


def test_of_more_than_can_be_looked_at_all_are_counted(operator, backup, monkeypatch):
    monkeypatch.setattr(letter_groups, "MOST_LOOKED_AT", 2)
    for _ in range(3):
        dead(backup)
    text, form = confirmed(operator, "discard")
    assert "Throw 3 letters away?" in text
    assert "the oldest come first" in text
    operator.post("/letters/discard", form)
    assert DeadLetter.objects.count() == 1


@pytest.mark.parametrize("field", ["until", "expected"])
def test_a_form_that_does_not_say_what_was_shown_does_nothing(operator, backup, field):
    dead(backup)
    _, form = confirmed(operator, "discard")
    for value in ("", "soon", "-1"):
        assert operator.post("/letters/discard", {**form, field: value}).status_code == 400
    assert DeadLetter.objects.count() == 1


def test_what_is_asked_wrongly_is_400(viewer):
    for path in ("/letters/confirm?do=burn", "/letters/confirm", "/letters?fingerprint=x&before=never"):
        assert viewer.get(path).status_code == 400
    assert viewer.get("/letters/0195f9a0-0000-7000-8000-000000000000").status_code == 404


def test_without_letters_the_page_says_so(viewer):
    assert "No dead letters" in Page(viewer.get("/letters")).text
    assert "No letter of this kind is left" in Page(viewer.get("/letters?fingerprint=x")).text
