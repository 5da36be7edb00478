"""The paths of second factors and of the OpenID provider. Names with account, mfa and social are those of allauth."""

from allauth.account import views as account
from allauth.mfa.base import views as mfa
from allauth.mfa.recovery_codes import views as recovery
from allauth.mfa.totp import views as totp
from django.urls import path
from django.views.generic import RedirectView, TemplateView

from croniq_site.people import oidc
from croniq_site.people.codes import second_factor

urlpatterns = [
    path("sign-in/oidc", oidc.begin, name="oidc"),
    path("sign-in/oidc/callback", oidc.callback, name="oidc-callback"),
    path("sign-in/again", RedirectView.as_view(pattern_name="login", query_string=True), name="account_login"),
    path("sign-in/cancelled", RedirectView.as_view(pattern_name="login"), name="socialaccount_login_cancelled"),
    path(
        "sign-in/inactive",
        TemplateView.as_view(template_name="account/account_inactive.html"),
        name="account_inactive",
    ),
    path("sign-in/code", second_factor(mfa.authenticate), name="mfa_authenticate"),
    path("confirm/code", second_factor(mfa.reauthenticate), name="mfa_reauthenticate"),
    path("confirm/password", second_factor(account.reauthenticate), name="account_reauthenticate"),
    path("second-factor", second_factor(mfa.index), name="mfa_index"),
    path("second-factor/on", second_factor(totp.activate_totp), name="mfa_activate_totp"),
    path("second-factor/off", second_factor(totp.deactivate_totp), name="mfa_deactivate_totp"),
    path("second-factor/codes", second_factor(recovery.view_recovery_codes), name="mfa_view_recovery_codes"),
    path(
        "second-factor/codes/new", second_factor(recovery.generate_recovery_codes), name="mfa_generate_recovery_codes"
    ),
    path(
        "second-factor/codes/text", second_factor(recovery.download_recovery_codes), name="mfa_download_recovery_codes"
    ),
]
