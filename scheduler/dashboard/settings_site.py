"""Settings that are looked at: oneself, the tenants, and what the doctor says of this installation."""

from __future__ import annotations

from datetime import datetime

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render

from runners.queries.people import person_of_id
from scheduler.api.views.site import installed_version
from scheduler.dashboard.pages import live_answer, own, page
from scheduler.dashboard.settings_users import PEOPLE
from scheduler.queries.diagnostics import diagnostics
from scheduler.queries.tenants import tenants
from scheduler.queries.trouble import SILENT


@own
def profile_page(request: HttpRequest, now: datetime) -> HttpResponse:
    """Who one is here, what one may do, and the ways to a new password and a second factor."""
    context = {"person": person_of_id(request.user.pk), "totp": settings.CRONIQ_TOTP, "oidc": settings.CRONIQ_OIDC}
    return render(request, "settings/profile.html", context)


@page
def tenants_page(request: HttpRequest, now: datetime) -> HttpResponse:
    context = {"tenants": tenants(now), "limit": settings.CRONIQ_TENANT_MAX_CONCURRENT}
    return render(request, "settings/tenants.html", context)


@page(needs=PEOPLE)
def doctor_page(request: HttpRequest, now: datetime) -> HttpResponse:
    """As `manage.py doctor` and `/v1/system/diagnostics` say it."""
    banner = getattr(request, "banner", None)  # above the page it told of the same signs of life
    found = diagnostics(now, installed_version(), banner.pulse if banner is not None else None)
    context = {"found": found, "versions": list(found.versions.items()), "silent_since": now - SILENT}
    return live_answer(request, "settings/doctor.html", "settings/_doctor.html", context, found)
