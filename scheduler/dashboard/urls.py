"""The paths of the pages. None ends in a slash; job keys have none in them."""

from django.conf import settings
from django.contrib.auth.views import LogoutView
from django.urls import path
from django.views.generic import RedirectView

from scheduler.dashboard import (
    audit,
    budgets,
    calendars,
    history,
    jobs,
    letters,
    missed,
    now,
    overlap,
    people,
    runners,
    runs,
    upcoming,
)

urlpatterns = [
    path("", jobs.job_list_page, name="jobs"),
    path("now", now.now_page, name="now"),
    path("jobs", RedirectView.as_view(pattern_name="jobs", query_string=True)),
    path("jobs/<str:job_key>", jobs.job_page, name="job"),
    path("jobs/<str:job_key>/run", jobs.run_now, name="run-now"),
    path("jobs/<str:job_key>/pause", jobs.pause, name="pause"),
    path("jobs/<str:job_key>/resume", jobs.resume, name="resume"),
    path("jobs/<str:job_key>/revert", history.revert_edit, name="revert"),
    path("runs", runs.run_list_page, name="runs"),
    path("runs/planned", runs.planned_page, name="planned"),
    path("runs/<uuid:run_id>", runs.run_page, name="run"),
    path("runs/<uuid:run_id>/log", runs.log_page, name="log"),
    path("runs/<uuid:run_id>/cancel", runs.cancel, name="cancel"),
    path("next", upcoming.next_page, name="next"),
    path("overlap", overlap.overlap_page, name="overlap"),
    path("letters", letters.letter_list_page, name="letters"),
    path("letters/confirm", letters.confirm_page, name="letters-confirm"),
    path("letters/replay", letters.replay_all, name="letters-replay"),
    path("letters/discard", letters.discard_all, name="letters-discard"),
    path("letters/<uuid:letter_id>", letters.letter_page, name="letter"),
    path("letters/<uuid:letter_id>/replay", letters.replay, name="letter-replay"),
    path("letters/<uuid:letter_id>/discard", letters.discard, name="letter-discard"),
    path("letters/<uuid:letter_id>/note", letters.note, name="letter-note"),
    path("missed", missed.missed_page, name="missed"),
    path("missed/<str:job_key>", missed.missed_job_page, name="missed-job"),
    path("missed/<str:job_key>/run", missed.run, name="missed-run"),
    path("missed/<str:job_key>/dismiss", missed.dismiss, name="missed-dismiss"),
    path("budgets", budgets.budget_page, name="budgets"),
    path("audit", audit.audit_page, name="audit"),
    path("calendars", calendars.calendar_list_page, name="calendars"),
    path("calendars/<int:calendar_id>", calendars.calendar_page, name="calendar"),
    path("calendars/<int:calendar_id>/year", calendars.calendar_year_page, name="calendar-year"),
    path("runners", runners.runner_list_page, name="runners"),
    path("sign-in", people.SignIn.as_view(), name="login"),
    path("sign-out", LogoutView.as_view(), name="logout"),
    path("password", people.ChangePassword.as_view(), name="password"),
    # What browsers ask for on pages that name no icon: those of the admin.
    path("favicon.ico", RedirectView.as_view(url=f"{settings.STATIC_URL}croniq.svg")),
]
