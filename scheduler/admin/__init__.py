"""The admin of the scheduler."""

from django.contrib import admin
from django.utils.translation import gettext_lazy

from scheduler.admin import alerts, audit, calendars, jobs, runs  # noqa: F401
from scheduler.admin.labels import label_models

label_models()
admin.site.site_header = admin.site.site_title = "Croniq"
admin.site.site_url = None  # its link is that to the dashboard (templates/admin/base_site.html)
admin.site.index_title = gettext_lazy("Administration")
