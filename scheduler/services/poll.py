"""Let polls in: who is it, what does it still hold, what did it lose. The work itself is claimed after that."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from uuid import UUID

from croniq_site.kernel.database import write_transaction
from croniq_site.kernel.errors import CroniqError
from runners.domain.scopes import Principal
from runners.models import Runner, RunnerInstance
from scheduler.domain.polls import OpenPoll, PollRequest
from scheduler.domain.work import LossCause
from scheduler.queries.holders import Holding, holdings_of
from scheduler.services.identity import admit
from scheduler.services.release import release, wind_down
from scheduler.services.renew import renew_claims

SEEN_AGAIN_AFTER = timedelta(seconds=1)
"""`last_poll_at` is exact to this, and to the second for which a server lets a runner in without asking here: presence
is told in tens of seconds, and a write a poll would be its main cost."""


def open_poll(request: PollRequest, principal: Principal, now: datetime) -> OpenPoll:
    """`open_polls` for one; raises what it refuses with."""
    (answer,) = open_polls([(request, principal)], now)
    if isinstance(answer, CroniqError):
        raise answer
    return answer


def open_polls(polls: Sequence[tuple[PollRequest, Principal]], now: datetime) -> list[OpenPoll | CroniqError]:
    """Let each poll in or say why not, in order: identity, then the leases of what it lists, then what is lost.

    What the instance holds and does not list it never heard of: that answer was lost, and the run goes back at once.
    (Whoever calls this has settled the instance's earlier polls.) A poll of a known, current instance that holds
    nothing costs two queries for the whole list and no write.
    """
    answers: list[OpenPoll | CroniqError | None] = [None] * len(polls)
    admitted: dict[int, RunnerInstance] = {}
    current = _current_instances({request.runner_id for request, _ in polls})
    for place, (request, principal) in enumerate(polls):
        instance = current.get(request.runner_id)
        try:
            if instance is None or not _is_steady(instance, request, principal):
                instance = admit(request, principal, now)
            admitted[place] = instance
        except CroniqError as refusal:
            answers[place] = refusal
    holdings = holdings_of({instance.pk for instance in admitted.values()})
    seen = [
        (instance, polls[place][0])
        for place, instance in admitted.items()
        if instance.last_poll_at <= now - SEEN_AGAIN_AFTER or _profile(polls[place][0]) != _profile(instance.runner)
    ]
    if seen or any(holding.claims or holding.stopping for holding in holdings.values()):
        with write_transaction():
            _note_seen(seen, now)
            listed = [
                (instance.pk, run_id)
                for place, instance in admitted.items()
                for run_id in holdings[instance.pk].claims
                if run_id in polls[place][0].listed
            ]
            kept = renew_claims(listed, now)  # of all polls at once: see there
        # After it, each on its own: whoever waits for one claim's row must not hold another's.
        for place, instance in admitted.items():
            answers[place] = _opened(polls[place][0], instance, holdings[instance.pk], kept, now)
    else:
        for place, instance in admitted.items():
            answers[place] = OpenPoll(instance.pk, frozenset(polls[place][0].listed), instance.is_drained)
    return answers


def see_again(polls: Mapping[int, PollRequest], now: datetime) -> set[int]:
    """Write down that these instances, which listed nothing and were let in without a look, have polled. Return those
    that need one: that were deposed, are gone with their runner, are drained, or hold runs, by an answer of another
    server."""
    current = RunnerInstance.objects.filter(pk__in=list(polls), deposed_at__isnull=True).select_related("runner")
    seen = [(instance, polls[instance.pk]) for instance in current]
    with write_transaction():
        _note_seen(seen, now)
    having = {holder_id for holder_id, holding in holdings_of(polls).items() if holding.claims or holding.stopping}
    return polls.keys() - {instance.pk for instance, _ in seen if not instance.is_drained} | having


def _current_instances(runner_ids: set[str]) -> dict[str, RunnerInstance]:
    instances = RunnerInstance.objects.filter(runner__runner_id__in=runner_ids, deposed_at__isnull=True)
    return {instance.runner.runner_id: instance for instance in instances.select_related("runner")}


def _is_steady(instance: RunnerInstance, request: PollRequest, principal: Principal) -> bool:
    return instance.instance_id == request.instance_id and instance.runner.client_id == principal.client_id


def _profile(source: PollRequest | Runner) -> tuple[list[str], list[str], int]:
    return list(source.capabilities), list(source.tags), source.max_inflight


def _opened(
    request: PollRequest, instance: RunnerInstance, holding: Holding, renewed: set[tuple[int, UUID]], now: datetime
) -> OpenPoll:
    holder_id = instance.pk
    kept = {run_id for renewed_holder, run_id in renewed if renewed_holder == holder_id}
    # Without an instance id several processes may share the one anonymous instance: what one of them does not list
    # another may be working on, so there only the lease decides.
    if not request.is_anonymous:
        lost = [claim for claim in holding.claims.items() if claim[0] not in request.listed]
        if lost:
            release(lost, now, LossCause.LOST_ANSWER)
    wind_down(holder_id, holding.stopping - request.listed.keys(), now)
    return OpenPoll(holder_id, frozenset(request.listed.keys() - kept), instance.is_drained)


def _note_seen(seen: list[tuple[RunnerInstance, PollRequest]], now: datetime) -> None:
    """Write down that these runners polled, and what they say of themselves."""
    if not seen:
        return
    # Rows that another server is writing this very moment are as fresh without us, and two servers that wait for each
    # other's rows would be a deadlock.
    wanted = {instance.runner_id: (instance, request) for instance, request in seen}
    free = list(Runner.objects.select_for_update(skip_locked=True).filter(pk__in=wanted).order_by("pk"))
    for runner in free:
        request = wanted[runner.pk][1]
        if _profile(request) != _profile(runner):
            Runner.objects.filter(pk=runner.pk).update(
                capabilities=list(request.capabilities), tags=list(request.tags), max_inflight=request.max_inflight
            )
    Runner.objects.filter(pk__in=[runner.pk for runner in free]).update(last_poll_at=now)
    # Locked in the order of their ids, as a claim shares them: in another it could meet one in a deadlock.
    instances = RunnerInstance.objects.filter(
        pk__in=[wanted[runner.pk][0].pk for runner in free], deposed_at__isnull=True
    )
    locked = list(instances.select_for_update().order_by("pk").values_list("pk", flat=True))
    RunnerInstance.objects.filter(pk__in=locked).update(last_poll_at=now)
