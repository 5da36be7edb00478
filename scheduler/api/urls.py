"""The paths of the API. `manage.py serve` answers /v1/work/… before Django sees it; here they are for `runserver`."""

from django.urls import path, re_path

from runners.api.errors import not_found
from scheduler.api.views import (
    calendars,
    dead_letters,
    executions,
    forecast,
    groups,
    job_control,
    jobs,
    producer,
    runners,
    schedules,
    site,
    work,
)

urlpatterns = [
    path("health", site.Health.as_view(), name="health"),
    path("version", site.Version.as_view(), name="version"),
    path("metrics", site.Metrics.as_view(), name="metrics"),
    path("v1/openapi.yaml", site.OpenApi.as_view(), name="openapi"),
    path("v1/work/poll", work.Poll.as_view()),
    path("v1/work/ack", work.Ack.as_view()),
    path("v1/work/renew", work.Renew.as_view()),
    path("v1/work/<str:execution_id>/events", work.Events.as_view()),
    path("v1/trigger", producer.Trigger.as_view()),
    path("v1/jobs", jobs.Jobs.as_view()),
    # Keys have a colon: none of them is "register" or "states".
    path("v1/jobs/register", producer.Register.as_view()),
    path("v1/jobs/states", jobs.JobStates.as_view()),
    path("v1/jobs/<str:job_key>", jobs.OneJob.as_view()),
    path("v1/jobs/<str:job_key>/activate", jobs.Activate.as_view()),
    path("v1/jobs/<str:job_key>/deactivate", jobs.Deactivate.as_view()),
    path("v1/jobs/<str:job_key>/pause", job_control.Pause.as_view()),
    path("v1/jobs/<str:job_key>/resume", job_control.Resume.as_view()),
    path("v1/jobs/<str:job_key>/skip-next", job_control.SkipNext.as_view()),
    path("v1/jobs/<str:job_key>/backfill", job_control.Backfill.as_view()),
    path("v1/system/maintenance", job_control.SystemMaintenance.as_view()),
    path("v1/schedules", schedules.Schedules.as_view()),
    path("v1/schedules/<str:trigger_id>", schedules.OneSchedule.as_view()),
    path("v1/concurrency-groups", groups.Groups.as_view()),
    path("v1/concurrency-groups/<path:name>", groups.OneGroup.as_view()),
    path("v1/calendars", calendars.Calendars.as_view()),
    path("v1/calendars/<str:calendar_id>", calendars.OneCalendar.as_view()),
    path("v1/executions", executions.Executions.as_view()),
    path("v1/executions/<str:execution_id>", executions.OneExecution.as_view()),
    path("v1/executions/<str:execution_id>/logs", executions.ExecutionLogs.as_view()),
    path("v1/executions/<str:execution_id>/cancel", executions.CancelExecution.as_view()),
    path("v1/dashboard/forecast", forecast.ForecastView.as_view()),
    path("v1/runners", runners.Runners.as_view()),
    path("v1/runners/<str:runner_id>", runners.OneRunner.as_view()),
    path("v1/dead-letters", dead_letters.DeadLetters.as_view()),
    path("v1/dead-letters/bulk-delete", dead_letters.DeleteDeadLetters.as_view()),
    path("v1/dead-letters/<str:letter_id>/replay", dead_letters.ReplayDeadLetter.as_view()),
    path("v1/dead-letters/<str:letter_id>", dead_letters.OneDeadLetter.as_view()),
    # Whatever else: JSON, also while DEBUG is on and Django would show its own page.
    re_path(r"^v1(?:/.*)?$", not_found),
]
