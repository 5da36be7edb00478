"""Every page there is, by the URL configuration: a new one is in the list by itself."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, timedelta

from django.contrib import admin
from django.urls import URLPattern, URLResolver, get_resolver
from django.views.generic import RedirectView

from croniq_site.kernel.clock import SystemClock
from scheduler.dashboard.pages import action

QUERIES = {
    "jobs-confirm": "do=pause&all=1",
    "letters-confirm": "do=replay",
    "runs-confirm": "do=cancel&all=1",
    "calendar": "month={past}",
}
"""What a page's address needs beside its path; {past} is told when it is opened."""
NO_PAGES = {
    "log-raw": "a file",
    "log-stream": "a stream of events",
    "job-preview": "a part of a form",
    "banner": "a part of every page",
    "palette": "a part of every page",
    "set_language": "answers POST alone",
    "logout": "answers POST alone",
    "runner-named": "leads to a runner's page",
    "oidc": "leads to a provider",
    "oidc-callback": "is led to by a provider",
    "mfa_download_recovery_codes": "text",
    "mfa_authenticate": "a step of signing in (test_pages.py has it apart)",
}
"""Addresses that show nothing by themselves, and why."""
WHO = {
    "login": "",
    "account_inactive": "",
    "mfa_activate_totp": "ada",
    "mfa_index": "tess",
    "mfa_view_recovery_codes": "tess",
    "mfa_generate_recovery_codes": "tess",
    "mfa_deactivate_totp": "tess",
    "mfa_reauthenticate": "tess",
}
"""Whose page it is, where it is not ada's; nobody's who is signed in, if empty."""


def month_with_past_days(today: date) -> str:
    """A month of which some days are over, in whatever zone: on the first days of a month the one before."""
    return f"{today - timedelta(days=2):%Y-%m}"


@dataclass(frozen=True)
class Page:
    """``route`` has parts in angle brackets, each of which names an object of the demo."""

    name: str
    route: str
    parts: tuple[str, ...]

    def path(self, objects: dict[str, str]) -> str:
        path = self.route.replace("{past}", month_with_past_days(SystemClock().now().date()))
        for part in self.parts:
            path = path.replace(f"<{part}>", objects[part])
        return path

    @property
    def who(self) -> str:
        return WHO.get(self.name, "ada")

    def __str__(self) -> str:
        return self.name


def pages() -> list[Page]:
    """The pages of Croniq and of the admin."""
    return [*sorted(_pages_of(get_resolver().url_patterns), key=lambda page: page.name), *_admin_pages()]


def _pages_of(patterns: list[URLPattern | URLResolver], prefix: str = "") -> Iterator[Page]:
    for pattern in patterns:
        if isinstance(pattern, URLResolver):
            if pattern.app_name != "admin":
                yield from _pages_of(pattern.url_patterns, prefix + str(pattern.pattern))
        elif _is_page(pattern, prefix):
            name = str(pattern.name)
            route = "/" + prefix + str(pattern.pattern)
            parts = tuple(pattern.pattern.converters)
            for part, converter in pattern.pattern.converters.items():
                kind = type(converter).__name__.removesuffix("Converter").lower().replace("string", "str")
                route = route.replace(f"<{kind}:{part}>", f"<{part}>")
            query = QUERIES.get(name)
            yield Page(name, f"{route}?{query}" if query else route, parts)  # {past} is told when it is opened


def _is_page(pattern: URLPattern, prefix: str) -> bool:
    view = pattern.callback
    if pattern.name is None or pattern.name in NO_PAGES or getattr(view, "view_class", None) is RedirectView:
        return False
    is_machines = hasattr(view, "cls")  # a view of the API
    is_action = view.__code__.co_qualname.startswith(action.__name__ + ".")
    return not is_machines and not is_action


def admin_lists() -> Iterator[Page]:
    """All lists of the admin, for whoever looks without a browser."""
    for model in admin.site._registry:
        name = f"{model._meta.app_label}/{model._meta.model_name}"
        yield Page(f"admin:{name}", f"/admin/{name}/", ())


def _admin_pages() -> Iterator[Page]:
    """Some of each kind, the richest: they are all of one make. `tests/scheduler/test_admin.py` looks at all of them,
    without a browser."""
    yield Page("admin:index", "/admin/", ())
    yield Page("admin:list", "/admin/scheduler/run/", ())
    yield Page("admin:add", "/admin/calendars/calendar/add/", ())
    yield Page("admin:change", "/admin/calendars/calendar/<calendar_id>/change/", ("calendar_id",))
