"""The one settings file, driven by the environment (`DATABASE_URL`, `CRONIQ_*`); docs/settings.md lists every name.

Nonsense is refused at start, by the name of the variable. Every secret has a twin that ends in ``_FILE``.
"""

from __future__ import annotations

from pathlib import Path

import environ
from django.core.exceptions import ImproperlyConfigured

from croniq_site.api_clients import declared_clients
from croniq_site.configuration import (
    choice,
    database_from_url,
    duration_seconds,
    flag,
    folder,
    hosts,
    limit,
    mail_address,
    networks,
    origins,
    rate,
    retention_seconds,
    secret,
    secret_key_in,
    served_names,
    smtp_server,
    zone_name,
)
from croniq_site.people.configuration import oidc_from

BASE_DIR = Path(__file__).resolve().parent.parent
env = environ.Env()

DATA_DIR = folder(env, "CRONIQ_DATA_DIR", default=BASE_DIR / "data")
DEBUG = flag(env, "CRONIQ_DEBUG", default=False)
# Cookies, redirects and HSTS for https. Off only for a server that is reached over plain http on a trusted network.
HTTPS = flag(env, "CRONIQ_HTTPS", default=not DEBUG)


def _secret_key() -> str:
    """Return the configured key, else the one generated once into the data directory (mode 0600)."""
    configured = secret(env, "CRONIQ_SECRET_KEY")
    if not configured:
        try:
            return secret_key_in(DATA_DIR)
        except OSError as error:
            raise ImproperlyConfigured(
                f"CRONIQ_DATA_DIR: {DATA_DIR} cannot be written ({error.strerror}). "
                "Name a directory of this user's, or set CRONIQ_SECRET_KEY."
            ) from None
    if len(configured) < 32:
        raise ImproperlyConfigured("CRONIQ_SECRET_KEY: a key of fewer than 32 characters can be guessed.")
    return configured


SECRET_KEY = _secret_key()
ALLOWED_HOSTS = served_names(env, "CRONIQ_ALLOWED_HOSTS", default=["localhost", "127.0.0.1", "[::1]"])
CSRF_TRUSTED_ORIGINS = origins(env, "CRONIQ_TRUSTED_ORIGINS")

INSTALLED_APPS = [
    "croniq_site",
    "scheduler",
    "calendars",
    "runners",
    "rest_framework",
    "drf_spectacular",
    "django_htmx",
    "django_prometheus",
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "allauth",
    "allauth.account",
    "allauth.socialaccount",
    "allauth.socialaccount.providers.openid_connect",
    "allauth.mfa",
]

MIDDLEWARE = [
    "croniq_site.requests.NameRequests",
    "django_prometheus.middleware.PrometheusBeforeMiddleware",
    "django.middleware.security.SecurityMiddleware",
    "csp.middleware.CSPMiddleware",
    "croniq_site.compression.CompressPages",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "croniq_site.languages.PageLanguage",
    "django.middleware.common.CommonMiddleware",
    "croniq_site.unseen.ShowUnseen",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "allauth.account.middleware.AccountMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "django_htmx.middleware.HtmxMiddleware",
    "scheduler.metrics.requests.CountRequests",
]

ROOT_URLCONF = "croniq_site.urls"
WSGI_APPLICATION = "croniq_site.wsgi.application"
APPEND_SLASH = False  # no redirects on the wire: SDKs do not follow them

TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [BASE_DIR / "templates"],
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ],
        },
    }
]

DATABASES = {"default": database_from_url(env, default_path=DATA_DIR / "croniq.sqlite3")}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

AUTHENTICATION_BACKENDS = ["croniq_site.sign_in.CountedBackend"]
AUTH_PASSWORD_VALIDATORS = [
    {"NAME": "django.contrib.auth.password_validation.UserAttributeSimilarityValidator"},
    {"NAME": "django.contrib.auth.password_validation.MinimumLengthValidator", "OPTIONS": {"min_length": 10}},
    {"NAME": "django.contrib.auth.password_validation.CommonPasswordValidator"},
]
LOGIN_URL = "login"
LOGIN_REDIRECT_URL = "now"
LOGOUT_REDIRECT_URL = "login"

