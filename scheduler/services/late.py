"""Count what comes too late: words about a run from whoever does not (or no longer) hold it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from croniq_site.kernel.database import write_transaction
from croniq_site.kernel.errors import NotFound
from runners.domain.scopes import Principal
from runners.services.audit import Actor, Event, record_events
from scheduler.models import Run
from scheduler.services.tally import Kind, tally


@dataclass(frozen=True)
class LateWord:
    """``word`` is ack, renew or events; ``runner_id`` and ``attempt`` as they were said, empty and None if they were
    not; ``said`` the verdict of an ack; ``principal`` whose key said it."""

    run_id: UUID
    word: str
    runner_id: str
    principal: Principal
    attempt: int | None = None
    said: str = ""


def no_execution(run_id: UUID) -> NotFound:
    return NotFound(f"There is no execution {run_id}.")


def note_late_words(words: Sequence[LateWord], now: datetime) -> list[NotFound | None]:
    """Audit each as ``run.late_word``, in a transaction of its own: what is refused leaves no other trace.

    A run of a tenant that the client does not see is not late, it is unknown: for that word, in its place, NotFound is
    returned and nothing is noted in the other tenant's audit.
    """
    if not words:
        return []
    jobs = {
        run_id: (job_key, tenant)
        for run_id, job_key, tenant in Run.objects.filter(pk__in={word.run_id for word in words}).values_list(
            "pk", "job__job_key", "job__tenant"
        )
    }
    known = [word.run_id in jobs and word.principal.sees(jobs[word.run_id][1]) for word in words]
    with write_transaction():
        record_events(
            [_event(word, *jobs[word.run_id]) for word, is_known in zip(words, known, strict=True) if is_known], now
        )
        for kind, number in Counter(word.word for word, is_known in zip(words, known, strict=True) if is_known).items():
            tally(Kind.LATE_WORD, kind, number)
    return [None if is_known else no_execution(word.run_id) for word, is_known in zip(words, known, strict=True)]


def _event(word: LateWord, job_key: str, tenant: str) -> Event:
    diff = {"word": word.word, "job_key": job_key, "attempt": word.attempt}
    if word.said:
        diff["said"] = word.said
    return Event("run.late_word", "run", str(word.run_id), Actor("runner", word.runner_id), tenant=tenant, diff=diff)
