"""What every page has in common: who may see it, how a refusal looks, how a part of it keeps itself up to date."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from functools import partial, wraps
from hashlib import sha256
from typing import Any
from urllib.parse import quote, urlencode, urlsplit, urlunsplit
from uuid import UUID

from django.contrib import messages
from django.contrib.auth.models import AbstractBaseUser, AnonymousUser
from django.core.exceptions import PermissionDenied
from django.db import DatabaseError, InterfaceError
from django.http import HttpRequest, HttpResponse, HttpResponseNotAllowed, HttpResponseRedirect
from django.shortcuts import render
from django.urls import reverse
from django.utils.cache import add_never_cache_headers, patch_vary_headers
from django.utils.translation import gettext as _
from django_htmx.http import HttpResponseClientRedirect

from croniq_site.kernel.clock import DatabaseClock
from croniq_site.kernel.database import is_outage
from croniq_site.kernel.errors import CroniqError, InvalidInput
from croniq_site.kernel.text import cleaned
from runners.services.audit import Actor
from runners.services.people import must_change_password
from scheduler.dashboard.frame import banner_of
from scheduler.dashboard.refusals import errors_of, labelled_errors
from scheduler.dashboard.sentences import said

_log = logging.getLogger(__name__)

VIEW = "scheduler.view_job"
"""The permission to look, which each role has. Whoever is signed in and has no role sees nothing."""
ACT = "scheduler.change_job"
"""The permission to act: run now, pause, resume, cancel."""

TEXT_MOST_BYTES = 1020
View = Callable[..., HttpResponse]


def page(view: View | None = None, *, needs: str = VIEW) -> View:
    """Make a page of ``view(request, now, …)``, never cached, for whoever has the permission ``needs``; refusals become
    pages of their own."""
    if view is None:
        return partial(page, needs=needs)

    @wraps(view)
    def wrapped(request: HttpRequest, **parts: Any) -> HttpResponse:
        def look() -> HttpResponse:
            _let(request, needs)
            return view(request, _framed(request), **parts)

        return _answered(request, ("GET", "HEAD"), look)

    return wrapped


def action(view: View | None = None, *, needs: str = ACT) -> View:
    """Make an action of ``view(request, now, …)``, which answers the address to go on to, or what is to be seen this
    once; for whoever has the permission ``needs``.

    What a service refuses is a message on the page that ``back`` (an address on this site's own paths) names.
    """
    if view is None:
        return partial(action, needs=needs)

    @wraps(view)
    def wrapped(request: HttpRequest, **parts: Any) -> HttpResponse:
        def act() -> HttpResponse:
            _let(request, needs)
            done = view(request, DatabaseClock().now(), **parts)
            return done if isinstance(done, HttpResponse) else HttpResponseRedirect(done)

        return _answered(request, ("POST",), act)

    return wrapped


def form(view: View | None = None, *, needs: str = ACT) -> View:
    """Make a page to fill in of ``view(request, now, …)``, which answers GET with the form and POST with a redirect or
    the form again, with what was wrong; both are for whoever has the permission ``needs``."""
    if view is None:
        return partial(form, needs=needs)

    @wraps(view)
    def wrapped(request: HttpRequest, **parts: Any) -> HttpResponse:
        def fill_in() -> HttpResponse:
            _let(request, needs)
            return view(request, _framed(request), **parts)

        return _answered(request, ("GET", "HEAD", "POST"), fill_in)

    return wrapped


class _PasswordOfAnother(Exception):
    """Somebody else knows it: it opens nothing but the page that changes it."""


def _let(request: HttpRequest, needs: str) -> None:
    # First: of a superuser Django asks no backend what he may.
    if must_change_password(request.user):
        raise _PasswordOfAnother
    if not request.user.has_perm(needs):
        raise PermissionDenied


def own(view: View) -> View:
    """Make a page to fill in of ``view(request, now, …)`` for whoever is signed in, with a role or without: what is in
    it is his alone."""

    @wraps(view)
    def wrapped(request: HttpRequest, **parts: Any) -> HttpResponse:
        return _answered(request, ("GET", "HEAD", "POST"), lambda: view(request, _framed(request), **parts))

    return wrapped


def may_act(user: AbstractBaseUser | AnonymousUser) -> bool:
    return user.has_perm(ACT)


def actor_of(request: HttpRequest) -> Actor:
    return Actor("user", request.user.get_username())


def or_message(request: HttpRequest, act: Callable[[], Any]) -> Any:
    """Do it and return what it returned; a conflict or a full queue becomes a message and None. The page's script is
    told of it instead, and says so beside the button."""
    try:
        return act()
    except CroniqError as refusal:
        if refusal.status not in (409, 429) or request.htmx:
            raise
        messages.error(request, said(refusal.message))
        return None


def live_answer(request: HttpRequest, whole: str, part: str, context: dict[str, Any], shown: object) -> HttpResponse:
    """Answer a page, or only its live part to the part's own poll: 204 while ``shown`` is what it shows already.

    What has not changed is not touched, so that nobody loses the row under the pointer. ``shown`` is values whose
    ``repr`` tells all that the part shows.
    """
    seen = sha256(repr(shown).encode()).hexdigest()[:16]
    query = request.GET.copy()
    query["seen"] = seen
    context["live_url"] = f"{request.path}?{query.urlencode()}"
    if not request.htmx:
        return render(request, whole, context)
    return HttpResponse(status=204) if request.GET.get("seen") == seen else render(request, part, context)


def text_in(request: HttpRequest, name: str) -> str:
    """The text of the address, as both databases can compare it; empty if there is none."""
    return cleaned(request.GET.get(name, "").strip(), TEXT_MOST_BYTES)


def position_in(request: HttpRequest, name: str) -> tuple[datetime, UUID] | None:
    """The place in a list, "instant,uuid", from which the address goes on; None if it begins at the top."""
    text = request.GET.get(name, "")
    if not text:
        return None
    try:
        at, _, run_id = text.partition(",")
        instant = datetime.fromisoformat(at)
        if instant.tzinfo is None:
            raise ValueError
        return instant.astimezone(UTC), UUID(run_id)
    except (ValueError, OverflowError):
        raise InvalidInput.of(name, "This is no place in the list; begin at its top.") from None


def position_text(at: datetime, run_id: UUID) -> str:
    return f"{at.astimezone(UTC):%Y-%m-%dT%H:%M:%S.%fZ},{run_id}"


def address(name: str, query: Mapping[str, object] | None = None, **parts: object) -> str:
    """The path of a page with what of ``query`` is set."""
    path = reverse(name, kwargs=parts or None)
    chosen = {key: value for key, value in (query or {}).items() if value not in ("", None, False)}
    return f"{path}?{urlencode(chosen)}" if chosen else path


def _framed(request: HttpRequest) -> datetime:
    """Return now, and let the page have what stands around it; a part that polls stands in its page already."""
    now = DatabaseClock().now()
    if not request.htmx:
        request.banner = banner_of(now)
    return now


def _answered(request: HttpRequest, methods: tuple[str, ...], answer: Callable[[], HttpResponse]) -> HttpResponse:
    if request.method not in methods:
        return HttpResponseNotAllowed(methods)
    is_of_script = bool(request.htmx) and request.method == "POST"
    try:
        response = answer() if request.user.is_authenticated else _sign_in(request)
        if is_of_script and response.status_code == 302:
            # A browser would follow it before the page's script sees where it leads.
            response = HttpResponseClientRedirect(response["Location"])
    except CroniqError as refusal:
        if is_of_script:
            response = _beside_the_button(refusal.status, *errors_of(refusal).items())
        else:
            context = {"refusal": refusal, "told": labelled_errors(refusal), "back": _page_before(request)}
            response = render(request, "refused.html", context, status=refusal.status)
    except _PasswordOfAnother:
        where = reverse("password")
        response = HttpResponseClientRedirect(where) if request.htmx else HttpResponseRedirect(where)
    except PermissionDenied:
        if not is_of_script:
            raise
        response = _beside_the_button(403, ("", _("You may look at this, not do it. Nothing was done.")))
    except (DatabaseError, InterfaceError) as error:
        if not is_outage(error):
            raise
        _log.warning("the database is away: %s", " ".join(str(error).split())[:200])
        # Without the database there is no user either: a page that asks nothing.
        response = render(None, "503.html", status=503)
    add_never_cache_headers(response)
    patch_vary_headers(response, ["HX-Request"])
    return response


def _beside_the_button(status: int, *told: tuple[str, str]) -> HttpResponse:
    """What the page's script says where somebody clicked: a line for each (field, sentence), at the field if the form
    has it, else beside the button."""
    lines = "\n".join(" ".join(text.split()) for _field, text in told)
    response = HttpResponse(lines, status=status, content_type="text/plain; charset=utf-8")
    response["Croniq-Fields"] = ",".join(quote(field) for field, _text in told)
    return response


def _page_before(request: HttpRequest) -> str:
    """The path of the page of ours that somebody comes from; empty if it is none, or the refused one itself."""
    where = urlsplit(request.headers.get("Referer", ""))
    if where.netloc != request.get_host() or not where.path.startswith("/") or where.path.startswith("//"):
        return ""
    path = urlunsplit(("", "", where.path, where.query, ""))
    return "" if path == request.get_full_path() else path


def _sign_in(request: HttpRequest) -> HttpResponse:
    if request.htmx and request.method == "POST":
        return _beside_the_button(401, ("", _("You are not signed in any more. Nothing was done.")))
    if request.htmx:
        # A part that polls must not show the sign-in page inside of itself.
        try:
            where = request.htmx.current_url_abs_path or reverse("now")
        except ValueError:  # no address at all
            where = reverse("now")
        return HttpResponseClientRedirect(address("login", {"next": where}))
    where = request.get_full_path() if request.method != "POST" else reverse("now")
    return HttpResponseRedirect(address("login", {"next": where}))
