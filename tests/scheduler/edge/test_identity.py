"""Who may speak as a runner: owners, instances, takeovers."""

from __future__ import annotations

from datetime import timedelta

import pytest

from croniq_site.kernel.errors import Conflict, Forbidden
from runners.domain.scopes import Principal
from runners.models import AuditEvent, Runner, RunnerInstance
from scheduler.domain.polls import PollRequest
from scheduler.models import Attempt, QueueEntry, RunLog
from scheduler.services.identity import admit
from scheduler.services.poll import open_poll, open_polls
from tests.factories import ApiClientFactory, QueueEntryFactory, RunnerFactory, RunnerInstanceFactory
from tests.scheduler.edge.helpers import FakeRunner, due_run, result, state_of
from tests.support.races import together
from tests.support.server import live_edge

pytestmark = pytest.mark.django_db(transaction=True)


def principal_of(client) -> Principal:
    return Principal(client_id=client.pk, name=client.name, tenant=client.tenant, scopes=frozenset({"admin"}))


def rejections() -> int:
    return AuditEvent.objects.filter(action="runner.identity_rejected").count()


def test_another_clients_runner_is_refused_before_anything_of_it_is_touched():
    entry = due_run()
    with live_edge() as server:
        owner, stranger = FakeRunner(server, server.key()), FakeRunner(server, server.key("admin"), instance_id="other")
        owner.work()
        before = list(Runner.objects.values()), list(RunnerInstance.objects.values()), list(QueueEntry.objects.values())
        for answer in (
            stranger.poll(inflight=[str(entry.run_id)]),
            stranger.ack(entry.run_id),
            stranger.renew(entry.run_id),
            stranger.say(entry.run_id, {"message": "mine now"}),
            stranger.say(entry.run_id, {"message": "mine now", "fields": {"runner_id": "r1"}}),
        ):
            assert (answer.status_code, answer.json()["error"]) == (403, "runner_owned")
        after = list(Runner.objects.values()), list(RunnerInstance.objects.values()), list(QueueEntry.objects.values())
        assert after == before
        assert not RunLog.objects.exists()
        assert rejections() == 5
        assert AuditEvent.objects.filter(action="runner.identity_rejected").first().target_id == "r1"
        assert owner.ack(entry.run_id).status_code == 200


def test_a_strangers_poll_leaves_the_owners_held_poll_alone():
    with live_edge(hold_seconds=30) as server:
        owner, stranger = FakeRunner(server, server.key()), FakeRunner(server, server.key())
        held = owner.hold()
        assert stranger.poll().status_code == 403
        assert server.application.edge.desk.waiting == 1
        assert not held.done()
        assert owner.poll(max_inflight=0).status_code == 200  # the owner's own next poll ends it
        assert result(held).status_code == 200


def test_a_new_instance_takes_over_and_the_old_one_is_out_for_good():
    entry = due_run()
    with live_edge() as server:
        key = server.key()
        old, new = FakeRunner(server, key, instance_id="old"), FakeRunner(server, key, instance_id="new")
        old.work()
        (work,) = new.work()
        assert (work["execution_id"], work["attempt"]) == (str(entry.run_id), 2)
        for _ in range(2):
            answer = old.poll()
            assert (answer.status_code, answer.json()["error"]) == (409, "instance_deposed")
        assert Attempt.objects.get().cause == "takeover"
        assert Runner.objects.get().takeovers == 1
        assert AuditEvent.objects.filter(action="runner.takeover", target_id="r1").count() == 1
        # What the old one says about the attempt it had changes nothing.
        assert old.ack(entry.run_id, attempt=1).status_code == 409
        assert new.ack(entry.run_id, attempt=2).status_code == 200


def test_a_held_poll_of_the_deposed_instance_is_told_at_once():
    with live_edge(hold_seconds=30) as server:
        key = server.key()
        held = FakeRunner(server, key, instance_id="old").hold()
        waiting = FakeRunner(server, key, instance_id="new").start()
        answer = result(held)
        assert (answer.status_code, answer.json()["error"]) == (409, "instance_deposed")
        server.application.edge.desk.stop()
        assert result(waiting).status_code == 200


def test_what_the_old_instance_was_still_winding_down_is_over_with_it():
    entry = QueueEntryFactory(stopping=True)
    runner = entry.holder.runner
    request = PollRequest(runner_id=runner.runner_id, instance_id="new")
    open_poll(request, principal_of(runner.client), entry.claimed_at)
    assert state_of(entry.run_id) is None


def test_flapping_is_reported_once_a_window(now):
    principal = principal_of(ApiClientFactory())
    for number in range(8):
        admit(PollRequest("r1", f"i{number}"), principal, now + timedelta(seconds=number))
        reports = AuditEvent.objects.filter(action="runner.identity_flapping").count()
        assert reports == (1 if number >= 3 else 0), f"after takeover {number}"
    for number in range(8, 11):
        admit(PollRequest("r1", f"i{number}"), principal, now + timedelta(minutes=11, seconds=number))
    assert AuditEvent.objects.filter(action="runner.identity_flapping").count() == 2
    assert Runner.objects.get().takeovers == 10


