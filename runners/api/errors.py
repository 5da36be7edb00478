"""Every refusal of the API in the one form of the wire protocol, and no input that answers 500."""

from __future__ import annotations

import logging
from typing import Any

from django.core.exceptions import PermissionDenied, RequestDataTooBig, SuspiciousOperation
from django.http import Http404, HttpRequest, HttpResponse, JsonResponse
from django.views import defaults
from rest_framework import exceptions
from rest_framework.response import Response

from croniq_site.kernel.database import is_outage
from croniq_site.kernel.errors import (
    CroniqError,
    Forbidden,
    InvalidInput,
    NotFound,
    TooLarge,
    Unauthorized,
    Unavailable,
)

_log = logging.getLogger(__name__)

RETRY_AFTER_OUTAGE_SECONDS = 1

_FAULT = {"error": "internal", "message": "Croniq has failed here; its log says how."}


def exception_handler(error: Exception, context: dict[str, Any]) -> Response:
    """Answer what a view raised. What is no refusal is a fault of ours: logged with its traceback, 500."""
    refusal, headers = refusal_of(error), dict(getattr(error, "headers", {}))
    if refusal is None:
        request = context.get("request")
        _log.error("%s %s failed", getattr(request, "method", ""), getattr(request, "path", ""), exc_info=error)
        return Response(_FAULT, status=500)
    if isinstance(refusal, Unavailable):
        _log.warning("the database is away: %s", " ".join(str(error).split())[:200])
    if refusal.status == 401:
        headers["WWW-Authenticate"] = getattr(error, "auth_header", None) or 'ApiKey realm="croniq"'
    if refusal.retry_after_seconds is not None:
        headers["Retry-After"] = str(refusal.retry_after_seconds)
    response = Response(refusal.as_body(), status=refusal.status, headers=headers)
    response.exception = True
    return response


def refusal_of(error: BaseException) -> CroniqError | None:
    """Return ``error`` as a refusal with its code and its sentence, None where it is none."""
    if isinstance(error, CroniqError):
        return error
    if is_outage(error):
        return Unavailable(
            "The database does not answer. Try again in a moment.", retry_after_seconds=RETRY_AFTER_OUTAGE_SECONDS
        )
    if isinstance(error, exceptions.NotAuthenticated):
        return Unauthorized("An API key is needed: Authorization: ApiKey croniq_….")
    if isinstance(error, exceptions.AuthenticationFailed):
        return Unauthorized(str(error.detail))
    if isinstance(error, PermissionDenied | exceptions.PermissionDenied):
        return Forbidden("This key may not do that.")
    if isinstance(error, Http404 | exceptions.NotFound):
        return NotFound("There is nothing here.")
    if isinstance(error, RequestDataTooBig):
        return TooLarge("The body is too large.")
    if isinstance(error, exceptions.ValidationError):
        return _invalid(error)
    if isinstance(error, exceptions.UnsupportedMediaType):
        refusal = CroniqError(f"{error.detail} Send Content-Type: application/json.", code=error.default_code)
        refusal.status = error.status_code
        return refusal
    if isinstance(error, exceptions.APIException):
        refusal = CroniqError(str(error.detail), code=error.default_code)
        refusal.status = error.status_code
        return refusal
    if isinstance(error, SuspiciousOperation | UnicodeError):
        return InvalidInput("This request cannot be read.")
    return None


def _invalid(error: exceptions.ValidationError) -> InvalidInput:
    detail = error.detail
    if not isinstance(detail, dict):
        return InvalidInput(" ".join(str(text) for text in detail))
    fields = {
        name: [str(text) for text in (texts if isinstance(texts, list) else [texts])] for name, texts in detail.items()
    }
    return InvalidInput("; ".join(f"{name}: {' '.join(texts)}" for name, texts in fields.items()), fields=fields)


# Django's own answers, for what never reaches a view of the API. Machines get JSON, people pages.


def is_for_machines(request: HttpRequest) -> bool:
    return request.path.startswith("/v1/") or request.path in ("/v1", "/health", "/ready", "/version", "/metrics")


def _answer(refusal: CroniqError) -> JsonResponse:
    return JsonResponse(refusal.as_body(), status=refusal.status)


def not_found(request: HttpRequest, exception: Exception | None = None) -> HttpResponse:
    """The site's 404."""
    if is_for_machines(request):
        return _answer(NotFound("There is no such path. The paths are in /v1/openapi.yaml."))
    return defaults.page_not_found(request, exception or Http404())


def bad_request(request: HttpRequest, exception: Exception | None = None) -> HttpResponse:
    """The site's 400: a host that is not allowed, above all."""
    if is_for_machines(request):
        return _answer(InvalidInput("This request cannot be read, or its Host is not in CRONIQ_ALLOWED_HOSTS."))
    return defaults.bad_request(request, exception or SuspiciousOperation())


def server_error(request: HttpRequest) -> HttpResponse:
    """The site's 500."""
    if is_for_machines(request):
        return JsonResponse(_FAULT, status=500)
    return defaults.server_error(request)