# Second factors and OpenID Connect, by allauth: off unless configured (croniq_site.people). Its own limits are in the
# memory of a process; attempts are counted in rows.
ACCOUNT_ADAPTER = "croniq_site.people.adapters.AccountAdapter"
ACCOUNT_LOGIN_METHODS = {"username"}
ACCOUNT_SIGNUP_FIELDS = ["username*"]
ACCOUNT_EMAIL_VERIFICATION = "none"
ACCOUNT_UNIQUE_EMAIL = False  # nobody is known by his address
ACCOUNT_RATE_LIMITS = False
SOCIALACCOUNT_ADAPTER = "croniq_site.people.adapters.SocialAdapter"
MFA_ADAPTER = "croniq_site.people.adapters.MfaAdapter"
MFA_SUPPORTED_TYPES = ["totp", "recovery_codes"]
MFA_TOTP_ISSUER = "Croniq"
MFA_TOTP_TOLERANCE = 1  # a telephone whose clock is half a minute off
MFA_FORMS = {
    "authenticate": "croniq_site.people.codes.CodeForm",
    "reauthenticate": "croniq_site.people.codes.CodeAgainForm",
}

# English is what the code says, what is stored and what machines read; pages are in the language of who looks.
LANGUAGE_CODE = "en"
LANGUAGES = [("en", "English"), ("de", "Deutsch")]
LOCALE_PATHS = [BASE_DIR / "locale"]
FORMAT_MODULE_PATH = ["croniq_site.formats"]
USE_I18N = True
LANGUAGE_COOKIE_NAME = "croniq_language"
LANGUAGE_COOKIE_AGE = 365 * 86_400
LANGUAGE_COOKIE_HTTPONLY = True
LANGUAGE_COOKIE_SAMESITE = "Lax"
LANGUAGE_COOKIE_SECURE = HTTPS
USE_TZ = True
TIME_ZONE = "UTC"

STATIC_URL = "/static/"
STATICFILES_DIRS = [BASE_DIR / "static"]
# The finders serve the files as they lie in the tree, so that no collectstatic stands between a clone and its pages:
# without a STATIC_ROOT, whose absence on disk whitenoise would warn of at each start.
WHITENOISE_USE_FINDERS = True

SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = HTTPS
SESSION_COOKIE_HTTPONLY = True
SESSION_ENGINE = "croniq_site.sessions"
SECURE_SSL_REDIRECT = HTTPS
# Machines do not follow redirects, and a health check asks over plain http from inside.
SECURE_REDIRECT_EXEMPT = [r"^v1/", r"^health$", r"^ready$", r"^version$", r"^metrics$"]
SECURE_HSTS_SECONDS = int(retention_seconds(env, "CRONIQ_HSTS", default="365d", least=60)) if HTTPS else 0
SECURE_HSTS_INCLUDE_SUBDOMAINS = SECURE_HSTS_PRELOAD = flag(env, "CRONIQ_HSTS_SUBDOMAINS", default=False)
# Whether the hosts below this one speak https is their owner's to know.
SILENCED_SYSTEM_CHECKS = ["security.W005", "security.W021"]
SECURE_REFERRER_POLICY = "same-origin"
X_FRAME_OPTIONS = "DENY"
CONTENT_SECURITY_POLICY = {
    "DIRECTIVES": {
        "default-src": ["'none'"],
        "script-src": ["'self'"],
        "style-src": ["'self'"],
        "img-src": ["'self'", "data:"],
        "font-src": ["'self'"],
        "connect-src": ["'self'"],
        "form-action": ["'self'"],
        "base-uri": ["'none'"],
        "frame-ancestors": ["'none'"],
    }
}

