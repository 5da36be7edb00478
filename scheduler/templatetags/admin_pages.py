"""The way from a page of the dashboard to that of the Django admin which has the same thing."""

from __future__ import annotations

from typing import Any

from django import template
from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _

register = template.Library()

OBJECTS = {
    "run": ("scheduler_run", "run_id"),
    "log": ("scheduler_run", "run_id"),
    "letter": ("scheduler_deadletter", "letter_id"),
    "calendar": ("calendars_calendar", "calendar_id"),
    "calendar-year": ("calendars_calendar", "calendar_id"),
    "runner": ("runners_runner", "runner_pk"),
    "settings-client": ("runners_apiclient", "client_id"),
    "settings-user": ("auth_user", "user_id"),
    "alert-rule-edit": ("scheduler_alertrule", "rule_id"),
}
"""Of pages that show one thing: what the admin calls it, and the part of the address that is its id."""
JOB_PAGES = ("job", "job-edit", "backfill", "missed-job")
"""Of pages of a job, whose address has its key."""
LISTS = {
    "jobs": "scheduler_job",
    "runs": "scheduler_run",
    "planned": "scheduler_queueentry",
    "letters": "scheduler_deadletter",
    "missed": "scheduler_skippedspan",
    "budgets": "scheduler_concurrencygroup",
    "alerts": "scheduler_alertrule",
    "calendars": "calendars_calendar",
    "runners": "runners_runner",
    "audit": "runners_auditevent",
    "settings-clients": "runners_apiclient",
    "settings-users": "auth_user",
}


@register.simple_tag(takes_context=True)
def admin_page(context: template.Context) -> SafeString | str:
    """A link to the admin's page of what this page shows; nothing for whoever may not open that, or where there is
    none. It asks nothing of the database."""
    request, user = context["request"], context["user"]
    match = request.resolver_match
    if match is None or not user.is_staff:
        return ""
    where, name = _place(match.url_name, match.kwargs)
    app, _underscore, model = name.partition("_")
    if not where or not user.has_perm(f"{app}.view_{model}"):
        return ""
    return format_html('<a class="plain" href="{}">{}</a>', where, _("In the admin"))


def _place(page: str | None, parts: dict[str, Any]) -> tuple[str, str]:
    """The address, and what the admin calls what is there; two empty texts where there is none."""
    if page in OBJECTS:
        name, part = OBJECTS[page]
        return reverse(f"admin:{name}_change", args=[parts[part]]), name
    if page in JOB_PAGES:
        return reverse("admin:scheduler_job_changelist", query={"q": parts["job_key"]}), "scheduler_job"
    if page in LISTS:
        return reverse(f"admin:{LISTS[page]}_changelist"), LISTS[page]
    return "", ""
