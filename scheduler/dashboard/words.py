"""Words for what the wire and the rows say in codes: states, reasons, sources."""

from __future__ import annotations

from collections.abc import Mapping

from django.utils.functional import Promise
from django.utils.translation import get_language, pgettext, pgettext_lazy

from scheduler.queries.waits import Reason

Words = Mapping[str, str | Promise]

STATES: Words = {
    "queued": pgettext_lazy("state", "queued"),
    "ready": pgettext_lazy("state", "ready"),
    "gated": pgettext_lazy("state", "gated"),
    "held": pgettext_lazy("state", "held"),
    "claimed": pgettext_lazy("state", "running"),
    "stopping": pgettext_lazy("state", "stopping"),
    "completed": pgettext_lazy("state", "completed"),
    "failed": pgettext_lazy("state", "failed"),
    "dead": pgettext_lazy("state", "dead"),
    "cancelled": pgettext_lazy("state", "cancelled"),
    "skipped": pgettext_lazy("state", "skipped"),
    "missed": pgettext_lazy("state", "missed"),
    "timed_out": pgettext_lazy("state", "timed out"),
    "lost": pgettext_lazy("state", "lost"),
    "active": pgettext_lazy("state", "active"),
    "inactive": pgettext_lazy("state", "inactive"),
    "paused": pgettext_lazy("state", "paused"),
    "deleted": pgettext_lazy("state", "deleted"),
    "config_error": pgettext_lazy("state", "config error"),
    "well": pgettext_lazy("state", "all is well"),
    "look": pgettext_lazy("state", "needs a look"),
    "overdue": pgettext_lazy("state", "overdue"),
    "failing": pgettext_lazy("state", "failing"),
    "online": pgettext_lazy("state", "online"),
    "stale": pgettext_lazy("state", "stale"),
    "draining": pgettext_lazy("state", "draining"),
    "drained": pgettext_lazy("state", "drained"),
    "flapping": pgettext_lazy("state", "flapping"),
    "open": pgettext_lazy("state", "open"),
    "closed": pgettext_lazy("state", "closed"),
    "partly": pgettext_lazy("state", "partly"),
    "live": pgettext_lazy("state", "live"),
    "expired": pgettext_lazy("state", "expired"),
    "revoked": pgettext_lazy("state", "revoked"),
    "planned": pgettext_lazy("state", "planned"),
    "waiting": pgettext_lazy("state", "waiting"),
    "broken": pgettext_lazy("state", "broken"),
}
"""Of runs, jobs, runners, days. Some that people know by another word than the wire's."""

REASONS: Words = {
    "lease": pgettext_lazy("reason", "its lease ran out"),
    "takeover": pgettext_lazy("reason", "another process took the runner's identity over"),
    "lost_answer": pgettext_lazy("reason", "its runner never got the answer that held it"),
    "disconnected": pgettext_lazy("reason", "its runner was gone before the answer"),
    "retries_exhausted": pgettext_lazy("reason", "retries exhausted"),
    "losses_exhausted": pgettext_lazy("reason", "losses exhausted"),
    "timed_out": pgettext_lazy("reason", "timed out"),
    "queue_ttl": pgettext_lazy("reason", "queue ttl"),
    "job_deleted": pgettext_lazy("reason", "job deleted"),
    "skip_next": pgettext_lazy("reason", "skip next"),
    "rules_changed": pgettext_lazy("reason", "rules changed"),
    "downtime": pgettext_lazy("reason", "downtime"),
    "paused": pgettext_lazy("reason", "paused"),
    "maintenance": pgettext_lazy("reason", "maintenance"),
    "queue_full": pgettext_lazy("reason", "queue full"),
    "overlap": pgettext_lazy("reason", "overlap"),
    "misfire": pgettext_lazy("reason", "misfire"),
    "catch_up": pgettext_lazy("reason", "catch up"),
    "user": pgettext_lazy("reason", "user"),
    "api_client": pgettext_lazy("reason", "api client"),
    "system": pgettext_lazy("reason", "system"),
    "runner": pgettext_lazy("reason", "runner"),
    "job": pgettext_lazy("reason", "job"),
    "trigger": pgettext_lazy("reason", "trigger"),
    "run": pgettext_lazy("reason", "run"),
    "dead_letter": pgettext_lazy("reason", "dead letter"),
    "dead_letters": pgettext_lazy("reason", "dead letters"),
    "calendar": pgettext_lazy("reason", "calendar"),
    "group": pgettext_lazy("reason", "group"),
    "tenant": pgettext_lazy("reason", "tenant"),
    "tag": pgettext_lazy("reason", "tag"),
    "alert_rule": pgettext_lazy("reason", "alert rule"),
    "alert_channel": pgettext_lazy("reason", "alert channel"),
    "alert_exemption": pgettext_lazy("reason", "alert exemption"),
    "alert": pgettext_lazy("reason", "alert"),
    "site": pgettext_lazy("reason", "installation"),
    "jobs_file": pgettext_lazy("reason", "jobs file"),
    "api_key": pgettext_lazy("reason", "api key"),
    "auth_group": pgettext_lazy("reason", "auth group"),
    "preferences": pgettext_lazy("reason", "preferences"),
    "file": pgettext_lazy("reason", "file"),
}
"""Why something happened, and who or what it happened to."""

