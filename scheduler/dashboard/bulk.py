"""The steps of doing something to many at once, whatever they are.

The form of a list names what is to be done, and to whom: to the ticked ones, or to all that the list matches. A page
then shows to how many, and what becomes of them; its form says how many were shown, and above `TYPED_ABOVE` somebody
types that number. Where they are another number by then nothing is done. What came of it is told in the list.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, ClassVar

from django.contrib import messages
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect, QueryDict
from django.shortcuts import render
from django.utils.functional import Promise
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from croniq_site.kernel.errors import Conflict, InvalidInput
from scheduler.dashboard.pages import address, may_act, or_message
from scheduler.dashboard.sentences import said
from scheduler.queries.bulk import MOST, Matches
from scheduler.services.bulk import Done

TYPED_ABOVE = 100
"""What is done to more asks for their number to be typed."""
MOST_TICKED = 500
SHOWN = 20
REFUSALS_TOLD = 5
BESIDE = "bulk"
"""The tag of a message that stands beside the list's button, and the anchor of that."""


@dataclass(frozen=True)
class Asked:
    """Something to be done to ``ids``, or (None) to all of the choice that ``values``, an address or a form, has."""

    what: str
    ids: tuple[Any, ...] | None
    values: QueryDict
    request: HttpRequest
    now: datetime


class Bulk(ABC):
    """What there is to be known of the things of one list; the steps are this module's.

    ``what``: the words of each thing to do, by its name in the address. ``list_page`` and ``form_page``: the names of
    the addresses of the list, and of what takes the form. ``template`` extends ``_bulk_confirm.html``.
    """

    what: ClassVar[Mapping[str, str | Promise]]
    things: ClassVar[str | Promise]
    back_words: ClassVar[str | Promise]
    list_page: ClassVar[str]
    form_page: ClassVar[str]
    template: ClassVar[str]

    @abstractmethod
    def id_of(self, text: str) -> Any:
        """Read an id; ValueError where it is none."""

    @abstractmethod
    def carried(self, request: HttpRequest, values: QueryDict) -> dict[str, str]:
        """What of an address or a form tells the page of the list that whoever asks has before him."""

    @abstractmethod
    def look(self, asked: Asked) -> tuple[Matches, dict[str, Any]]:
        """Those to which it can be done now, and what else the page shows."""

    @abstractmethod
    def meant(self, asked: Asked) -> Matches:
        """Those whom the page's form means, when it is sent."""

    @abstractmethod
    def act(self, asked: Asked) -> Callable[[Sequence[Any]], Done]:
        """What does it. Raises InvalidInput for what the form says wrong, before anything is done."""

    @abstractmethod
    def done_words(self, what: str, number: int) -> str:
        """Tell that it was done to so many."""

    @abstractmethod
    def left_words(self, what: str, number: int) -> str:
        """Tell that so many stayed as they were, as nothing was to be done to them any more."""


def confirm(bulk: Bulk, request: HttpRequest, now: datetime) -> HttpResponse:
    """Show what would be done to how many, with the button that does it; or, where nothing was ticked, the list again,
    which says so beside its own button."""
    asked = _asked(bulk, request, now)
    carried = bulk.carried(request, request.GET)
    back = address(bulk.list_page, carried)
    if asked.ids == ():
        messages.warning(request, _("Tick some first, or take all that match."), extra_tags=BESIDE)
        return HttpResponseRedirect(f"{back}#{BESIDE}")
    matches, more = bulk.look(asked)
    total = len(matches.ids)
    context = {
        "what": asked.what,
        "verb": bulk.what[asked.what],
        "things": bulk.things,
        "form_page": bulk.form_page,
        "total": total,
        "has_more": matches.has_more,
        "most": MOST,
        "left_out": total - SHOWN,
        "is_typed": is_typed(total),
        "back": back,
        "back_words": bulk.back_words,
        "carried": carried,
        "may_act": may_act(request.user),
        **more,
    }
    return render(request, bulk.template, context)


def do(bulk: Bulk, request: HttpRequest, now: datetime) -> str:
    """Do what the form of `confirm` says to those who were shown, tell what came of it, and return where to go on."""
    asked = _asked(bulk, request, now)
    if asked.ids == ():
        raise InvalidInput.of("ids", _("Nothing was chosen: tick some, or do it to all that match."))
    expected = agreed_number(request.POST)
    act = bulk.act(asked)

    def do_it() -> tuple[int, Done]:
        ids = bulk.meant(asked).ids
        matched = len(ids)
        if matched != expected:
            raise Conflict(
                f"{matched} match by now, not {expected}: nothing was done. Look again.", code="count_changed"
            )
        return matched, act(ids)

    done = or_message(request, do_it)
    if done is not None:
        _tell(bulk, request, asked.what, *done)
    return address(bulk.list_page, bulk.carried(request, request.POST))


def is_typed(number: int) -> bool:
    """Whether somebody has to say that he means so many."""
    return number > TYPED_ABOVE


def agreed_number(form: QueryDict) -> int:
    """How many were shown to whoever sends the form; where they are many he has typed it."""
    expected = form.get("expected", "")
    if not (expected.isascii() and expected.isdigit() and len(expected) < 10):
        raise InvalidInput.of("expected", _("This is the number that was shown: use the form."))
    if is_typed(int(expected)) and form.get("typed", "").strip() != expected:
        message = _("Nothing was done: type {number} to say that you mean all of them.")
        raise InvalidInput.of("typed", message.format(number=expected))
    return int(expected)


def _asked(bulk: Bulk, request: HttpRequest, now: datetime) -> Asked:
    """What the list's form asks for, or that of `confirm`, where one field has all ids: they may be many."""
    if request.method == "POST":
        values, field, most = request.POST, "ids", MOST
        texts = [text for text in values.get(field, "").split(",") if text]
    else:
        values, field, most = request.GET, "id", MOST_TICKED
        texts = values.getlist(field)
    what = values.get("do", "")
    if what not in bulk.what:
        raise InvalidInput.of("do", _("What is done is one of {known}.").format(known=", ".join(bulk.what)))
    if values.get("all") == "1":
        return Asked(what, None, values, request, now)
    if len(texts) > most:
        raise InvalidInput.of(field, _("Choose at most {most} of the list.").format(most=most))
    try:
        return Asked(what, tuple(dict.fromkeys(map(bulk.id_of, texts))), values, request, now)
    except ValueError:
        raise InvalidInput.of(field, _("These are no ids of what is in the list.")) from None


def _tell(bulk: Bulk, request: HttpRequest, what: str, meant: int, done: Done) -> None:
    number, refused = len(done.changed), len(done.refused)
    if number:
        messages.success(request, bulk.done_words(what, number))
    if left := meant - number - refused:
        messages.info(request, bulk.left_words(what, left))
    for each, refusal in done.refused[:REFUSALS_TOLD]:
        messages.error(request, f"{each}: {said(refusal.message)}")
    if refused > REFUSALS_TOLD:
        more = refused - REFUSALS_TOLD
        words = ngettext("{number} more was refused.", "{number} more were refused.", more)
        messages.error(request, words.format(number=more))
