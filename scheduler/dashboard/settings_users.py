"""People: who may sign in and what they may do. Somebody who may all always stays."""

from __future__ import annotations

from datetime import datetime

from django.conf import settings
from django.contrib import messages
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import render
from django.utils.translation import gettext as _
from django.utils.translation import gettext_noop

from croniq_site.kernel.errors import Conflict, InvalidInput, NotFound
from runners.domain.roles import ROLES, VIEWER
from runners.queries.people import PersonRow, person_list, person_of_id
from runners.services.people import create_person, delete_person, edit_person, renew_password
from scheduler.dashboard.pages import action, actor_of, address, form, or_message, text_in
from scheduler.dashboard.sentences import said

PEOPLE = "auth.change_user"
PAGE_ROWS = 100
ROLE_WORDS = (gettext_noop("viewer"), gettext_noop("operator"), gettext_noop("admin"))
"""The roles as the catalogues have them: pages translate the groups' names."""


@form(needs=PEOPLE)
def users_page(request: HttpRequest, now: datetime) -> HttpResponse:
    """The people; a POST makes one and shows the first password, this once."""
    username, role, error = "", VIEWER, ""
    if request.method == "POST":
        username, role = request.POST.get("username", "").strip(), request.POST.get("role", "")
        try:
            user, password = create_person(username, now, roles=[role] if role else [], actor=actor_of(request))
        except (InvalidInput, Conflict) as refused:
            error = _sentence(refused)
        else:
            return _user_answer(request, _person_or_404(user.pk), password=password, is_new=True)
    after = text_in(request, "after")
    people = person_list(limit=PAGE_ROWS + 1, after=after)
    more = address("settings-users", {"after": people[PAGE_ROWS - 1].username}) if len(people) > PAGE_ROWS else ""
    context = {
        "people": people[:PAGE_ROWS],
        "more": more,
        "roles": ROLES,
        "role": role,
        "username": username,
        "error": error,
        "oidc": settings.CRONIQ_OIDC,
    }
    return render(request, "settings/users.html", context, status=400 if error else 200)


@form(needs=PEOPLE)
def user_page(request: HttpRequest, now: datetime, user_id: int) -> HttpResponse:
    """One of them; a POST changes what he may do and whether he may sign in."""
    person = _person_or_404(user_id)
    if request.method == "POST":
        roles, is_active = request.POST.getlist("roles"), request.POST.get("is_active") == "on"
        try:
            edit_person(user_id, now, roles=roles, is_active=is_active, actor=actor_of(request))
        except (InvalidInput, Conflict) as refused:
            error = _sentence(refused)
            return _user_answer(request, person, error=error, status=400)
        messages.success(request, _("Saved. It holds from the next request on."))
        return HttpResponseRedirect(address("settings-user", user_id=user_id))
    return _user_answer(request, person)


@action(needs=PEOPLE)
def new_password(request: HttpRequest, now: datetime, user_id: int) -> HttpResponse:
    """Give somebody another password and show it, this once."""
    person = _person_or_404(user_id)
    _user, password = renew_password(user_id, now, actor=actor_of(request))
    return _user_answer(request, person, password=password)


@action(needs=PEOPLE)
def delete(request: HttpRequest, now: datetime, user_id: int) -> str:
    """The form says the name once more."""
    person = _person_or_404(user_id)
    if request.POST.get("typed", "").strip() != person.username:
        sentence = _("Nothing was done: type {name} to say that you mean it.")
        raise InvalidInput.of("typed", sentence.format(name=person.username))
    if not or_message(request, lambda: delete_person(user_id, now, actor=actor_of(request)) or True):
        return address("settings-user", user_id=user_id)
    messages.success(request, _("{name} is deleted. What the audit says of him stays.").format(name=person.username))
    return address("settings-users")


def _sentence(refused: InvalidInput | Conflict) -> str:
    return said(next((told[0] for told in (refused.fields or {}).values()), refused.message))


def _user_answer(
    request: HttpRequest,
    person: PersonRow,
    *,
    password: str = "",
    is_new: bool = False,
    error: str = "",
    status: int = 200,
) -> HttpResponse:
    context = {
        "person": person,
        "roles": [(role, role in person.roles) for role in ROLES],
        "password": password,
        "is_new": is_new,
        "error": error,
        "is_self": person.id == request.user.pk,
        "oidc": settings.CRONIQ_OIDC,
    }
    return render(request, "settings/user.html", context, status=status)


def _person_or_404(user_id: int) -> PersonRow:
    person = person_of_id(user_id)
    if person is None:
        raise NotFound(_("There is no such user."))
    return person
