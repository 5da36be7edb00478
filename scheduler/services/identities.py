"""Give a runner's identity up, so that another API client may have it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from django.db import IntegrityError
from django.db.models import ProtectedError

from croniq_site.kernel.database import write_transaction
from croniq_site.kernel.errors import Conflict
from runners.models import Runner, RunnerInstance
from runners.services.audit import Actor, Event, record_events
from scheduler.services.release import let_go

_TRIES = 5


@dataclass(frozen=True)
class ReleasedIdentity:
    """``claims_released``: how many claimed runs went back."""

    runner_id: str
    claims_released: int


def release_identity(
    runner_id: str, now: datetime, actor: Actor, *, tenant: str | None = None
) -> ReleasedIdentity | None:
    """Depose the runner's instance, give its claims back (losses, cause takeover) and forget it, at once or not at all.

    Whoever polls next with the id owns it: also the process that had it, if it still runs. None if there is no such
    runner, or none of an API client of ``tenant``.
    """
    for _ in range(_TRIES):
        try:
            with write_transaction():
                return _released(runner_id, now, actor, tenant)
        except (IntegrityError, ProtectedError):
            # A claim that was under way when the instance was deposed has stamped it meanwhile: that claim goes back
            # too, in the next turn.
            continue
    raise Conflict(f"The runner {runner_id!r} is claiming runs just now. Try again.", code="runner_busy")


def _released(runner_id: str, now: datetime, actor: Actor, tenant: str | None) -> ReleasedIdentity | None:
    runners = Runner.objects.select_for_update(of=("self",)).select_related("client").filter(runner_id=runner_id)
    if tenant is not None:
        runners = runners.filter(client__tenant=tenant)
    runner = runners.first()
    if runner is None:
        return None
    RunnerInstance.objects.filter(runner=runner, deposed_at__isnull=True).update(deposed_at=now)
    # Deposed instances too: one of them may still wind something down.
    released = let_go(list(runner.instances.values_list("pk", flat=True)), now)
    diff = {"client": runner.client.name, "claims_released": released}
    record_events(
        [Event("runner.released", "runner", runner_id, actor, tenant=runner.client.tenant or "", diff=diff)], now
    )
    runner.delete()
    return ReleasedIdentity(runner_id, released)
