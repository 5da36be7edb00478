"""Texts of pages travel compressed: a start page with all that it needs stays below a hundred kilobytes."""

from __future__ import annotations

from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.middleware.gzip import GZipMiddleware

COMPRESSED = ("text/html", "text/css", "text/javascript", "image/svg+xml")
"""Pages and their files. Machines get theirs as they are: what they ask for a thousand times a second is small."""


class CompressPages(GZipMiddleware):
    """Compress what is of `COMPRESSED`; against guessing by length (BREACH) Django adds up to 100 random bytes."""

    def process_response(self, request: HttpRequest, response: HttpResponseBase) -> HttpResponseBase:
        kind = response.headers.get("Content-Type", "").partition(";")[0]
        if kind not in COMPRESSED or response.status_code != 200:
            return response
        response = super().process_response(request, response)
        if response.has_header("Content-Encoding") and response.has_header("ETag"):
            # Weakened, whitenoise would not know it again; a file is known by its Last-Modified too.
            del response.headers["ETag"]
        return response
