"""Runners: what each holds and may take, what nobody can, and what is done with one on its page."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.test import Client
from django.urls import reverse

from croniq_site.kernel.capabilities import COMMAND, COMMAND_ONLY, HTTP
from runners.models import AuditEvent, Runner
from scheduler.dashboard.takeover_chart import takeover_columns
from scheduler.models import QueueEntry
from scheduler.queries.runner_matrix import ACTION, DRAINED, LACKS, TAKES, TENANT, Cell, runner_matrix
from scheduler.queries.runner_story import Takeover, holds_of, leases_of, marked, takeovers_since
from tests.factories import (
    ApiClientFactory,
    JobFactory,
    LaneFactory,
    QueueEntryFactory,
    RunnerFactory,
    RunnerInstanceFactory,
)
from tests.scheduler.dashboard.markup import Page

pytestmark = pytest.mark.django_db
MINUTE = timedelta(minutes=1)


def page_of(runner: Runner) -> str:
    return reverse("runner", kwargs={"runner_pk": runner.pk})


def job(key: str, *require: str, tenant: str = "default", prefer: tuple[str, ...] = ()):
    lane = LaneFactory(require=sorted(require), tenant=tenant, prefer=sorted(prefer))
    return JobFactory(job_key=key, tenant=tenant, lane=lane)


# The matrix


def test_the_matrix_says_who_may_take_what_and_why_not(now):
    RunnerFactory(runner_id="all", capabilities=["eu", "gpu"])
    RunnerFactory(runner_id="acme", client=ApiClientFactory(tenant="acme"), capabilities=["eu"])
    RunnerFactory(runner_id="commands", capabilities=["eu", COMMAND, COMMAND_ONLY])
    RunnerFactory(runner_id="going", capabilities=["eu", "gpu", "tape"], drained_at=now)
    RunnerFactory(runner_id="gone", capabilities=["gpu"], last_poll_at=now - timedelta(seconds=61))
    for key, require in (("a:none", ()), ("a:gpu", ("eu", "gpu")), ("a:gpu2", ("eu", "gpu")), ("a:tape", ("tape",))):
        job(key, *require)
    job("acme:eu", "eu", tenant="acme")
    job("a:http", prefer=(HTTP,))
    job("a:command", "eu", prefer=(COMMAND,))
    matrix = runner_matrix(now)
    names = [column.runners[0][1] for column in matrix.columns]
    assert names == ["acme", "all", "commands", "going"]
    cells = {kind.job_keys: dict(zip(names, kind.cells, strict=True)) for kind in matrix.kinds}
    assert cells == {
        ("a:none",): {"acme": Cell(TENANT), "all": Cell(TAKES), "commands": Cell(ACTION), "going": Cell(DRAINED)},
        ("a:gpu", "a:gpu2"): {
            "acme": Cell(TENANT),
            "all": Cell(TAKES),
            "commands": Cell(LACKS, ("gpu",)),
            "going": Cell(DRAINED),
        },
        ("a:tape",): {
            "acme": Cell(TENANT),
            "all": Cell(LACKS, ("tape",)),
            "commands": Cell(LACKS, ("tape",)),
            "going": Cell(DRAINED),
        },
        ("acme:eu",): {"acme": Cell(TAKES), "all": Cell(TAKES), "commands": Cell(ACTION), "going": Cell(DRAINED)},
        ("a:http",): {"acme": Cell(TENANT), "all": Cell(TAKES), "commands": Cell(ACTION), "going": Cell(DRAINED)},
        ("a:command",): {"acme": Cell(TENANT), "all": Cell(TAKES), "commands": Cell(TAKES), "going": Cell(DRAINED)},
    }
    assert matrix.kinds[0].job_keys == ("a:tape",)  # what nobody takes comes first
    assert [(item.name, item.job_keys, item.is_drained) for item in matrix.lacking] == [("tape", ("a:tape",), True)]


def test_runners_that_differ_in_their_ids_alone_are_one_column_but_a_pin_means_one(now):
    for number in (1, 2, 3):
        RunnerFactory(runner_id=f"box-{number}", capabilities=["eu"])
    job("a:pinned", "runner:box-2")
    job("a:absent", "runner:box-9")
    (column,) = runner_matrix(now).columns
    assert [name for _, name in column.runners] == ["box-1", "box-2", "box-3"]
    cells = {kind.job_keys[0]: kind.cells[0] for kind in runner_matrix(now).kinds}
    assert cells == {"a:pinned": Cell(TAKES, ("box-2",)), "a:absent": Cell(LACKS, ("runner:box-9",))}
    assert [item.name for item in runner_matrix(now).lacking] == ["runner:box-9"]


def test_what_waits_is_counted_for_the_capability_that_nobody_has(now):
    RunnerFactory(capabilities=["eu"])
    tape = job("a:tape", "tape")
    for _ in range(2):
        QueueEntryFactory(job=tape, available_at=now)
    QueueEntryFactory(job=tape, available_at=now + MINUTE)
    QueueEntryFactory(job=tape, claimed=True)
    JobFactory(job_key="a:off", lane=tape.lane, is_active=False)
    (item,) = runner_matrix(now).lacking
    assert (item.name, item.jobs, item.waiting, item.is_drained) == ("tape", 1, 2, False)


# Takeovers


def test_the_third_takeover_within_ten_minutes_is_one_of_a_flapping_identity(now):
    at = [now + minutes * MINUTE for minutes in (0, 4, 9, 13, 30)]
    assert [takeover.is_flapping for takeover in marked((1, "r1", instant) for instant in at)] == [
        False,
        False,
        True,
        True,  # the third since 4
        False,
    ]
    others = [(n, f"r{n}", instant) for n, instant in enumerate(at)]
    assert not any(takeover.is_flapping for takeover in marked(others))


def test_takeovers_before_the_window_count_for_the_mark_alone(now):
    runner = RunnerFactory()
    for minutes in (67, 64, 58, 10):
        RunnerInstanceFactory(runner=runner, deposed_at=now - minutes * MINUTE)
    RunnerInstanceFactory(deposed_at=now - MINUTE)
    found = takeovers_since(now - 60 * MINUTE, runner.pk)
    assert [(takeover.at, takeover.is_flapping) for takeover in found] == [
        (now - 58 * MINUTE, True),
        (now - 10 * MINUTE, False),
    ]
    assert len(takeovers_since(now - 60 * MINUTE)) == 3


def test_columns_are_as_high_as_their_number_and_marked_by_more_than_colour(now):
    span = timedelta(hours=24)
    taken = [Takeover(1, "r1", now - timedelta(hours=2.5, minutes=n), is_flapping=n == 0) for n in (0, 1)]
    columns = takeover_columns([*taken, Takeover(2, "r2", now, is_flapping=False)], now, span, 24)
    assert [(column.number, column.is_flapping, column.height) for column in columns] == [
        (2, True, "86.00"),
        (1, False, "43.00"),
    ]
    assert columns[1].x == "960.33"  # the last: now itself is in it
    assert takeover_columns([], now, span, 24) == []


# Leases


def test_leases_are_told_by_their_age_and_end(now):
    instance = RunnerInstanceFactory()
    for age, left in ((50, 10), (20, 40)):
        QueueEntryFactory(
            claimed=True,
            holder=instance,
            claimed_at=now - timedelta(seconds=age),
            lease_seconds=60,
            lease_expires_at=now + timedelta(seconds=left),
        )
    leases = leases_of([instance.runner_id])[instance.runner_id]
    assert (leases.held, leases.oldest_at) == (2, now - timedelta(seconds=50))
    assert leases.first_end_at == now + timedelta(seconds=10)
    assert [round(hold.lease_spent(now), 2) for hold in holds_of(instance.runner_id)] == [0.83, 0.33]
    assert leases_of([RunnerFactory().pk]) == {}


# Pages


def test_the_list_shows_load_leases_and_what_nobody_has(viewer, now):
    runner = RunnerFactory(runner_id="worker-1", capabilities=["eu"], max_inflight=4)
    instance = RunnerInstanceFactory(runner=runner)
    QueueEntryFactory(claimed=True, holder=instance, lease_expires_at=now + timedelta(seconds=30))
    QueueEntryFactory(job=job("a:tape", "tape"), available_at=now)
    for minutes in (1, 2, 3):
        RunnerInstanceFactory(runner=runner, deposed_at=now - minutes * MINUTE)
    answer = Page(viewer.get("/runners"))
    for words in ("1 of 4", "first ends", "Nobody alive has 1", "1 due run waits", "lacks tape", "Flapped: worker-1"):
        assert words in answer.text, words
    assert answer.all("line", class_="flap-mark")
    assert answer.links("/runners/") == [page_of(runner), page_of(runner)]


def test_without_runners_and_with_none_online_the_page_says_so(viewer, now):
    assert "No runners yet" in Page(viewer.get("/runners")).text
    job("a:b")
    RunnerFactory(last_poll_at=now - timedelta(hours=1))
    assert "No runner is online: nothing of this is taken." in Page(viewer.get("/runners")).text


def test_a_runners_page_shows_what_it_holds_and_who_spoke_for_it(viewer, now):
    runner = RunnerFactory(runner_id="worker-1", tags=["host=db-1"], capabilities=["eu"])
    instance = RunnerInstanceFactory(runner=runner, instance_id="abc")
    RunnerInstanceFactory(runner=runner, instance_id="", deposed_at=now - MINUTE)
    entry = QueueEntryFactory(claimed=True, holder=instance, lease_expires_at=now + timedelta(seconds=15))
    job("a:eu", "eu")
    answer = Page(viewer.get(page_of(runner)))
    for words in ("host=db-1", entry.job.job_key, "75 % of", "abc the current one", "anonymous", "takes"):
        assert words in answer.text, words
    assert f"/runs/{entry.run_id}" in answer.links("/runs/")
    assert viewer.get("/runners/named?id=worker-1")["Location"] == page_of(runner)
    for absent in ("/runners/987654321", "/runners/99999999999999999999999", "/runners/named?id=nobody"):
        assert viewer.get(absent).status_code == 404


def test_a_pin_of_another_runner_is_not_this_ones(viewer):
    first = RunnerFactory(runner_id="box-1")
    RunnerFactory(runner_id="box-2")
    job("a:pinned", "runner:box-2")
    assert "for box-2 alone" in Page(viewer.get(page_of(first))).text


# Doing


def test_an_operator_drains_a_runner_and_lets_it_work_again(operator: Client, viewer: Client, now):
    runner = RunnerFactory(runner_id="worker-1")
    instance = RunnerInstanceFactory(runner=runner)
    QueueEntryFactory(claimed=True, holder=instance)
    answer = operator.post(f"{page_of(runner)}/drain", {"reason": "new disk"}, follow=True)
    assert "worker-1 takes no more work. It has 1 run to finish." in Page(answer).text
    for path in ("/runners", page_of(runner)):
        assert "Draining, 1 run to finish" in Page(viewer.get(path)).text
    assert "new disk" in Page(viewer.get(page_of(runner))).text
    assert "Drained runners 1" in Page(viewer.get("/now")).text
    QueueEntry.objects.all().delete()
    assert "Drained" in Page(viewer.get("/runners")).text
    operator.post(f"{page_of(runner)}/resume")
    instance.refresh_from_db()
    assert (instance.is_drained, Runner.objects.get().drained_at) == (False, None)
    events = AuditEvent.objects.order_by("pk").values_list("action", "actor_id")
    assert list(events) == [("runner.drained", "otto"), ("runner.resumed", "otto")]
    assert operator.post(f"{page_of(runner)}/drain", {"reason": "x" * 256}).status_code == 400


def test_a_release_is_typed(operator: Client, now):
    runner = RunnerFactory(runner_id="worker-1")
    RunnerInstanceFactory(runner=runner)
    assert operator.post(f"{page_of(runner)}/release", {"typed": "worker"}).status_code == 400
    assert Runner.objects.exists()
    answer = operator.post(f"{page_of(runner)}/release", {"typed": "worker-1"}, follow=True)
    assert "worker-1 is nobody's now. 0 claims went back to the queue." in Page(answer).text
    assert not Runner.objects.exists()
    for what in ("drain", "resume", "release"):
        assert operator.post(f"{page_of(runner)}/{what}").status_code == 404


def test_a_viewer_sees_no_button(viewer: Client):
    runner = RunnerFactory()
    assert not [form for form in Page(viewer.get(page_of(runner))).all("form") if "/runners/" in form["action"]]
