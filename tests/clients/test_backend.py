"""What a Django project asks of the backend: enqueue, look, say when. The API behind it is the real one."""

from __future__ import annotations

import json
import os
from contextvars import Context
from datetime import UTC, datetime
from uuid import UUID, uuid4

import httpx
import pytest
from croniq_tasks import api as client
from croniq_tasks.api import CroniqRefused
from croniq_tasks.compat import (
    InvalidTask,
    TaskResultDoesNotExist,
    TaskResultMismatch,
    TaskResultStatus,
    task_backends,
    task_enqueued,
)
from django.core.exceptions import ImproperlyConfigured

from scheduler.models import Job, QueueEntry, Run
from tests.clients import depot as tasks
from tests.factories import JobFactory

LATER = datetime(2035, 3, 2, 12, tzinfo=UTC)


def test_a_task_makes_its_job_once_and_asks_for_nothing_that_may_fail_after_its_run(depot, wire):
    depot()
    first = tasks.pack.enqueue(1, two=2)
    assert wire.paths == ["POST /v1/trigger", "POST /v1/jobs", "POST /v1/trigger"]
    second = tasks.pack.enqueue()
    assert wire.paths[3:] == ["POST /v1/trigger"]
    assert (first.status, first.args, first.kwargs, first.attempts) == (TaskResultStatus.READY, [1], {"two": 2}, 0)
    assert {str(pk) for pk in Run.objects.values_list("pk", flat=True)} == {first.id, second.id}
    job = Job.objects.get()
    assert (job.job_key, job.max_retries, job.max_queue_depth) == ("depot:default:tests.clients.depot.pack", 0, 10_000)


def test_a_result_has_the_task_as_it_was_enqueued(depot):
    depot()
    enqueued = tasks.pack.using(queue_name="mail", priority=-7, run_after=LATER).enqueue("x")
    found = tasks.pack.get_result(enqueued.id)
    assert found.task == enqueued.task
    assert (found.status, found.args, found.enqueued_at is not None) == (TaskResultStatus.READY, ["x"], True)
    assert tasks.send.get_result(tasks.send.enqueue().id).task == tasks.send
    whole = tasks.pack.using(priority=5.0)  # which Django lets pass
    assert tasks.pack.get_result(whole.enqueue().id).task == whole


def test_run_after_is_the_instant_at_which_the_run_falls_due(depot):
    depot()
    tasks.pack.using(run_after=LATER).enqueue()
    assert (QueueEntry.objects.get().available_at, Run.objects.get().scheduled_for) == (LATER, LATER)
    past = tasks.pack.using(run_after=datetime(2020, 3, 2, tzinfo=UTC)).enqueue()
    assert tasks.pack.get_result(past.id).task.run_after is None, "it was due when it came"


def test_a_project_without_zones_means_its_own(depot, wire, settings, monkeypatch):
    monkeypatch.setattr(client, "PATIENCE_SECONDS", -1)
    depot()
    settings.USE_TZ, settings.TIME_ZONE = False, "Europe/Vienna"
    wire.faults = [503]  # the server is in this process and must not see these settings
    with pytest.raises(CroniqRefused):
        tasks.pack.using(run_after=datetime(2035, 3, 2, 13)).enqueue()  # noqa: DTZ001
    assert json.loads(wire.bodies[-1])["run_at"] == "2035-03-02T13:00:00+01:00"


def test_a_priority_is_a_job_of_its_own_in_the_lane_of_that_priority(depot):
    depot(job={"priority": 2})
    for task in (tasks.pack, tasks.pack.using(priority=100), tasks.pack.using(priority=-100), tasks.send):
        task.enqueue()
    found = dict(QueueEntry.objects.values_list("job__job_key", "lane__priority"))
    path = "tests.clients.depot"
    assert found == {
        f"depot:default:{path}.pack": 2,
        f"depot:default:{path}.pack@100": 102,
        f"depot:default:{path}.pack@-100": -98,
        f"depot:mail:{path}.send@5": 7,
    }
    assert {tuple(job.require) for job in Job.objects.filter(job_key__contains="pack")} == {("django:depot:default",)}


def test_another_backend_takes_what_is_enqueued_there(depot):
    depot()
    found = tasks.pack.using(backend="other").get_result(tasks.pack.using(backend="other").enqueue().id)
    assert (found.backend, found.task.backend) == ("other", "other")


