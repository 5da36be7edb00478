"""Every path that Django answers."""

from django.contrib import admin
from django.urls import include, path
from django.views.i18n import set_language

from croniq_site.admin import sign_in

urlpatterns = [
    path("", include("scheduler.api.urls")),
    path("", include("scheduler.dashboard.urls")),
    path("", include("croniq_site.people.urls")),
    path("language", set_language, name="set_language"),
    path("admin/login/", sign_in),
    path("admin/", admin.site.urls),
]

# What no path answers: JSON for machines, a page for people.
handler400 = "runners.api.errors.bad_request"
handler404 = "runners.api.errors.not_found"
handler500 = "runners.api.errors.server_error"
