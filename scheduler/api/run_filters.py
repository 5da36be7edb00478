"""What narrows the list of runs down, as the page "Runs" does: the same names, the same look."""

from __future__ import annotations

from datetime import datetime

from drf_spectacular.utils import OpenApiParameter
from rest_framework.request import Request

from croniq_site.kernel.errors import InvalidInput
from runners.api.parameters import choice_of, flag_of, instant_of, number_of, text_of
from scheduler.api import openapi
from scheduler.models import Run
from scheduler.queries.run_reach import MOST_ATTEMPT, WINDOWS, jobs_of
from scheduler.queries.runs import LIST_ERROR_CHARACTERS, STATES, RunFilter

PARAMETERS: list[OpenApiParameter] = [
    openapi.query("job_key"),
    openapi.query("state", enum=list(STATES)),
    openapi.query("runner_id"),
    openapi.query("kind", enum=Run.Kind.values, says="How it came about: by its schedule, by hand or API, once more."),
    openapi.query("last", enum=list(WINDOWS), says="Scheduled for within so long before now; not with since or until."),
    openapi.query("since", openapi.OpenApiTypes.DATETIME, says="Scheduled for this instant or later."),
    openapi.query("until", openapi.OpenApiTypes.DATETIME, says="Scheduled for before this instant."),
    openapi.query(
        "error",
        says=f"Part of the first {LIST_ERROR_CHARACTERS:,} characters of the error with which it failed or died; "
        "capital letters and small ones are alike.",
    ),
    openapi.number_query("attempt", MOST_ATTEMPT, says="This attempt or a later one."),
    openapi.query("tag", says="Of the jobs that have this tag now."),
    openapi.query("tenant", says="Of this tenant's jobs. A key of a tenant sees that one's alone, whatever it says."),
    openapi.query("planned", enum=["0", "1"]),
]


def filter_of(request: Request, tenant: str | None, now: datetime) -> RunFilter:
    """Read the filters of an address; of ``tenant`` alone (None: of all). One query where jobs, a tag or a tenant are
    named."""
    since, until = instant_of(request, "since"), instant_of(request, "until")
    last = choice_of(request, "last", WINDOWS)
    if last and (since or until):
        raise InvalidInput.of("last", "Say either how far back, or from when until when.")
    if since is not None and until is not None and since >= until:
        raise InvalidInput.of("until", "A window ends after it begins.")
    return RunFilter(
        tenant=tenant,
        job_ids=_jobs_of(request, tenant),
        state=choice_of(request, "state", STATES),
        runner_id=text_of(request, "runner_id"),
        kind=choice_of(request, "kind", Run.Kind.values),
        since=now - WINDOWS[last] if last else since,
        until=until,
        error_text=text_of(request, "error"),
        least_attempt=number_of(request, "attempt", default=None, most=MOST_ATTEMPT),
        planned=flag_of(request, "planned"),
    )


def _jobs_of(request: Request, tenant: str | None) -> tuple[int, ...] | None:
    job_key, tag, asked = (text_of(request, name) or "" for name in ("job_key", "tag", "tenant"))
    if not (job_key or tag or asked):
        return None
    return jobs_of(tenant=asked or tenant or "", job_key=job_key, tag=tag)
