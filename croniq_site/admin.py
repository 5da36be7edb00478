"""Users and groups as Django has them, but for two things: somebody always stays who may all, and roles are fixed."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

from django.contrib import admin, messages
from django.contrib.auth.admin import GroupAdmin, UserAdmin
from django.contrib.auth.models import Group, User
from django.core.exceptions import PermissionDenied
from django.db.models import Model
from django.http import HttpRequest, HttpResponseRedirect
from django.http.response import HttpResponseBase
from django.shortcuts import redirect
from django.urls import reverse

from croniq_site.admin_audit import ToldInTheAudit
from croniq_site.kernel.errors import Conflict
from runners.admin import BoundedSearch
from runners.domain.roles import ROLES
from runners.services.people import keeping_an_admin

admin.site.unregister([User, Group])


def sign_in(request: HttpRequest) -> HttpResponseBase:
    """In place of the admin's own page: one way in, with one count of attempts and one second factor."""
    if request.user.is_authenticated:  # and is no staff, or he would be there
        raise PermissionDenied
    query = request.GET.urlencode()
    return redirect(f"{reverse('login')}?{query}" if query else reverse("login"))


class KeepsAnAdmin(BoundedSearch):
    """What would leave no administrator is a message, and nothing of it is saved."""

    def changeform_view(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        return self._guarded(request, lambda: super(KeepsAnAdmin, self).changeform_view(request, *args, **kwargs))

    def delete_view(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        return self._guarded(request, lambda: super(KeepsAnAdmin, self).delete_view(request, *args, **kwargs))

    def changelist_view(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        return self._guarded(request, lambda: super(KeepsAnAdmin, self).changelist_view(request, *args, **kwargs))

    def _guarded(self, request: HttpRequest, view: Any) -> HttpResponseBase:
        try:
            with keeping_an_admin() if request.method == "POST" else nullcontext():
                answer = view()
                # A list is drawn, and what it does with it is done, when it is rendered.
                return answer.render() if hasattr(answer, "render") and not answer.is_rendered else answer
        except Conflict as refused:
            self.message_user(request, refused.message, messages.ERROR)
            return HttpResponseRedirect(reverse(f"admin:auth_{self.opts.model_name}_changelist"))


@admin.register(User)
class BoundedUserAdmin(ToldInTheAudit, KeepsAnAdmin, UserAdmin):
    pass


@admin.register(Group)
class BoundedGroupAdmin(ToldInTheAudit, KeepsAnAdmin, GroupAdmin):
    """The groups of the roles stay as every `migrate` makes them."""

    def has_change_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return super().has_change_permission(request, obj) and not _is_role(obj)

    def has_delete_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return super().has_delete_permission(request, obj) and not _is_role(obj)


def _is_role(group: Model | None) -> bool:
    return isinstance(group, Group) and group.name in ROLES
