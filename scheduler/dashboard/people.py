"""Sign in, and change one's password."""

from __future__ import annotations

from typing import Any

from allauth.account.internal.flows.login import perform_password_login
from allauth.account.models import Login
from django.conf import settings
from django.contrib import messages
from django.contrib.auth.views import LoginView, PasswordChangeView
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.shortcuts import render
from django.urls import reverse, reverse_lazy
from django.utils.translation import gettext as _

from croniq_site.kernel.clock import DatabaseClock
from croniq_site.kernel.errors import TooManyRequests
from runners.services.people import must_change_password, password_chosen
from runners.services.sign_in import KNOWN_FOR, MARK_COOKIE, mark_of


class SignIn(LoginView):
    template_name = "registration/sign_in.html"
    redirect_authenticated_user = True

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        return super().get_context_data(**kwargs) | {"oidc": settings.CRONIQ_OIDC}

    def form_valid(self, form: Any) -> HttpResponseBase:
        user = form.get_user()
        if settings.CRONIQ_TOTP:
            # By allauth's stages: whoever has a second factor is asked for it before he is signed in.
            login = Login(user=user, redirect_url=self.get_success_url())
            answer = perform_password_login(self.request, {"username": user.get_username()}, login)
        else:
            answer = super().form_valid(form)
        answer.set_cookie(
            MARK_COOKIE,
            mark_of(user.get_username(), DatabaseClock().now()),
            max_age=KNOWN_FOR,
            path=reverse("login"),
            secure=settings.SESSION_COOKIE_SECURE,
            httponly=True,
            samesite="Strict",
        )
        return answer

    def dispatch(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        try:
            return super().dispatch(request, *args, **kwargs)
        except TooManyRequests as refusal:
            where = request.POST.get(self.redirect_field_name, "")
            context = {"next": where, "refusal": refusal, "oidc": settings.CRONIQ_OIDC}
            response = render(request, self.template_name, context, status=refusal.status)
            response["Retry-After"] = str(refusal.retry_after_seconds)
            return response


class ChangePassword(PasswordChangeView):
    template_name = "registration/change_password.html"
    success_url = reverse_lazy("now")

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        more = {"totp": settings.CRONIQ_TOTP, "is_of_another": must_change_password(self.request.user)}
        return super().get_context_data(**kwargs) | more

    def form_valid(self, form: Any) -> HttpResponseBase:
        answer = super().form_valid(form)
        password_chosen(self.request.user.pk)
        messages.success(
            self.request, _("Your password is changed. Wherever else you were signed in, you are not any more.")
        )
        return answer
