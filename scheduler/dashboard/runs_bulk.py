"""What a person does to many runs: to ticked ones, or to all that a view of the list matches.

The form that does it carries the ids of the runs that were shown: never others, and of those only the ones to which it
can be done still.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from django.contrib import messages
from django.http import HttpRequest, HttpResponse, QueryDict
from django.shortcuts import render
from django.utils.functional import Promise
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from croniq_site.kernel.errors import InvalidInput
from scheduler.dashboard.pages import action, actor_of, address, may_act, page
from scheduler.dashboard.run_choice import RunChoice, choice_of
from scheduler.domain.inputs import text_of
from scheduler.queries.bulk import MOST, REPEATABLE, STOPPABLE, Matches, entry_states, runs_to_cancel, runs_to_replay
from scheduler.queries.run_reach import reach, within
from scheduler.queries.runs import RunFilter, runs_of_ids
from scheduler.services.bulk import Done, cancel_many, one_by_one
from scheduler.services.replays import replay_run

TYPED_ABOVE = 100
"""What is done to more runs asks for their number to be typed."""
MOST_TICKED = 500
SHOWN = 20
REFUSALS_TOLD = 5

CANCEL, RERUN = "cancel", "rerun"
WHAT: Mapping[str, str | Promise] = {CANCEL: gettext_lazy("Cancel"), RERUN: gettext_lazy("Run once more")}
_ABLE = {CANCEL: STOPPABLE, RERUN: REPEATABLE}


@dataclass(frozen=True)
class Found:
    """The runs that something can be done to; ``chosen`` how many were ticked (None: all that match were meant),
    ``reached`` down to when was looked (None: to the end)."""

    matches: Matches
    chosen: int | None
    reached: datetime | None


@page
def confirm_page(request: HttpRequest, now: datetime) -> HttpResponse:
    """What would be done to how many runs, and the button that does it."""
    what, choice = _what(request.GET), choice_of(request.GET)
    found = _found(request.GET, what, choice, now)
    total = len(found.matches.ids)
    context = {
        "what": what,
        "verb": WHAT[what],
        "choice": choice,
        "total": total,
        "ids": ",".join(map(str, found.matches.ids)),
        "others": 0 if found.chosen is None else found.chosen - total,
        "has_more": found.matches.has_more,
        "most": MOST,
        "reached": found.reached,
        "shown": runs_of_ids(found.matches.ids[:SHOWN], now),
        "left_out": total - SHOWN,
        "is_typed": total > TYPED_ABOVE,
        "back": address("runs", choice.query),
        "may_act": may_act(request.user),
    }
    return render(request, "dashboard/runs_confirm.html", context)


@action
def do_to_many(request: HttpRequest, now: datetime) -> str:
    form = request.POST
    what, choice = _what(form), choice_of(form)
    ids = _ids_of("ids", [text for text in form.get("ids", "").split(",") if text], most=MOST)
    if len(ids) > TYPED_ABOVE and form.get("typed", "").strip() != str(len(ids)):
        message = _("Nothing was done: type {number} to say that you mean all of them.")
        raise InvalidInput.of("typed", message.format(number=len(ids)))
    if what == CANCEL:
        reason = text_of("reason", form.get("reason", "").strip(), most=255)
        # What waited when it was shown, and was claimed since, is not what was meant.
        states = entry_states(choice.state if choice.state in STOPPABLE else None)
        done = cancel_many(ids, states, now, actor_of(request), reason)
    else:
        done = one_by_one(ids, lambda run_id: replay_run(run_id, now, actor_of(request)))
    _tell(request, what, done, len(ids))
    return address("runs", choice.query)


def _what(values: QueryDict) -> str:
    what = values.get("do", "")
    if what not in WHAT:
        raise InvalidInput.of("do", _("What is done is one of {known}.").format(known=", ".join(WHAT)))
    return what


def _found(values: QueryDict, what: str, choice: RunChoice, now: datetime) -> Found:
    if values.get("all") != "1":
        ids = _ids_of("id", values.getlist("id"), most=MOST_TICKED)
        find = runs_to_cancel if what == CANCEL else runs_to_replay
        return Found(find(now, RunFilter(planned=True), ids), len(ids), None)
    if choice.state and choice.state not in _ABLE[what]:
        return Found(Matches([], has_more=False), None, None)
    filters = choice.filters(now)
    if what == CANCEL:
        # By their entries, which are few, whatever else is asked.
        return Found(runs_to_cancel(now, filters), None, None)
    reached = reach(filters, now, MOST + 1, problems=None if choice.state else REPEATABLE[1:])
    # Of all problems together there is no index in the order of the list, and a walk along time meets few.
    are_few = not choice.state and filters.job_ids is None
    return Found(runs_to_replay(now, within(filters, reached), are_few=are_few), None, reached)


def _ids_of(field: str, texts: Sequence[str], most: int) -> list[UUID]:
    if not texts:
        raise InvalidInput.of(field, _("No run was chosen: tick some, or do it to all that match."))
    if len(texts) > most:
        raise InvalidInput.of(field, _("Choose at most {most} runs.").format(most=most))
    try:
        return list(dict.fromkeys(UUID(text) for text in texts))
    except ValueError:
        raise InvalidInput.of(field, _("These are no ids of runs.")) from None


def _tell(request: HttpRequest, what: str, done: Done, meant: int) -> None:
    number, refused = len(done.changed), len(done.refused)
    left = meant - number - refused
    if number:
        if what == CANCEL:
            said = ngettext("{number} run cancelled.", "{number} runs cancelled.", number)
        else:
            said = ngettext("{number} run is made once more.", "{number} runs are made once more.", number)
        messages.success(request, said.format(number=number))
    if left:
        if what == CANCEL:
            said = ngettext("{number} had ended meanwhile.", "{number} had ended meanwhile.", left)
        else:
            said = ngettext("{number} was done once more before.", "{number} were done once more before.", left)
        messages.info(request, said.format(number=left))
    for run_id, refusal in done.refused[:REFUSALS_TOLD]:
        messages.error(request, f"{run_id}: {refusal.message}")
    if refused > REFUSALS_TOLD:
        more = refused - REFUSALS_TOLD
        said = ngettext("{number} more was refused.", "{number} more were refused.", more)
        messages.error(request, said.format(number=more))