REST_FRAMEWORK = {
    "DEFAULT_AUTHENTICATION_CLASSES": [
        "runners.api.authentication.ApiKeyAuthentication",
        "runners.api.sessions.PersonAuthentication",
    ],
    "DEFAULT_PERMISSION_CLASSES": ["runners.api.authentication.HasScope"],
    "DEFAULT_RENDERER_CLASSES": ["rest_framework.renderers.JSONRenderer"],
    "DEFAULT_PARSER_CLASSES": ["rest_framework.parsers.JSONParser"],
    "DEFAULT_SCHEMA_CLASS": "scheduler.api.openapi.ScopedSchema",
    "DEFAULT_THROTTLE_CLASSES": ["runners.api.limits.PerKey"],
    "EXCEPTION_HANDLER": "runners.api.errors.exception_handler",
    "UNAUTHENTICATED_USER": None,
}
SPECTACULAR_SETTINGS = {
    "ENUM_NAME_OVERRIDES": {"ExecutionStateEnum": "scheduler.queries.runs.STATES"},
    "TITLE": "Croniq",
    "VERSION": "0.1.0",
    "OAS_VERSION": "3.1.0",
    "SERVE_INCLUDE_SCHEMA": False,
    "SCHEMA_PATH_PREFIX": "/v1/",  # groups the paths by what follows
    "POSTPROCESSING_HOOKS": ["drf_spectacular.hooks.postprocess_schema_enums", "scheduler.api.links.complete"],
}

LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {
        "line": {"()": "croniq_site.kernel.logs.Lines"},
        "json": {"()": "croniq_site.kernel.logs.JsonLines"},
    },
    "handlers": {
        "stderr": {
            "class": "logging.StreamHandler",
            "formatter": choice(env, "CRONIQ_LOG_FORMAT", ["LINE", "JSON"], default="LINE").lower(),
        }
    },
    "root": {
        "handlers": ["stderr"],
        "level": choice(env, "CRONIQ_LOG_LEVEL", ["DEBUG", "INFO", "WARNING", "ERROR"], default="INFO"),
    },
    # One line per request is the web server's business; refusals of clients are no warnings of ours.
    "loggers": {"django.request": {"level": "ERROR"}},
}

# Croniq's own
CRONIQ_API_CLIENTS = declared_clients(env)
CRONIQ_TOTP = flag(env, "CRONIQ_TOTP", default=False)
CRONIQ_OIDC = oidc_from(env)
CRONIQ_TIME_ZONE = zone_name(env, "CRONIQ_TIME_ZONE", default="UTC")
CRONIQ_HORIZON_SECONDS = duration_seconds(env, "CRONIQ_HORIZON", default="1h", least=60, most=31 * 86_400)
CRONIQ_MAX_PLANNED = limit(env, "CRONIQ_MAX_PLANNED", most=100_000_000) or 5_000_000
CRONIQ_POLL_HOLD_SECONDS = duration_seconds(env, "CRONIQ_POLL_HOLD", default="30s", least=1, most=30)
CRONIQ_RUN_RETENTION_SECONDS = retention_seconds(env, "CRONIQ_RUN_RETENTION", default="0", least=86_400)
CRONIQ_KEEP_RUNS = limit(env, "CRONIQ_KEEP_RUNS", most=100_000)
CRONIQ_LOG_RETENTION_SECONDS = retention_seconds(env, "CRONIQ_LOG_RETENTION", default="0", least=3600)
CRONIQ_AUDIT_RETENTION_SECONDS = retention_seconds(env, "CRONIQ_AUDIT_RETENTION", default="0", least=86_400)
CRONIQ_RUNNER_RETENTION_SECONDS = retention_seconds(env, "CRONIQ_RUNNER_RETENTION", default="30d", least=86_400)
CRONIQ_TENANT_MAX_CONCURRENT = limit(env, "CRONIQ_TENANT_MAX_CONCURRENT")
CRONIQ_SMTP = smtp_server(env, "CRONIQ_SMTP_URL")
CRONIQ_MAIL_FROM = mail_address(env, "CRONIQ_MAIL_FROM", default="croniq@localhost")
CRONIQ_ALERT_HTTP_ALLOW = hosts(env, "CRONIQ_ALERT_HTTP_ALLOW")
CRONIQ_METRICS_ALLOW = networks(env, "CRONIQ_METRICS_ALLOW", default=["127.0.0.0/8", "::1/128"])
CRONIQ_TRUSTED_PROXIES = networks(env, "CRONIQ_TRUSTED_PROXIES", default=["127.0.0.0/8", "::1/128"])
CRONIQ_RATE_PER_KEY = rate(env, "CRONIQ_RATE_PER_KEY", default="0")
CRONIQ_RATE_PER_ADDRESS = rate(env, "CRONIQ_RATE_PER_ADDRESS", default="0")
CRONIQ_RATE_WRONG_KEYS = rate(env, "CRONIQ_RATE_WRONG_KEYS", default="60/m")
