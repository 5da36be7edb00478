"""Dead letters as work to be done: by what their errors have in common, one by one, and all of a kind at once."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any
from uuid import UUID

from django.contrib import messages
from django.http import HttpRequest, HttpResponse, QueryDict
from django.shortcuts import render
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from croniq_site.kernel.errors import InvalidInput, NotFound
from croniq_site.kernel.text import cleaned
from scheduler.dashboard.bulk import agreed_number, is_typed
from scheduler.dashboard.pages import (
    TEXT_MOST_BYTES,
    action,
    actor_of,
    address,
    may_act,
    or_message,
    page,
    position_in,
    position_text,
    text_in,
)
from scheduler.domain.trigger_fields import instant_of
from scheduler.queries.job_zones import zones_of
from scheduler.queries.letter_groups import LetterChoice, letter_groups, letter_lines, letter_story, workload
from scheduler.services.letter_groups import MOST_REPLAYED, discard_letters, replay_letters
from scheduler.services.letters import delete_letter, note_letter, replay_letter

PAGE_GROUPS = 100
PAGE_ROWS = 50
WHAT = ("replay", "discard")


@page
def letter_list_page(request: HttpRequest, now: datetime) -> HttpResponse:
    """The groups; with ``fingerprint`` in the address the letters of one."""
    choice = _choice_of(request.GET)
    context: dict[str, Any] = {"choice": choice, "may_act": may_act(request.user), "now": now}
    chosen = _query_of(choice)
    if choice.fingerprint is None:
        groups, total = letter_groups(choice, PAGE_GROUPS)
        rows = [(group, address("letters", {**chosen, "fingerprint": group.fingerprint or " "})) for group in groups]
        context |= {"groups": rows, "total": total, "more": total - len(groups)}
        return render(request, "dashboard/letters.html", context)
    lines = letter_lines(choice, PAGE_ROWS + 1, position_in(request, "before"))
    more = ""
    if len(lines) > PAGE_ROWS:
        last = lines[PAGE_ROWS - 1]
        more = address("letters", {**chosen, "before": position_text(last.created_at, last.id)})
    context |= {
        "lines": lines[:PAGE_ROWS],
        "zones": zones_of(line.job_key for line in lines[:PAGE_ROWS]),
        "more": more,
        "back": address("letters", {"job": choice.job_key, "q": choice.text}),
        "confirm": {what: address("letters-confirm", {**chosen, "do": what}) for what in WHAT},
    }
    return render(request, "dashboard/letter_group.html", context)


@page
def letter_page(request: HttpRequest, now: datetime, letter_id: UUID) -> HttpResponse:
    letter = letter_story(letter_id)
    if letter is None:
        raise NotFound(f"There is no dead letter {letter_id}. It may have been replayed and thrown away.")
    context = {
        "letter": letter,
        "zone": zones_of([letter.job_key]).get(letter.job_key, ""),
        "is_stale": letter.replayable_until is not None and now > letter.replayable_until,
        "metadata": json.dumps(letter.own_metadata, ensure_ascii=False, indent=2, sort_keys=True),
        "job_metadata": ", ".join(sorted(letter.job_metadata)),
        "group": address("letters", {"fingerprint": letter.fingerprint or " "}),
        "may_act": may_act(request.user),
    }
    return render(request, "dashboard/letter.html", context)


@page
def confirm_page(request: HttpRequest, now: datetime) -> HttpResponse:
    """What an action on all letters of a choice would do, and the button that does it."""
    what = text_in(request, "do")
    if what not in WHAT:
        raise InvalidInput.of("do", f"What is done is one of {', '.join(WHAT)}.")
    choice = _choice_of(request.GET, now)
    load = workload(choice, now)
    context = {
        "what": what,
        "choice": choice,
        "until": choice.until.isoformat() if choice.until is not None else "",
        "load": load,
        "most": MOST_REPLAYED,
        "is_typed": is_typed(load.total),
        "back": address("letters", _query_of(choice)),
        "may_act": may_act(request.user),
    }
    return render(request, "dashboard/letters_confirm.html", context)


@action
def replay_all(request: HttpRequest, now: datetime) -> str:
    choice, expected = _confirmed(request)
    force = request.POST.get("force") == "on"
    done = or_message(request, lambda: replay_letters(choice, expected, now, actor_of(request), force=force))
    if done is not None:
        made = ngettext("%(n)d run made.", "%(n)d runs made.", done.made) % {"n": done.made}
        more = []
        if done.refused:
            words = ngettext("%(n)d was refused meanwhile.", "%(n)d were refused meanwhile.", done.refused)
            more.append(words % {"n": done.refused})
        if done.left:
            words = ngettext("%(n)d is left: do it again.", "%(n)d are left: do it again.", done.left)
            more.append(words % {"n": done.left})
        messages.success(request, " ".join([made, *more]))
    return address("letters", _query_of(choice))


@action
def discard_all(request: HttpRequest, now: datetime) -> str:
    choice, expected = _confirmed(request)
    gone = or_message(request, lambda: discard_letters(choice, expected, now, actor_of(request)))
    if gone is not None:
        words = ngettext("%(n)d letter thrown away. The runs stay.", "%(n)d letters thrown away. The runs stay.", gone)
        messages.success(request, words % {"n": gone})
    return address("letters", {"job": choice.job_key, "q": choice.text})


@action
def replay(request: HttpRequest, now: datetime, letter_id: UUID) -> str:
    """With ``metadata`` in the form that takes the place of what the run had of its own."""
    metadata = _json_of(request.POST["metadata"]) if "metadata" in request.POST else None
    force = request.POST.get("force") == "on"
    made = or_message(request, lambda: replay_letter(letter_id, now, actor_of(request), force=force, metadata=metadata))
    if made is None:
        return address("letter", letter_id=letter_id)
    if not made.is_new:
        messages.info(request, _("This letter was replayed before; this is its run."))
    return address("run", run_id=made.run_id)


@action
def discard(request: HttpRequest, now: datetime, letter_id: UUID) -> str:
    letter = letter_story(letter_id)
    delete_letter(letter_id, now, actor_of(request))
    messages.success(request, _("Thrown away. Its run stays."))
    return address("letters", {"fingerprint": letter.fingerprint or " "} if letter is not None else {})


@action
def note(request: HttpRequest, now: datetime, letter_id: UUID) -> str:
    note_letter(letter_id, request.POST.get("note", "").replace("\r\n", "\n"), now, actor_of(request))
    messages.success(request, _("The note is kept."))
    return address("letter", letter_id=letter_id)


def _choice_of(values: QueryDict, now: datetime | None = None) -> LetterChoice:
    """The choice of an address or a form; of a group of letters whose fingerprint is empty the address says a space."""
    fingerprint = values.get("fingerprint", "")
    until = values.get("until", "")
    return LetterChoice(
        fingerprint=cleaned(fingerprint.strip(), TEXT_MOST_BYTES) if fingerprint else None,
        job_key=cleaned(values.get("job", "").strip(), TEXT_MOST_BYTES),
        text=cleaned(values.get("q", "").strip(), TEXT_MOST_BYTES),
        until=instant_of("until", until) if until else now,
    )


def _query_of(choice: LetterChoice) -> dict[str, str]:
    fingerprint = "" if choice.fingerprint is None else choice.fingerprint or " "
    return {"fingerprint": fingerprint, "job": choice.job_key, "q": choice.text}


def _confirmed(request: HttpRequest) -> tuple[LetterChoice, int]:
    """What the form of `confirm_page` said: which letters, and how many of them were shown."""
    choice = _choice_of(request.POST)
    if choice.until is None:
        raise InvalidInput.of("until", "Say up to when letters are meant: use the form.")
    return choice, agreed_number(request.POST)


def _json_of(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        where = f" in line {error.lineno}" if isinstance(error, json.JSONDecodeError) else ""
        raise InvalidInput.of("metadata", f"This is no JSON{where}; metadata is an object such as {{}}.") from None
