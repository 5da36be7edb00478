"""The language of a page is its viewer's. Machines are answered in English, whatever they say they like."""

from __future__ import annotations

from django.conf import settings
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.middleware.locale import LocaleMiddleware
from django.utils import translation
from django.utils.cache import patch_vary_headers

from runners.api.errors import is_for_machines

PAGE_OF_THE_API = "/v1/docs"
"""The one path of the API that people read."""


class PageLanguage(LocaleMiddleware):
    """The language that a person has chosen (a cookie, `set_language`), else what his browser asks for, else English.

    Texts of the API, and of all that is written down meanwhile by its services, are English: an audit or a client that
    compares them must not depend on a header. `/v1/work/` never comes here (`croniq_site.asgi`).
    """

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        # The thread has the next request after this one: nobody's language may stay in it.
        with translation.override(settings.LANGUAGE_CODE):
            if is_for_machines(request) and request.path != PAGE_OF_THE_API:
                return self.get_response(request)
            response = super().__call__(request)
            patch_vary_headers(response, ["Cookie"])
            return response
