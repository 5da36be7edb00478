"""/v1/docs: the API as a page for people. Public, as the document is that it shows."""

from __future__ import annotations

from functools import lru_cache

from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import render
from django.views.decorators.csrf import csrf_exempt

from scheduler.api.reference import Reference, reference
from scheduler.api.views.site import openapi_document


@csrf_exempt  # it changes nothing, and a machine that errs is told so in JSON
def docs(request: HttpRequest) -> HttpResponse:
    if request.method not in ("GET", "HEAD"):
        body = {"error": "method_not_allowed", "message": "Only GET is answered here."}
        return JsonResponse(body, status=405, headers={"Allow": "GET, HEAD"})
    context = {"reference": _reference(), "base": request.build_absolute_uri("/").rstrip("/")}
    return render(request, "api/reference.html", context)


@lru_cache(maxsize=1)
def _reference() -> Reference:
    return reference(openapi_document())
