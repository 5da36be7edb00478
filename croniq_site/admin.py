"""Users and groups as Django has them, but for two things: somebody always stays who may all, and roles are fixed."""

from __future__ import annotations

from contextlib import nullcontext
from importlib import import_module
from typing import Any

from allauth.mfa.models import Authenticator
from allauth.socialaccount.models import SocialAccount
from django.contrib import admin, messages
from django.contrib.auth.admin import GroupAdmin, UserAdmin
from django.contrib.auth.models import Group, User
from django.db.models import Model
from django.http import HttpRequest, HttpResponseRedirect
from django.http.response import HttpResponseBase
from django.shortcuts import redirect
from django.urls import reverse
from django.utils.translation import gettext_lazy

from croniq_site.admin_audit import ToldInTheAudit
from croniq_site.kernel.errors import Conflict, Forbidden
from runners.admin import BoundedSearch, refused_page
from runners.domain.roles import ROLES
from runners.models import Preferences
from runners.services.people import keeping_an_admin, must_change_password, password_given
from runners.services.sign_in import forget_errors
from scheduler.dashboard.sentences import said

NO_STAFF = "The administration is for staff alone. An administrator can make you staff there, on the page of your user."
OF_ALLAUTH = ("account", "mfa", "socialaccount")

for app in OF_ALLAUTH:
    import_module(f"allauth.{app}.admin")  # which would register its own after us
admin.site.unregister([User, Group])
admin.site.unregister([model for model in list(admin.site._registry) if model._meta.app_label in OF_ALLAUTH])


def may_enter(request: HttpRequest) -> bool:
    """Of a superuser Django asks no backend what he may: with a password that is another's he does not get in."""
    return admin.AdminSite.has_permission(admin.site, request) and not must_change_password(request.user)


admin.site.has_permission = may_enter


def sign_in(request: HttpRequest) -> HttpResponseBase:
    """In place of the admin's own page: one way in, with one count of attempts and one second factor."""
    if must_change_password(request.user):
        return redirect("password")
    if request.user.is_authenticated:  # and is no staff, or he would be there
        return refused_page(request, Forbidden(NO_STAFF))
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
            self.message_user(request, said(refused.message), messages.ERROR)
            return HttpResponseRedirect(reverse(f"admin:auth_{self.opts.model_name}_changelist"))


@admin.register(User)
class BoundedUserAdmin(ToldInTheAudit, KeepsAnAdmin, UserAdmin):
    readonly_fields = ("last_login", "date_joined")

    def get_deleted_objects(self, objs: Any, request: HttpRequest) -> tuple[Any, Any, set[str], Any]:
        """What somebody has chosen for himself goes with him; alone nobody deletes it."""
        rows, counts, lacking, protected = super().get_deleted_objects(objs, request)
        return rows, counts, lacking - {str(Preferences._meta.verbose_name)}, protected

    def save_model(self, request: HttpRequest, obj: Any, form: Any, change: bool) -> None:
        super().save_model(request, obj, form, change)
        if not change:
            password_given(obj.pk)

    def user_change_password(self, request: HttpRequest, id: str, form_url: str = "") -> HttpResponseBase:
        answer = super().user_change_password(request, id, form_url)
        if request.method == "POST" and answer.status_code == 302 and id != str(request.user.pk):
            password_given(int(id))
            forget_errors(self.get_object(request, id).get_username())
        return answer


@admin.register(Group)
class BoundedGroupAdmin(ToldInTheAudit, KeepsAnAdmin, GroupAdmin):
    """The groups of the roles stay as every `migrate` makes them."""

    def has_change_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return super().has_change_permission(request, obj) and not _is_role(obj)

    def has_delete_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return super().has_delete_permission(request, obj) and not _is_role(obj)


@admin.register(Authenticator, SocialAccount)
class LostAdmin(ToldInTheAudit, BoundedSearch, admin.ModelAdmin):
    """A second factor, or an identity at a provider: taken away from a user who has lost it, and nothing else."""

    list_display = ["__str__", "user", "last_seen"]
    search_fields = ["user__username"]
    list_select_related = ["user"]
    fields = ["user", "last_seen"]

    @admin.display(description=gettext_lazy("last used"))
    def last_seen(self, obj: Authenticator | SocialAccount) -> Any:
        return obj.last_used_at if isinstance(obj, Authenticator) else obj.last_login

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return False


def _is_role(group: Model | None) -> bool:
    return isinstance(group, Group) and group.name in ROLES
