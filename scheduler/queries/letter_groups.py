"""Dead letters by what their errors have in common: what is to be worked off."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.db.models import Count, Max, Min, OuterRef, Q, QuerySet, Subquery
from django.db.models.functions import Left

from scheduler.domain.inputs import public_metadata
from scheduler.models import DeadLetter, Run
from scheduler.queries.search import contains

ERROR_CHARACTERS = 500
MOST_LOOKED_AT = 10_000
"""Letters of a choice that are looked at one by one; a choice of more is worked off in parts."""


@dataclass(frozen=True)
class LetterChoice:
    """Which letters; empty texts and None choose all. ``text`` is looked for in the fingerprint; ``until`` inclusive:
    letters that come later are not meant."""

    fingerprint: str | None = None
    job_key: str = ""
    text: str = ""
    until: datetime | None = None


@dataclass(frozen=True)
class LetterGroup:
    """Letters with one fingerprint: ``waiting`` of them are to be dealt with (as `waiting_letters`), ``of_deleted``
    were not replayed and never will be, as their job is gone. ``job_key`` is the first of ``jobs``, of which
    ``live_jobs`` are there."""

    fingerprint: str
    letters: int
    waiting: int
    of_deleted: int
    jobs: int
    live_jobs: int
    job_key: str
    oldest_at: datetime
    newest_at: datetime


@dataclass(frozen=True)
class LetterLine:
    """A letter in a list; ``error`` is its beginning, ``replayable_until`` as in `replayable_until`."""

    id: UUID
    run_id: UUID
    job_key: str
    job_is_deleted: bool
    error: str
    attempt: int
    dead_reason: str
    scheduled_for: datetime
    created_at: datetime
    note: str
    replayed_as: UUID | None
    replayable_until: datetime | None


@dataclass(frozen=True)
class LetterStory(LetterLine):
    """A letter with all that its page says: ``own_metadata`` is what the run had of its own, over ``job_metadata``."""

    own_metadata: dict[str, Any]
    job_metadata: dict[str, Any]
    operator_hint: str
    expires_at: datetime | None
    fingerprint: str


@dataclass(frozen=True)
class Workload:
    """What an action on all letters of a choice would meet: of ``total``, ``replayed`` have their run, ``stale`` may be
    replayed only by force, of ``of_deleted`` the job is gone, and ``ready`` are replayed. ``letter_ids`` are those that
    can be, oldest first, stale ones among them. ``is_whole``: all were looked at (`MOST_LOOKED_AT`)."""

    total: int
    replayed: int
    stale: int
    of_deleted: int
    letter_ids: tuple[UUID, ...]
    stale_ids: frozenset[UUID]
    is_whole: bool

    @property
    def ready(self) -> int:
        return len(self.letter_ids) - self.stale


def letter_groups(choice: LetterChoice, limit: int) -> tuple[list[LetterGroup], int]:
    """Return at most ``limit`` groups, those with the most waiting letters first, and how many there are. Two
    queries."""
    groups = _chosen(choice).order_by().values("fingerprint")
    rows = groups.annotate(
        letters=Count("pk"),
        waiting=Count("pk", filter=Q(run__replays__isnull=True, job__deleted_at__isnull=True)),
        of_deleted=Count("pk", filter=Q(run__replays__isnull=True, job__deleted_at__isnull=False)),
        jobs=Count("job", distinct=True),
        live_jobs=Count("job", distinct=True, filter=Q(job__deleted_at__isnull=True)),
        job_key=Min("job__job_key"),
        oldest_at=Min("created_at"),
        newest_at=Max("created_at"),
    ).order_by("-waiting", "-newest_at", "fingerprint")
    found = [LetterGroup(**row) for row in rows[:limit]]
    return found, len(found) if len(found) < limit else groups.distinct().count()


def letter_lines(choice: LetterChoice, limit: int, before: tuple[datetime, UUID] | None = None) -> list[LetterLine]:
    """Return at most ``limit`` letters, newest first; ``before`` is the last (created_at, id) seen. One query."""
    letters = _chosen(choice)
    if before is not None:
        at, letter_id = before
        letters = letters.filter(created_at__lte=at).filter(Q(created_at__lt=at) | Q(id__lt=letter_id))
    letters = _with_replays(letters).annotate(head=Left("error", ERROR_CHARACTERS)).order_by("-created_at", "-id")
    return [LetterLine(**_line(row), error=row["head"]) for row in letters.values(*_COLUMNS, "head")[:limit]]


def letter_story(letter_id: UUID) -> LetterStory | None:
    letters = _with_replays(DeadLetter.objects.filter(pk=letter_id))
    columns = ("error", "run__metadata", "job__metadata", "job__dead_letter_operator_hint", "expires_at", "fingerprint")
    row = letters.values(*_COLUMNS, *columns).first()
    if row is None:
        return None
    return LetterStory(
        **_line(row),
        error=row["error"],
        own_metadata=public_metadata(row["run__metadata"]),
        job_metadata=row["job__metadata"] or {},
        operator_hint=row["job__dead_letter_operator_hint"],
        expires_at=row["expires_at"],
        fingerprint=row["fingerprint"],
    )


def replayable_until(created_at: datetime, max_age_seconds: float | None) -> datetime | None:
    """Until when a letter is replayed without force: its death and the job's ``dead_letter_replay_max_age`` after it.
    None: for ever."""
    return None if max_age_seconds is None else created_at + timedelta(seconds=max_age_seconds)


def workload(choice: LetterChoice, now: datetime) -> Workload:
    """Look at the letters of a choice, oldest first. Two queries."""
    letters = _with_replays(_chosen(choice))
    age = "job__dead_letter_replay_max_age_seconds"
    columns = ("pk", "created_at", "replayed_as", "job__deleted_at", age)
    rows: Sequence[Any] = letters.order_by("created_at", "pk").values_list(*columns)[: MOST_LOOKED_AT + 1]
    looked_at = list(rows)[:MOST_LOOKED_AT]
    is_whole = len(rows) <= MOST_LOOKED_AT
    waiting = [row for row in looked_at if row[2] is None]
    alive = [row for row in waiting if row[3] is None]
    stale = {pk for pk, at, _, _, most in alive if (until := replayable_until(at, most)) is not None and now > until}
    return Workload(
        total=len(looked_at) if is_whole else letters.count(),
        replayed=len(looked_at) - len(waiting),
        stale=len(stale),
        of_deleted=len(waiting) - len(alive),
        letter_ids=tuple(row[0] for row in alive),
        stale_ids=frozenset(stale),
        is_whole=is_whole,
    )


def letter_ids(choice: LetterChoice) -> list[UUID]:
    """The letters of a choice, oldest first, at most `MOST_LOOKED_AT`."""
    return list(_chosen(choice).order_by("created_at", "pk").values_list("pk", flat=True)[:MOST_LOOKED_AT])


_COLUMNS = (
    "id",
    "run_id",
    "job__job_key",
    "job__deleted_at",
    "attempt",
    "dead_reason",
    "scheduled_for",
    "created_at",
    "note",
    "replayed_as",
    "job__dead_letter_replay_max_age_seconds",
)


def _line(row: dict[str, Any]) -> dict[str, Any]:
    same = ("id", "run_id", "attempt", "dead_reason", "scheduled_for", "created_at", "note", "replayed_as")
    return {
        **{name: row[name] for name in same},
        "job_key": row["job__job_key"],
        "job_is_deleted": row["job__deleted_at"] is not None,
        "replayable_until": replayable_until(row["created_at"], row["job__dead_letter_replay_max_age_seconds"]),
    }


def _with_replays(letters: QuerySet[DeadLetter]) -> QuerySet[DeadLetter]:
    replay = Run.objects.filter(replay_of_id=OuterRef("run_id")).values("pk")[:1]
    return letters.annotate(replayed_as=Subquery(replay))


def _chosen(choice: LetterChoice) -> QuerySet[DeadLetter]:
    letters = DeadLetter.objects.all()
    if choice.fingerprint is not None:
        letters = letters.filter(fingerprint=choice.fingerprint)
    if choice.job_key:
        letters = letters.filter(job__job_key=choice.job_key)
    if choice.text:
        letters = letters.filter(contains("fingerprint", choice.text))
    if choice.until is not None:
        letters = letters.filter(created_at__lte=choice.until)
    return letters
