"""What a person does to many runs: to ticked ones, or to all that a view of the list matches.

The form that does it carries the ids of the runs that were shown: never others, and of those only the ones to which it
can be done still.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

from django.http import HttpRequest, HttpResponse, QueryDict
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from croniq_site.kernel.errors import InvalidInput
from scheduler.dashboard.bulk import SHOWN, Asked, Bulk, confirm, do
from scheduler.dashboard.pages import action, actor_of, page
from scheduler.dashboard.run_choice import choice_of
from scheduler.dashboard.typed_times import zone_of
from scheduler.domain.inputs import text_of
from scheduler.queries.bulk import (
    MOST,
    REPEATABLE,
    LeftOut,
    Matches,
    entry_states,
    left_out_of_replay,
    runs_to_cancel,
    runs_to_replay,
)
from scheduler.queries.run_reach import reach, within
from scheduler.queries.runs import ENTRY_STATES, RunFilter, runs_of_ids
from scheduler.services.bulk import Done, cancel_many, one_by_one
from scheduler.services.replays import replay_run

CANCEL, RERUN = "cancel", "rerun"
_ABLE = {CANCEL: ENTRY_STATES, RERUN: REPEATABLE}


class Runs(Bulk):
    what = {CANCEL: gettext_lazy("Cancel"), RERUN: gettext_lazy("Run once more")}
    things = gettext_lazy("Runs")
    back_words = gettext_lazy("Back to the runs")
    list_page, form_page = "runs", "runs-bulk"
    template = "dashboard/runs_confirm.html"

    def id_of(self, text: str) -> UUID:
        return UUID(text)

    def carried(self, request: HttpRequest, values: QueryDict) -> dict[str, str]:
        place = {name: values[name] for name in ("head", "before") if values.get(name)}
        return {**choice_of(values, zone_of(request, values)).query, **place}

    def look(self, asked: Asked) -> tuple[Matches, dict[str, Any]]:
        matches, reached, beside = _found(asked)
        state = choice_of(asked.values).state if asked.ids is None else ""
        return matches, {
            "beside": beside,
            "meant": asked.ids is None and not state,
            "is_unable": bool(state) and state not in _ABLE[asked.what],
            "is_skipped": state == "skipped",
            "ids": ",".join(map(str, matches.ids)),
            "others": 0 if asked.ids is None else len(asked.ids) - len(matches.ids),
            "reached": reached,
            "shown": runs_of_ids(matches.ids[:SHOWN], asked.now),
        }

    def meant(self, asked: Asked) -> Matches:
        if asked.ids is None:
            raise InvalidInput.of("ids", _("Say which runs: use the form."))
        return Matches(list(asked.ids), has_more=False)

    def act(self, asked: Asked) -> Callable[[Sequence[Any]], Done]:
        form, now, actor = asked.values, asked.now, actor_of(asked.request)
        state = choice_of(form).state
        if asked.what == RERUN:
            return lambda ids: one_by_one(ids, lambda run_id: replay_run(run_id, now, actor))
        reason = text_of("reason", form.get("reason", "").strip(), most=255)
        # What waited when it was shown, and was claimed since, is not what was meant.
        states = entry_states(state if state in ENTRY_STATES else None)
        return lambda ids: cancel_many(ids, states, now, actor, reason)

    def done_words(self, what: str, number: int) -> str:
        if what == CANCEL:
            words = ngettext("{number} run cancelled.", "{number} runs cancelled.", number)
        else:
            words = ngettext("{number} run is made once more.", "{number} runs are made once more.", number)
        return words.format(number=number)

    def left_words(self, what: str, number: int) -> str:
        if what == CANCEL:
            words = ngettext("{number} had ended meanwhile.", "{number} had ended meanwhile.", number)
        else:
            words = ngettext("{number} was done once more before.", "{number} were done once more before.", number)
        return words.format(number=number)


class Planned(Runs):
    """Those of the list of what is to come; they can be cancelled, and no more."""

    what = {CANCEL: gettext_lazy("Cancel")}
    back_words = gettext_lazy("Back to the planned runs")
    list_page = "planned"

    def carried(self, request: HttpRequest, values: QueryDict) -> dict[str, str]:
        return {name: values[name] for name in ("list", "job", "after") if values.get(name)}


RUNS, PLANNED = Runs(), Planned()


@page
def confirm_page(request: HttpRequest, now: datetime) -> HttpResponse:
    """What would be done to how many runs, and the button that does it."""
    return confirm(_of_list(request.GET), request, now)


@action
def do_to_many(request: HttpRequest, now: datetime) -> str:
    return do(_of_list(request.POST), request, now)


def _of_list(values: QueryDict) -> Runs:
    return PLANNED if values.get("list") == PLANNED.list_page else RUNS


def _found(asked: Asked) -> tuple[Matches, datetime | None, LeftOut | None]:
    """The runs to which it can be done, down to when was looked for them (None: to the end), and what of those that
    match is left out."""
    now, choice = asked.now, choice_of(asked.values)
    if asked.ids is not None:
        find = runs_to_cancel if asked.what == CANCEL else runs_to_replay
        return find(now, RunFilter(planned=True), asked.ids), None, None
    if choice.state and choice.state not in _ABLE[asked.what]:
        return Matches([], has_more=False), None, None
    filters = choice.filters(now)
    if asked.what == CANCEL:
        # By their entries, which are few, whatever else is asked.
        return runs_to_cancel(now, filters), None, None
    reached = reach(filters, now, MOST + 1, problems=None if choice.state else REPEATABLE[1:])
    # Of all problems together there is no index in the order of the list, and a walk along time meets few.
    are_few = not choice.state and filters.job_ids is None
    filters = within(filters, reached)
    left_out = left_out_of_replay(now, filters, are_few=are_few)
    return runs_to_replay(now, filters, are_few=are_few), reached, left_out
