"""The way from a row of the admin to the page of the dashboard that shows it better."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.db.models import Model
from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, pgettext_lazy

from scheduler.models import Job


def page_of(job: Job) -> SafeString | str:
    """A link to the page of a job, which one that is deleted has not."""
    if job.deleted_at is not None:
        return _("deleted")
    return link("job", job_key=job.job_key)


def link(page: str, **parts: Any) -> SafeString:
    return format_html('<a href="{}">{}</a>', reverse(page, kwargs=parts), _("Open its page"))


class LinksToRun:
    """For a `ModelAdmin` of rows that belong to a run."""

    readonly_fields = ("page",)

    @admin.display(description=pgettext_lazy("label", "run"), ordering="run")
    def of_run(self, row: Model) -> str:
        return str(row.run_id)

    @admin.display(description=gettext_lazy("Dashboard"))
    def page(self, row: Model) -> SafeString:
        return link("run", run_id=row.run_id)