@pytest.mark.parametrize(
    ("thing", "error", "says"),
    [
        ({1, 2}, TypeError, "set"),
        (object(), TypeError, "object"),
        (float("nan"), ValueError, "not JSON"),
        ("half \ud800", UnicodeEncodeError, "surrogates"),
        (2**70, CroniqRefused, "400 metadata: .*beyond 64 bits"),
        ("x" * 70_000, CroniqRefused, "400 metadata: .*65536 are allowed"),
        ("x" * 3_000_000, CroniqRefused, "413"),
    ],
    ids=["set", "object", "nan", "surrogate", "big", "long", "huge"],
)
def test_what_cannot_travel_is_refused_where_it_is_enqueued(depot, thing, error, says):
    depot()
    tasks.pack.enqueue()
    with pytest.raises(error, match=says):
        tasks.pack.enqueue(thing)
    assert Run.objects.count() == 1


@pytest.mark.parametrize("faults", [[httpx.ConnectError("refused"), 503, httpx.ReadError("cut"), 502]])
def test_a_server_that_restarts_is_waited_for(depot, wire, monkeypatch, faults):
    monkeypatch.setattr(client, "RETRY_SECONDS", 0)
    depot()
    wire.faults = list(faults)
    assert Run.objects.get(pk=tasks.pack.enqueue().id)
    assert wire.paths[: len(faults)] == ["POST /v1/trigger"] * len(faults)


@pytest.mark.parametrize(
    ("fault", "error"), [(httpx.ConnectError("refused"), httpx.ConnectError), (503, CroniqRefused)]
)
def test_nobody_waits_for_longer_than_fifteen_seconds(depot, wire, monkeypatch, fault, error):
    assert client.PATIENCE_SECONDS == 15
    monkeypatch.setattr(client, "PATIENCE_SECONDS", -1)
    depot()
    wire.faults = [fault] * 2
    with pytest.raises(error):
        tasks.pack.enqueue()
    assert len(wire.paths) == 1


@pytest.mark.parametrize(("patience", "seconds"), [(15, 10), (3, 3), (-1, 1)])
def test_one_that_hangs_has_what_is_left_and_no_more(depot, wire, monkeypatch, patience, seconds):
    monkeypatch.setattr(client, "PATIENCE_SECONDS", patience)
    depot()
    tasks.pack.enqueue()
    assert wire.timeouts[0] == pytest.approx(seconds, abs=0.5)


def test_a_process_and_its_fork_have_no_socket_in_common(depot, monkeypatch):
    api = depot().api
    mine, pid = api._http(), os.getpid()
    assert api._http() is mine
    monkeypatch.setattr("os.getpid", lambda: pid + 1)
    assert api._http() is not mine


def test_a_key_that_was_read_from_a_file_ends_before_its_line_does(depot):
    assert depot(api_key="croniq_x\n").api._key == "croniq_x"


@pytest.mark.parametrize("said", [b"<html>", b"[1]", b'"no"'])
def test_what_stands_between_may_refuse_in_words_of_its_own(said):
    assert str(CroniqRefused(httpx.Response(404, content=said))) == "404 Not Found"


def test_a_backend_takes_no_task_of_a_queue_that_it_has_not(depot):
    backend = depot()
    backend.queues = {"default"}
    with pytest.raises(InvalidTask, match="mail"):
        backend.enqueue(tasks.send, [], {})


@pytest.mark.parametrize(
    ("scopes", "says"),
    [(("executions:read",), "403 .*jobs:trigger"), (("jobs:trigger", "executions:read"), "403 .*jobs:write")],
)
def test_a_key_without_the_scope_is_told_which(depot, scopes, says):
    depot(*scopes)
    with pytest.raises(CroniqRefused, match=says):
        tasks.pack.enqueue()
    assert not Run.objects.exists()


def test_whoever_may_only_enqueue_is_not_refused_after_the_run_is_made(depot):
    depot("jobs:trigger", "jobs:write")
    assert Run.objects.get(pk=tasks.pack.enqueue().id)


def test_results_of_nothing_and_of_others(depot):
    backend = depot()
    with pytest.raises(TaskResultDoesNotExist):
        backend.get_result(str(uuid4()))
    gone = tasks.pack.enqueue()
    for path in ("tests.clients.depot.gone", "tests.clients.depot.Silent", "os.system"):
        Run.objects.update(metadata={"django_task": {"path": path, "args": [], "kwargs": {}}})
        with pytest.raises(TaskResultMismatch, match=path):
            backend.get_result(gone.id)
    with pytest.raises(TaskResultMismatch):
        tasks.send.get_result(tasks.pack.enqueue().id)


