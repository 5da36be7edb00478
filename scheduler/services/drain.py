"""Drain a runner: it finishes what it holds and takes no more, until somebody says otherwise."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from croniq_site.kernel.database import write_transaction
from runners.models import Runner, RunnerInstance
from runners.services.audit import Actor, Event, record_events
from scheduler.domain.inputs import text_of
from scheduler.services.wake import tell


@dataclass(frozen=True)
class Drained:
    """Whether a runner is drained now, since when (None: it is not), and whether that is news."""

    runner_id: str
    drained_at: datetime | None
    reason: str
    is_new: bool


def drain_runner(
    runner_id: str, now: datetime, actor: Actor, *, reason: str = "", tenant: str | None = None
) -> Drained | None:
    """Let the runner take no more work from now on: a claim that is under way is the last. What it holds goes on.

    It is the runner's, not the process's: one that starts anew under this id takes none either, until `resume_runner`
    or until the id is released. Draining it again changes the reason alone. None if there is no such runner, or none of
    an API client of ``tenant``. ``reason``: at most 255 characters. Opens its own transaction.
    """
    reason = text_of("reason", reason, most=255).strip()
    with write_transaction():
        runner = _locked(runner_id, tenant)
        if runner is None:
            return None
        if runner.drained_at is not None and runner.drain_reason == reason:
            return Drained(runner_id, runner.drained_at, reason, is_new=False)
        diff: dict[str, object] = {"reason": [runner.drain_reason, reason]}
        if runner.drained_at is None:
            diff = {"drained_at": [None, now.isoformat()], "reason": reason}
        runner.drained_at, runner.drain_reason = runner.drained_at or now, reason
        _save(runner, now, actor, "runner.drained", diff)
        return Drained(runner_id, runner.drained_at, reason, is_new=True)


def resume_runner(runner_id: str, now: datetime, actor: Actor, *, tenant: str | None = None) -> Drained | None:
    """Let a drained runner take work again; a poll of it that waits has what is due at once. Otherwise as
    `drain_runner`."""
    with write_transaction():
        runner = _locked(runner_id, tenant)
        if runner is None:
            return None
        if runner.drained_at is None:
            return Drained(runner_id, None, "", is_new=False)
        diff = {"drained_at": [runner.drained_at.isoformat(), None], "reason": runner.drain_reason}
        runner.drained_at, runner.drain_reason = None, ""
        _save(runner, now, actor, "runner.resumed", diff)
        return Drained(runner_id, None, "", is_new=True)


def _locked(runner_id: str, tenant: str | None) -> Runner | None:
    """The runner's row puts this and a takeover in one order: whichever comes second sees the other."""
    runners = Runner.objects.select_for_update(of=("self",)).select_related("client").filter(runner_id=runner_id)
    return (runners if tenant is None else runners.filter(client__tenant=tenant)).first()


def _save(runner: Runner, now: datetime, actor: Actor, action: str, diff: dict[str, object]) -> None:
    Runner.objects.filter(pk=runner.pk).update(drained_at=runner.drained_at, drain_reason=runner.drain_reason)
    current = RunnerInstance.objects.filter(runner=runner, deposed_at__isnull=True)
    # Waits for a claim that shares the row; the next one sees what is said here.
    current.update(is_drained=runner.drained_at is not None)
    tenant = runner.client.tenant or ""
    record_events([Event(action, "runner", runner.runner_id, actor, tenant, dict(diff))], now)
    tell(current.values_list("pk", flat=True))
