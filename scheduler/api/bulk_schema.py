"""The shapes of bulk operations, for the OpenAPI document."""

from __future__ import annotations

from rest_framework import serializers

from scheduler.api.openapi import HasFields
from scheduler.api.schema import at, number, text, texts
from scheduler.queries.bulk import MOST, REPEATABLE, STOPPABLE

_EXPECTED = "How many are meant: `matched` of the dry run. Another number by now is 409, and nothing is changed."


class BulkBody(serializers.Serializer):
    dry_run = serializers.BooleanField(required=False, help_text="Only say how many and which.")
    expected = number(required=False, min_value=0, max_value=MOST, help_text=_EXPECTED)


class _RunsBody(BulkBody):
    ids = serializers.ListField(child=serializers.UUIDField(), required=False, max_length=MOST)
    job_key = text(required=False)
    runner_id = text(required=False)
    since = at(required=False, help_text="Scheduled for this instant or later.")
    until = at(required=False, help_text="Scheduled for before this instant.")


class BulkCancelBody(_RunsBody):
    """Which runs: the filters of their list, or ids, or both."""

    state = serializers.ChoiceField(STOPPABLE, required=False, help_text="Both where none is named.")
    planned = serializers.BooleanField(required=False, help_text="Also those that are not due yet.")
    reason = text(required=False, max_length=255)


class BulkReplayBody(_RunsBody):
    """Which runs: the filters of their list, or ids, or both."""

    state = serializers.ChoiceField(
        REPEATABLE, required=False, help_text="Without it and without ids: failed, dead and cancelled."
    )


class BulkLettersBody(HasFields, BulkBody):
    """Which letters: their ids, or all; of one job where job_key is given."""

    ids = serializers.ListField(child=serializers.UUIDField(), required=False, max_length=MOST)
    all_ = serializers.BooleanField(required=False)
    job_key = text(required=False)
    force = serializers.BooleanField(required=False, help_text="Also past the job's dead_letter_replay_max_age.")


class BulkJobsBody(HasFields, BulkBody):
    """Which jobs: by their keys, by a tag, or all."""

    job_keys = texts(required=False, max_length=MOST)
    tag = text(required=False)
    all_ = serializers.BooleanField(required=False)


class BulkPauseBody(BulkJobsBody):
    reason = text(required=False, max_length=255)
    until = at(required=False)


class BulkTagBody(BulkJobsBody):
    add = texts(required=False)
    remove = texts(required=False)


class RefusedAnswer(serializers.Serializer):
    id = text()
    error = text()
    message = text()


class BulkAnswer(serializers.Serializer):
    dry_run = serializers.BooleanField()
    matched = number(help_text=f"Of one request at most {MOST:,}.")
    has_more = serializers.BooleanField(help_text="There are more: ask again after this.")
    changed = number(help_text="0 in a dry run.")
    ids = texts(help_text="The first 100: in a dry run of what matches, else of what was changed.")
    refused = RefusedAnswer(many=True, help_text="The first 100 that a rule kept from being changed, and why.")
