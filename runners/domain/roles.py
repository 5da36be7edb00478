"""What people may do: three roles, which are Django's groups, and what their permissions open in the API. Pure."""

from __future__ import annotations

VIEWER, OPERATOR, ADMIN = "viewer", "operator", "admin"
ROLES = (VIEWER, OPERATOR, ADMIN)
"""Each may what the one before it may."""

OURS = frozenset({"scheduler", "calendars", "runners"})
PEOPLE = frozenset({"user", "group"})
_FOR_ADMINS = frozenset({"runners.view_apiclient", "runners.view_apikey"})
_TO_ACT = frozenset(
    {
        *(f"scheduler.{verb}_{what}" for verb in ("add", "change", "delete") for what in ("job", "trigger")),
        *(f"scheduler.{verb}_concurrencygroup" for verb in ("add", "change", "delete")),
        *("scheduler.add_run", "scheduler.change_run"),
        *("scheduler.change_deadletter", "scheduler.delete_deadletter"),
        *(f"calendars.{verb}_{what}" for verb in ("add", "change", "delete") for what in ("calendar", "calendarrule")),
        "runners.delete_runner",
        "scheduler.add_alertexemption",
    }
)

SCOPE_PERMISSIONS = {
    # Who may edit people may give himself everything: he has everything.
    "admin": "auth.change_user",
    "jobs:read": "scheduler.view_job",
    "jobs:write": "scheduler.change_job",
    "jobs:register": "scheduler.add_job",
    "jobs:trigger": "scheduler.add_run",
    "jobs:exec": "scheduler.exec_job",
    "schedules:read": "scheduler.view_trigger",
    "schedules:write": "scheduler.change_trigger",
    "calendars:read": "calendars.view_calendar",
    "calendars:write": "calendars.change_calendar",
    "executions:read": "scheduler.view_run",
    "executions:cancel": "scheduler.change_run",
    "dead-letters:read": "scheduler.view_deadletter",
    "dead-letters:write": "scheduler.change_deadletter",
    "runners:read": "runners.view_runner",
    "runners:write": "runners.delete_runner",
    "alerts:read": "scheduler.view_alert",
    "alerts:snooze": "scheduler.add_alertexemption",
    # A server sends to where a channel leads: that is for admins.
    "alerts:write": "scheduler.change_alertchannel",
    "audit:read": "runners.view_auditevent",
    "api-clients:admin": "runners.change_apikey",
    "metrics:read": "runners.view_heartbeat",
}
"""The permission of a person that opens what the scope opens to a key. `work:…` is for runners: no person has it."""


def has_role_permission(role: str, permission: str) -> bool:
    """Say whether a role has a permission, ``app.codename``, of those that there are."""
    app, _, codename = permission.partition(".")
    verb, _, what = codename.partition("_")
    if role == ADMIN:
        return app in OURS or (app == "auth" and what in PEOPLE)
    reads = app in OURS and verb == "view" and permission not in _FOR_ADMINS
    return reads or (role == OPERATOR and permission in _TO_ACT)
