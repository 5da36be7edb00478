"""What a person does with all dead letters of a kind at once."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from croniq_site.kernel.errors import Conflict, NotFound
from runners.services.audit import Actor
from scheduler.queries.letter_groups import LetterChoice, letter_ids, workload
from scheduler.services.letters import delete_letters, replay_letter

MOST_REPLAYED = 500
"""Of one call: each is a transaction of its own, under the lock of its job."""


@dataclass(frozen=True)
class Replayed:
    """``made`` runs are new; ``refused`` were too old, or their job was deleted in this moment; ``left`` are to be
    replayed still."""

    made: int
    refused: int
    left: int


def replay_letters(
    choice: LetterChoice, expected: int, now: datetime, actor: Actor, *, force: bool = False
) -> Replayed:
    """Replay the letters of the choice that were not, oldest first, at most `MOST_REPLAYED`; those that are too old
    only by ``force``. ``expected`` is how many letters the choice had when it was looked at: where it has another
    number by now, nothing is done (Conflict ``letters_changed``). What was interrupted goes on when asked again."""
    found = workload(choice, now)
    _check(found.total, expected)
    wanted = [pk for pk in found.letter_ids if force or pk not in found.stale_ids]
    made = refused = 0
    for letter_id in wanted[:MOST_REPLAYED]:
        try:
            made += replay_letter(letter_id, now, actor, force=force).is_new
        except (Conflict, NotFound):
            refused += 1
    return Replayed(made, refused, max(0, len(wanted) - MOST_REPLAYED))


def discard_letters(choice: LetterChoice, expected: int, now: datetime, actor: Actor) -> int:
    """Throw the letters of the choice away, at most 10,000; return how many went. ``expected`` as of
    `replay_letters`."""
    _check(workload(choice, now).total, expected)
    return delete_letters(now, actor, ids=letter_ids(choice))


def _check(total: int, expected: int) -> None:
    if total != expected:
        raise Conflict(
            f"There are {total} such letters by now, not {expected}. Nothing was done; look at them again.",
            code="letters_changed",
        )
