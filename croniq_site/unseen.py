"""What callers write is on many pages: an error, a reason, metadata, a note. Nothing in it hides, or turns around, what
stands beside it."""

from __future__ import annotations

import re
from collections.abc import Callable

from django.http import HttpRequest, HttpResponse

from croniq_site.kernel.text import with_signs

# The characters of `with_signs`, as UTF-8; a carriage return is an end of a line like another one in a page.
_UNSEEN = re.compile(
    rb"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]|\xc2[\x80-\x9f]|\xd8\x9c|\xe2\x80[\x8e\x8f\xa8-\xae]|\xe2\x81[\xa6-\xa9]"
)
# What a form sends back is to be what it was.
_SENT_BACK = re.compile(r"(<textarea\b[^>]*>.*?</textarea>|<(?:input|option|button)\b[^>]*>)", re.DOTALL)


class ShowUnseen:
    """Has a sign for each character of a page that one does not see, but in the fields of its forms: the log's signs.

    At the end and for all pages, the admin's too: of a hundred places that print a text none can be forgotten.
    """

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        response = self.get_response(request)
        is_page = not response.streaming and response.get("Content-Type", "").startswith("text/html")
        if is_page and _UNSEEN.search(response.content):
            response.content = shown(response.content.decode())
        return response


def shown(page: str) -> str:
    parts = _SENT_BACK.split(page.replace("\r\n", "\n"))
    return "".join(part if number % 2 else with_signs(part) for number, part in enumerate(parts))
