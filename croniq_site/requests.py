"""The request id on Django's side, where no server of ours has given one already (`runserver`, tests)."""

from __future__ import annotations

from collections.abc import Callable

from django.http import HttpRequest, HttpResponse

from croniq_site.kernel.request import HEADER, answering, request_id


class NameRequests:
    """The outermost middleware: the id holds for all that the others write down. `croniq_site.asgi` gives it to a
    request before it comes here, and puts it on the answer itself."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        if request_id.get() is not None:
            return self.get_response(request)
        with answering(request.headers.get(HEADER)) as name:
            response = self.get_response(request)
            response.headers[HEADER] = name
            return response