def test_slow_restarts_are_no_flapping(now):
    principal = principal_of(ApiClientFactory())
    for number in range(6):
        admit(PollRequest("r1", f"i{number}"), principal, now + timedelta(minutes=6 * number))
    assert not AuditEvent.objects.filter(action="runner.identity_flapping").exists()


def test_two_clients_that_use_a_new_id_at_one_moment_have_one_owner(now):
    clients = [ApiClientFactory(), ApiClientFactory()]

    def come(client):
        try:
            return admit(PollRequest("r1", f"of-{client.pk}"), principal_of(client), now).runner.client_id
        except Forbidden:
            return None

    answers = together([lambda client=client: come(client) for client in clients])
    owner = Runner.objects.get().client_id
    assert sorted(answers, key=str) == sorted([owner, None], key=str)
    assert rejections() == 1


def test_two_new_processes_at_one_moment_leave_one_current_instance(now):
    runner = RunnerFactory()
    first = RunnerInstanceFactory(runner=runner)
    principal = principal_of(runner.client)

    def come(name):
        return admit(PollRequest(runner.runner_id, name), principal, now).instance_id

    assert together([lambda: come("a"), lambda: come("b")]) == ["a", "b"]
    current = RunnerInstance.objects.get(runner=runner, deposed_at__isnull=True)
    assert current.instance_id in ("a", "b")
    assert current.pk != first.pk
    assert Runner.objects.get().takeovers == 2


def test_the_first_poll_binds_the_id_and_says_who_it_is(now):
    client = ApiClientFactory()
    request = PollRequest("r1", "i1", capabilities=("gpu",), tags=("site=a",), max_inflight=7)
    open_poll(request, principal_of(client), now)
    runner = Runner.objects.get()
    assert (runner.client_id, runner.capabilities, runner.tags, runner.max_inflight) == (
        client.pk,
        ["gpu"],
        ["site=a"],
        7,
    )
    assert runner.last_poll_at == now


def test_polls_are_noted_to_the_second_and_changes_at_once(now):
    principal = principal_of(ApiClientFactory())
    open_poll(PollRequest("r1", "i1"), principal, now)
    open_poll(PollRequest("r1", "i1"), principal, now + timedelta(seconds=0.9))
    assert Runner.objects.get().last_poll_at == now
    open_poll(PollRequest("r1", "i1"), principal, now + timedelta(seconds=1))
    assert Runner.objects.get().last_poll_at == now + timedelta(seconds=1)
    assert RunnerInstance.objects.get().last_poll_at == now + timedelta(seconds=1)
    open_poll(PollRequest("r1", "i1", capabilities=("gpu",)), principal, now + timedelta(seconds=1.1))
    assert Runner.objects.get().capabilities == ["gpu"]


def test_a_runner_that_comes_back_as_another_process_is_online_from_its_first_poll_on(now):
    principal = principal_of(ApiClientFactory())
    open_poll(PollRequest("r1", "i1"), principal, now)
    back = now + timedelta(minutes=3)
    open_poll(PollRequest("r1", "i2"), principal, back)
    assert Runner.objects.get().last_poll_at == back


def listing(instance, entry) -> tuple[PollRequest, Principal]:
    request = PollRequest(instance.runner.runner_id, instance.instance_id, listed={entry.run_id: str(entry.run_id)})
    return request, principal_of(instance.runner.client)


def test_the_lease_of_what_an_anonymous_process_does_not_list_runs_on(now):
    """It may be another process's, which is dead: nobody else's polls keep what it had."""
    instance = RunnerInstanceFactory(instance_id="")
    listed, other = (QueueEntryFactory(claimed=True, holder=instance) for _ in range(2))
    open_poll(*listing(instance, listed), now + timedelta(seconds=30))
    ends = [QueueEntry.objects.get(pk=entry.pk).lease_expires_at for entry in (listed, other)]
    assert [at - now for at in ends] == [timedelta(seconds=90), timedelta(seconds=60)]


def test_of_polls_that_are_let_in_together_the_one_that_has_not_a_run_is_told_so(now):
    entry, other = QueueEntryFactory(claimed=True), RunnerInstanceFactory()
    polls = [listing(instance, entry) for instance in (entry.holder, other)]
    assert [opened.cancel for opened in open_polls(polls, now)] == [frozenset(), {entry.run_id}]


def test_a_steady_poll_writes_nothing(now, django_assert_num_queries):
    principal = principal_of(ApiClientFactory())
    open_poll(PollRequest("r1", "i1"), principal, now)
    with django_assert_num_queries(2):
        open_poll(PollRequest("r1", "i1"), principal, now + timedelta(seconds=0.5))


def test_a_deposed_instance_is_refused_also_without_a_server(now):
    instance = RunnerInstanceFactory(deposed_at=now)
    request = PollRequest(instance.runner.runner_id, instance.instance_id)
    with pytest.raises(Conflict) as refusal:
        open_poll(request, principal_of(instance.runner.client), now)
    assert refusal.value.code == "instance_deposed"
