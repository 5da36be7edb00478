"""Who may speak as a runner: the client that used its id first, through the newest process that polled as it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

from django.db import IntegrityError
from django.db.models import F

from croniq_site.kernel.database import write_transaction
from croniq_site.kernel.errors import Conflict, CroniqError, Forbidden, Unavailable
from runners.domain.scopes import Principal
from runners.models import Runner, RunnerInstance
from runners.services.audit import Actor, Event, record_events
from scheduler.domain.polls import PollRequest
from scheduler.queries.holders import owners_of
from scheduler.services.release import let_go
from scheduler.services.tally import Kind, tally

FLAPPING_TAKEOVERS = 3
FLAPPING_WINDOW = timedelta(minutes=10)
_TRIES = 5


def admit(request: PollRequest, principal: Principal, now: datetime) -> RunnerInstance:
    """Let the instance that polls speak for its runner and return it, with its runner.

    A runner nobody has used belongs to this client from now on. An instance that was never seen takes the runner over:
    the one before it is deposed and its claims go back as losses. Raises Forbidden ``runner_owned`` (audited, nothing
    of that runner touched) and Conflict ``instance_deposed``. Opens its own transaction.
    """
    for _ in range(_TRIES):
        try:
            with write_transaction():
                verdict = _admitted(request, principal, now)
        except IntegrityError:
            continue  # another process of this runner, or its first poll elsewhere, got there first: look again
        if isinstance(verdict, CroniqError):  # raised only now: the audit of it is committed
            raise verdict
        return verdict
    raise Unavailable("This runner's identity changes too often to be read. Try again in a moment.")


def _admitted(request: PollRequest, principal: Principal, now: datetime) -> RunnerInstance | CroniqError:
    # The lock of the runner's row puts the polls of all its processes in one order.
    runner = Runner.objects.select_for_update().filter(runner_id=request.runner_id).first()
    if runner is None:
        runner = Runner.objects.create(
            runner_id=request.runner_id,
            client_id=principal.client_id,
            capabilities=list(request.capabilities),
            tags=list(request.tags),
            max_inflight=request.max_inflight,
            created_at=now,
            last_poll_at=now,
        )
    elif runner.client_id != principal.client_id:
        return _refused(runner.runner_id, principal, now)
    instance = RunnerInstance.objects.filter(runner=runner, instance_id=request.instance_id).first()
    if instance is None:
        current = RunnerInstance.objects.filter(runner=runner, deposed_at__isnull=True).first()
        if current is not None:
            _take_over(runner, current, request.instance_id, now)
        # It is the runner that is drained: a process of it that starts anew takes no work either.
        instance = RunnerInstance.objects.create(
            runner=runner,
            instance_id=request.instance_id,
            first_seen_at=now,
            last_poll_at=now,
            is_drained=runner.drained_at is not None,
        )
    elif instance.deposed_at is not None:
        return Conflict(
            f"Another process has taken over the runner {runner.runner_id!r}. Stop one of the two, or give each its "
            "own runner_id.",
            code="instance_deposed",
        )
    instance.runner = runner
    return instance


def _take_over(runner: Runner, current: RunnerInstance, by_instance: str, now: datetime) -> None:
    deposed = RunnerInstance.objects.filter(pk=current.pk, deposed_at__isnull=True).update(deposed_at=now)
    if not deposed:
        raise IntegrityError("somebody else deposed it first")  # `admit` looks again
    lost = let_go([current.pk], now)
    Runner.objects.filter(pk=runner.pk).update(takeovers=F("takeovers") + 1, last_poll_at=now)
    events = [
        _event(
            "runner.takeover",
            runner,
            {"instance": [current.instance_id, by_instance], "lost": lost},
        )
    ]
    recent = RunnerInstance.objects.filter(runner=runner, deposed_at__gt=now - FLAPPING_WINDOW).count()
    reported = runner.flapping_reported_at
    if recent >= FLAPPING_TAKEOVERS and (reported is None or reported <= now - FLAPPING_WINDOW):
        Runner.objects.filter(pk=runner.pk).update(flapping_reported_at=now)
        events.append(_event("runner.identity_flapping", runner, {"takeovers": recent}))
        tally(Kind.FLAPPING)
    record_events(events, now)
    tally(Kind.TAKEOVER)


def _event(action: str, runner: Runner, diff: dict) -> Event:
    tenant = runner.client.tenant or ""
    return Event(action, "runner", runner.runner_id, Actor("runner", runner.runner_id), tenant, diff)


def refusals(claims: Sequence[tuple[str, Principal]], now: datetime) -> list[CroniqError | None]:
    """Say for each (runner_id, who speaks as it) why it may not, None where it may. Admin keys are no exception.

    An id that nobody has used is nobody's: what is said as it will match no claim.
    """
    owners = owners_of({runner_id for runner_id, _ in claims})
    return [
        _refused(runner_id, principal, now)
        if owners.get(runner_id, principal.client_id) != principal.client_id
        else None
        for runner_id, principal in claims
    ]


def _refused(runner_id: str, principal: Principal, now: datetime) -> Forbidden:
    event = Event(
        "runner.identity_rejected",
        "runner",
        runner_id,
        actor=Actor(principal.actor_type, principal.name),
        tenant=principal.tenant or "",
    )
    with write_transaction():
        record_events([event], now)
        tally(Kind.IDENTITY_REJECTED)
    return Forbidden(
        f"The runner_id {runner_id!r} belongs to another API client. Choose another runner_id, or release this one "
        "with DELETE /v1/runners/{id}.",
        code="runner_owned",
    )
