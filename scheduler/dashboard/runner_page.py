"""One runner: what it holds and may take, who spoke for it; drain it, let it work again, give its identity up."""

from __future__ import annotations

from datetime import datetime, timedelta

from django.contrib import messages
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from croniq_site.kernel.errors import InvalidInput, NotFound
from runners.queries.audit import AuditFilter, audit_list
from scheduler.dashboard.audit import line_of
from scheduler.dashboard.pages import action, actor_of, address, live_answer, may_act, or_message, page, text_in
from scheduler.dashboard.runners import MOST_KINDS, load_of
from scheduler.dashboard.takeover_chart import takeover_columns
from scheduler.queries.runner_matrix import DRAINED, TAKES, TENANT, Cell, JobKind, Matrix, runner_matrix
from scheduler.queries.runner_story import (
    MOST_HELD,
    MOST_INSTANCES,
    holds_of,
    instances_of,
    runner_of_pk,
    runner_pk_of,
    takeovers_since,
)
from scheduler.queries.runners import RunnerRow
from scheduler.services.drain import drain_runner, resume_runner
from scheduler.services.identities import release_identity

CHART_SPAN, CHART_COLUMNS = timedelta(days=7), 56
MOST_EVENTS = 10


@page
def runner_page(request: HttpRequest, now: datetime, runner_pk: int) -> HttpResponse:
    runner = _runner_or_404(runner_pk, now)
    holds, instances = holds_of(runner_pk), instances_of(runner_pk)
    takeovers = takeovers_since(now - CHART_SPAN, runner_pk)
    kinds = _kinds_for(runner, runner_matrix(now))
    events = audit_list(AuditFilter(target_type="runner", target_id=runner.runner_id), MOST_EVENTS)
    context = {
        "runner": runner,
        "load": load_of(runner.inflight, runner.max_inflight),
        "holds": [(hold, round(100 * hold.lease_spent(now))) for hold in holds],
        "more_holds": max(0, runner.inflight - MOST_HELD),
        "instances": instances,
        "current": next((one for one in instances if one.deposed_at is None), None),
        "is_cut": len(instances) == MOST_INSTANCES,
        "kinds": kinds[:MOST_KINDS],
        "more_kinds": max(0, len(kinds) - MOST_KINDS),
        "takeovers": len(takeovers),
        "flaps": [takeover for takeover in takeovers if takeover.is_flapping],
        "chart": takeover_columns(takeovers, now, CHART_SPAN, CHART_COLUMNS),
        "chart_since": now - CHART_SPAN,
        "lines": [line_of(event) for event in events],
        "may_act": may_act(request.user),
    }
    shown = (runner, holds, instances, takeovers, kinds, events)
    return live_answer(request, "dashboard/runner.html", "dashboard/_runner.html", context, shown)


@page
def named_page(request: HttpRequest, now: datetime) -> HttpResponse:
    """Lead to the page of the runner that has this id now."""
    found = runner_pk_of(text_in(request, "id"))
    if found is None:
        raise _no_runner()
    return HttpResponseRedirect(address("runner", runner_pk=found))


@action
def drain(request: HttpRequest, now: datetime, runner_pk: int) -> str:
    runner = _runner_or_404(runner_pk, now)
    reason = request.POST.get("reason", "")
    done = or_message(request, lambda: drain_runner(runner.runner_id, now, actor_of(request), reason=reason))
    if done is not None:
        messages.success(
            request,
            ngettext(
                "{runner} takes no more work. It has {number} run to finish.",
                "{runner} takes no more work. It has {number} runs to finish.",
                runner.inflight,
            ).format(runner=runner.runner_id, number=runner.inflight),
        )
    return address("runner", runner_pk=runner_pk)


@action
def resume(request: HttpRequest, now: datetime, runner_pk: int) -> str:
    runner = _runner_or_404(runner_pk, now)
    if or_message(request, lambda: resume_runner(runner.runner_id, now, actor_of(request))) is not None:
        messages.success(request, _("{runner} takes work again.").format(runner=runner.runner_id))
    return address("runner", runner_pk=runner_pk)


@action
def release(request: HttpRequest, now: datetime, runner_pk: int) -> str:
    """The form says the id once more: a process that still polls as it begins as a new runner."""
    runner = _runner_or_404(runner_pk, now)
    if request.POST.get("typed", "").strip() != runner.runner_id:
        raise InvalidInput.of(
            "typed",
            _("Nothing was done: type {name} to say that you mean it.").format(name=runner.runner_id),
        )
    done = or_message(request, lambda: release_identity(runner.runner_id, now, actor_of(request)))
    if done is None:
        return address("runner", runner_pk=runner_pk)
    messages.success(
        request,
        ngettext(
            "{runner} is nobody's now. {number} claim went back to the queue.",
            "{runner} is nobody's now. {number} claims went back to the queue.",
            done.claims_released,
        ).format(runner=runner.runner_id, number=done.claims_released),
    )
    return address("runners")


def _runner_or_404(runner_pk: int, now: datetime) -> RunnerRow:
    runner = runner_of_pk(runner_pk, now)
    if runner is None:
        raise _no_runner()
    return runner


def _no_runner() -> NotFound:
    return NotFound(_("There is no such runner. Its identity was released, or it was not seen for long."))


def _kinds_for(runner: RunnerRow, matrix: Matrix) -> list[tuple[JobKind, Cell]]:
    """What jobs of the tenants that it serves ask for, and whether this runner, if it is online, may take it: what it
    may comes first."""
    place = next(
        (n for n, column in enumerate(matrix.columns) if (runner.id, runner.runner_id) in column.runners), None
    )
    if place is None:
        return []
    found = [
        (kind, _alone(kind.cells[place], runner.runner_id)) for kind in matrix.kinds if kind.cells[place].kind != TENANT
    ]
    return sorted(found, key=lambda pair: pair[1].kind not in (TAKES, DRAINED))


def _alone(cell: Cell, runner_id: str) -> Cell:
    """Of a cell that is for runners alike in all but their ids, what is this one's: a pin may mean another."""
    if cell.kind in (TAKES, DRAINED) and cell.names and runner_id not in cell.names:
        return Cell("pinned", cell.names)
    return Cell(cell.kind, cell.names if cell.kind not in (TAKES, DRAINED) else ())
