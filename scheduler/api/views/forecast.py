"""/v1/dashboard/forecast: what is to come."""

from __future__ import annotations

from datetime import timedelta

from drf_spectacular.types import OpenApiTypes
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from croniq_site.kernel.errors import InvalidInput
from runners.api.parameters import flag_of, number_of
from runners.api.views import ApiView
from scheduler.api import openapi, schema, wire
from scheduler.queries.forecast import MOST_BUCKETS, forecast
from scheduler.queries.forecast_rows import BrokenTrigger, Bucket, Coming, Forecast, JobForecast

LONGEST_MINUTES = 31 * 24 * 60
PER_JOB = 10
_USUAL_BUCKETS = 300
_BUCKETS = (5, 15, 60, 180)


class BucketAnswer(serializers.Serializer):
    """What falls in (start, end]."""

    start = schema.at()
    end = schema.at()
    count = schema.number(help_text="Fires of jobs that are not paused then.")
    blocked = schema.number(help_text="Occurrences that a calendar does not let fire.")
    paused = schema.number(help_text="Fires before the end of their job's pause: they do not start.")


class ComingAnswer(serializers.Serializer):
    """A fire, or an occurrence that a calendar blocks."""

    at = schema.at()
    trigger_id = serializers.UUIDField()
    blocked = serializers.BooleanField()
    skipped = serializers.BooleanField(help_text="A fire that was taken out (skip-next): it counts nowhere.")
    paused = serializers.BooleanField(help_text="It comes before the end of the job's pause and does not start.")
    moved_from = schema.at(allow_null=True, help_text="Of a fire elsewhere: the occurrence that led to it.")
    calendar = schema.optional_text()
    rule = schema.optional_text(help_text="Of a blocked one: the rule or the holiday that closes the calendar.")
    on_blocked = schema.optional_text()
    moved_to = schema.at(allow_null=True, help_text="Of a blocked one: when it fires instead.")


class JobForecastAnswer(serializers.Serializer):
    job_key = schema.text()
    paused = serializers.BooleanField()
    paused_until = schema.at(allow_null=True)
    count = schema.number(help_text="Its fires, also those that its pause keeps back.")
    held = schema.number(help_text="So many of them come before the end of its pause and do not start.")
    blocked = schema.number()
    fires = ComingAnswer(many=True, help_text="The first ones.")
    more = schema.number(help_text="How many there are beyond those.")


class BrokenAnswer(serializers.Serializer):
    job_key = schema.text()
    trigger_id = serializers.UUIDField()
    error = schema.text()


class ForecastAnswer(serializers.Serializer):
    window_minutes = schema.number()
    bucket_minutes = schema.number()
    start = schema.at()
    end = schema.at()
    total = schema.number()
    buckets = BucketAnswer(many=True)
    jobs = JobForecastAnswer(many=True, required=False)
    config_errors = BrokenAnswer(many=True, help_text="Schedules that stand still.")
    exact = serializers.BooleanField(help_text="False: there is too much to count it one by one.")
    schedules_left_out = schema.number()


class ForecastView(ApiView):
    required_scope = {"GET": "jobs:read"}

    @openapi.documented(
        "forecast",
        "What fires in the coming minutes, computed from the schedules.",
        {200: ForecastAnswer},
        parameters=[
            openapi.number_query("window_minutes", LONGEST_MINUTES, says="60 by default."),
            openapi.number_query("bucket_minutes", LONGEST_MINUTES, says="5 by default, more for a long window."),
            openapi.query("jobs", OpenApiTypes.BOOL, says="1: each job's first fires too."),
        ],
        refuses=(400,),
    )
    def get(self, request: Request) -> Response:
        window = number_of(request, "window_minutes", default=60, most=LONGEST_MINUTES) or 60
        bucket = number_of(request, "bucket_minutes", default=None, most=LONGEST_MINUTES) or _usual_bucket(window)
        if -(-window // bucket) > MOST_BUCKETS:
            raise InvalidInput.of(
                "bucket_minutes",
                f"{-(-window // bucket)} buckets are more than {MOST_BUCKETS}; "
                f"bucket_minutes is {-(-window // MOST_BUCKETS)} at least for such a window.",
            )
        with_jobs = flag_of(request, "jobs")
        found = forecast(
            self.now,
            timedelta(minutes=window),
            bucket=timedelta(minutes=bucket),
            tenant=self.principal.tenant,
            per_job=PER_JOB if with_jobs else 0,
        )
        return Response(_body(found, window, bucket, with_jobs))


def _usual_bucket(window: int) -> int:
    return next((minutes for minutes in _BUCKETS if window <= minutes * _USUAL_BUCKETS), _BUCKETS[-1])


def _body(found: Forecast, window: int, bucket: int, with_jobs: bool) -> wire.Body:
    body = {
        "window_minutes": window,
        "bucket_minutes": bucket,
        "start": wire.instant(found.start),
        "end": wire.instant(found.end),
        "total": sum(bucket.fires for bucket in found.buckets),
        "buckets": [_bucket(bucket) for bucket in found.buckets],
        "config_errors": [_broken(broken) for broken in found.broken],
        "exact": found.is_exact,
        "schedules_left_out": found.left_out,
    }
    return body | {"jobs": [_job(job) for job in found.jobs]} if with_jobs else body


def _bucket(bucket: Bucket) -> wire.Body:
    return {
        "start": wire.instant(bucket.start),
        "end": wire.instant(bucket.end),
        "count": bucket.fires,
        "blocked": bucket.blocked,
        "paused": bucket.paused,
    }


def _job(job: JobForecast) -> wire.Body:
    return {
        "job_key": job.job_key,
        "paused": job.is_paused,
        "paused_until": wire.instant(job.paused_until),
        "count": job.fires,
        "held": job.held,
        "blocked": job.blocked,
        "fires": [_coming(item) for item in job.coming],
        "more": job.more,
    }


def _coming(item: Coming) -> wire.Body:
    return {
        "at": wire.instant(item.at),
        "trigger_id": str(item.trigger_id),
        "blocked": item.is_blocked,
        "skipped": item.is_skipped,
        "paused": item.is_paused,
        "moved_from": wire.instant(item.moved_from),
        "calendar": item.calendar or None,
        "rule": item.rule or None,
        "on_blocked": item.policy or None,
        "moved_to": wire.instant(item.moved_to),
    }


def _broken(broken: BrokenTrigger) -> wire.Body:
    return {"job_key": broken.job_key, "trigger_id": str(broken.trigger_id), "error": broken.error}
