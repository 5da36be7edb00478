"""What somebody chooses for himself: the zone in which he sees instants."""

from __future__ import annotations

from datetime import datetime

from django.contrib import messages
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import render
from django.utils.translation import gettext as _

from calendars.domain.zones import zone_names
from croniq_site.kernel.errors import InvalidInput
from scheduler.dashboard.frame import banner_of
from scheduler.dashboard.pages import actor_of, address, own, page
from scheduler.services.preferences import choose_time_zone


@own
def time_zone_page(request: HttpRequest, now: datetime) -> HttpResponse:
    chosen, refusal = _chosen(request), ""
    if request.method == "POST":
        chosen = request.POST.get("time_zone", "").strip()
        try:
            choose_time_zone(request.user.pk, chosen, now, actor_of(request))
        except InvalidInput as refused:
            refusal = refused.message
        else:
            messages.success(request, _("Times are in {zone} now.").format(zone=chosen or _("your browser's zone")))
            return HttpResponseRedirect(address("time-zone"))
    context = {"now": now, "chosen": chosen, "refusal": refusal, "zones": sorted(zone_names())}
    return render(request, "dashboard/time_zone.html", context, status=400 if refusal else 200)


@page
def banner_page(request: HttpRequest, now: datetime) -> HttpResponse:
    """The banner alone, for the poll of a page that is open; 204 while it shows as much already."""
    banner = getattr(request, "banner", None) or banner_of(now)
    seen = request.GET.get("seen", "")
    return HttpResponse(status=204) if seen == banner.seen else render(request, "_banner.html", {"banner": banner})


def _chosen(request: HttpRequest) -> str:
    preferences = getattr(request.user, "preferences", None)
    return preferences.time_zone if preferences is not None else ""