WAITS: Words = {
    "maintenance": pgettext_lazy("waits", "all dispatch is held"),
    "paused": pgettext_lazy("waits", "held by the pause"),
    "not_due": pgettext_lazy("waits", "not due yet"),
    "backing_off": pgettext_lazy("waits", "waits for its next attempt"),
    "job_limit": pgettext_lazy("waits", "the job runs as often at once as it may"),
    "group_limit": pgettext_lazy("waits", "its group is full"),
    "tenant_limit": pgettext_lazy("waits", "its tenant is full"),
    "no_runner": pgettext_lazy("waits", "no runner is online"),
    "lacking_capability": pgettext_lazy("waits", "no runner has {names}"),
    "drained": pgettext_lazy("waits", "only drained runners could take it"),
    "no_handler": pgettext_lazy("waits", "no runner of your code is online"),
    "no_taker": pgettext_lazy("waits", "no one runner may take it"),
    "runners_full": pgettext_lazy("waits", "its runners have no place free"),
}
"""Why a run has not started, as a list says it; the whole sentence is on the run's own page."""

MISSED: Words = {
    "downtime": pgettext_lazy("missed", "while nobody was there to start it"),
    "paused": pgettext_lazy("missed", "while it was paused"),
    "maintenance": pgettext_lazy("missed", "while all dispatch was held"),
    "queue_full": pgettext_lazy("missed", "because its queue was full"),
    "overlap": pgettext_lazy("missed", "because the run before still went on"),
    "skip_next": pgettext_lazy("missed", "taken out by somebody"),
    "rules_changed": pgettext_lazy("missed", "because a zone or a holiday was moved by new rules"),
}
"""Why a fire made no run, after its number."""

SOURCES: Words = {
    "file": pgettext_lazy("source", "jobs file"),
    "runner": pgettext_lazy("source", "a runner"),
    "api": pgettext_lazy("source", "API"),
    "admin": pgettext_lazy("source", "a person"),
    "demo": pgettext_lazy("source", "demo"),
}
"""Who has the say in a job."""

CHOICES: Words = {
    "advance": pgettext_lazy("choice", "advance"),
    "defer": pgettext_lazy("choice", "defer"),
    "following": pgettext_lazy("choice", "following"),
    "preceding": pgettext_lazy("choice", "preceding"),
    "parallel": pgettext_lazy("choice", "parallel"),
    "queue_one": pgettext_lazy("choice", "queue one"),
    "skip": pgettext_lazy("choice", "skip"),
    "all": pgettext_lazy("choice", "all"),
    "latest": pgettext_lazy("choice", "latest"),
    "none": pgettext_lazy("choice", "none"),
    "fixed": pgettext_lazy("choice", "fixed"),
    "linear": pgettext_lazy("choice", "linear"),
    "exponential": pgettext_lazy("choice", "exponential"),
}
"""Policies of jobs and schedules."""

LANES: Words = {
    "no runner": pgettext_lazy("lane", "no runner"),
    "no tag": pgettext_lazy("lane", "no tag"),
    "no group": pgettext_lazy("lane", "no group"),
    "to come, on any runner": pgettext_lazy("lane", "to come, on any runner"),
}
"""What has no lane of its own."""


_DECIMAL = {"de": ","}


def number_words(value: float, pattern: str) -> str:
    """A number in a sentence, as the reader's language writes it. Drawings have a point whatever the language."""
    return format(value, pattern).replace(".", _DECIMAL.get(get_language() or "", "."))


def lane_words(title: str) -> str:
    return str(LANES.get(title, title))


def choice_words(name: str) -> str:
    return str(CHOICES.get(name, name))


def state_words(name: str) -> str:
    words = str(STATES.get(name, name))
    return words[:1].upper() + words[1:]


def reason_words(code: str) -> str:
    """A code of ours in words, whatever somebody wrote as it is."""
    if code in REASONS:
        return str(REASONS[code])
    return code.replace("_", " ") if code.islower() and " " not in code else code


def wait_words(reason: Reason | None) -> str:
    """Why a queued run waits; None: nothing but what runs before it."""
    if reason is None:
        return pgettext("waits", "waits for its turn")
    return str(WAITS[reason.code]).format(names=", ".join(reason.names))


def missed_words(code: str) -> str:
    return str(MISSED[code]) if code in MISSED else reason_words(code)


def source_words(managed_by: str) -> str:
    return str(SOURCES.get(managed_by, managed_by))