@pytest.mark.parametrize(
    "text", ["", "x", None, "../jobs", f"{UUID(int=1)}/logs", f"{UUID(int=1)}?x", "a\nb", "\ud800"]
)
def test_what_is_no_id_is_asked_of_nobody(depot, wire, text):
    with pytest.raises(TaskResultDoesNotExist):
        depot().get_result(text)
    assert wire.paths == []


def test_instants_of_a_project_without_zones_are_on_its_own_clock(depot, wire, settings):
    backend = depot()
    enqueued = tasks.pack.using(run_after=LATER).enqueue()
    execution = backend.api.get(f"/v1/executions/{enqueued.id}")
    settings.USE_TZ, settings.TIME_ZONE = False, "Europe/Vienna"
    wire.faults = [execution]  # the server is in this process and must not see these settings
    found = backend.get_result(enqueued.id)
    assert (found.enqueued_at.tzinfo, found.task.run_after) == (None, datetime(2035, 3, 2, 13))  # noqa: DTZ001


def test_backends_of_all_threads_and_contexts_share_their_connections(depot):
    depot()

    def client_of(alias: str) -> httpx.Client:
        return Context().run(lambda: task_backends[alias].api._http())

    assert client_of("default") is client_of("default") is client_of("other")


def test_a_receiver_that_fails_makes_nobody_enqueue_again(depot):
    def boom(**kwargs: object) -> None:
        raise LookupError("of a receiver")

    depot()
    task_enqueued.connect(boom)
    try:
        result = tasks.pack.enqueue()
    finally:
        task_enqueued.disconnect(boom)
    assert Run.objects.get().pk == UUID(result.id)


@pytest.mark.parametrize(
    ("columns", "told"),
    [
        ({"verdict": "cancelled", "reason": "no longer wanted"}, "no longer wanted"),
        ({"verdict": "dead", "error": "its worker was lost"}, "its worker was lost"),
        ({"verdict": "skipped", "reason": ""}, "skipped"),
    ],
)
def test_what_ended_otherwise_than_by_its_function_says_how(depot, columns, told):
    depot()
    result = tasks.pack.enqueue()
    QueueEntry.objects.all().delete()
    Run.objects.update(**columns, problem=columns["verdict"], finished_at=LATER)
    result.refresh()
    (error,) = result.errors
    assert (result.status, error.exception_class.__name__, error.traceback) == (
        TaskResultStatus.FAILED,
        "EndedWithoutException",
        told,
    )


def test_a_list_is_read_to_its_end(depot, monkeypatch):
    monkeypatch.setattr(client, "PAGE_ROWS", 2)
    backend = depot()
    keys = [f"demo:{n}" for n in range(5)]
    for key in keys:
        JobFactory(job_key=key)
    assert [job["job_key"] for job in backend.api.pages("/v1/jobs")] == keys


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"url": ""}, "; url missing or empty"),
        ({"url": None, "api_key": ""}, "; url and api_key missing or empty"),
        ({"url": "croniq.example"}, "begins with https://"),
        ({"uri": "x"}, "; not uri."),
    ],
)
def test_a_backend_that_says_nonsense_is_refused_at_once(depot, options, says):
    with pytest.raises(ImproperlyConfigured, match=says):
        depot(**options)


def test_a_key_that_no_header_can_carry_is_not_waited_for(depot, wire):
    depot()
    wire.faults = [httpx.LocalProtocolError("Illegal header value")]
    with pytest.raises(httpx.LocalProtocolError):
        tasks.pack.enqueue()
    assert len(wire.paths) == 1


@pytest.mark.parametrize(
    ("url", "queue", "found"),
    [
        ("https://croniq.example", "default", []),
        ("http://localhost:4000", "default", []),
        ("http://croniq.example", "default", ["croniq_tasks.W001"]),
        ("https://croniq.example", "a:b", ["croniq_tasks.E001"]),
    ],
)
def test_checks(depot, url, queue, found):
    backend = depot(url=url)
    backend.queues = {queue}
    assert [message.id for message in backend.check()] == found
