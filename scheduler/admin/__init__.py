"""The admin of the scheduler."""

from django.contrib import admin

from scheduler.admin import audit, calendars, jobs, runs  # noqa: F401

admin.site.site_header = admin.site.site_title = "Croniq"
admin.site.index_title = "Administration"
