"""The base of every view of the API."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from django.utils.functional import cached_property
from rest_framework.negotiation import BaseContentNegotiation
from rest_framework.parsers import BaseParser
from rest_framework.renderers import BaseRenderer
from rest_framework.request import Request
from rest_framework.views import APIView

from runners.api.authentication import now_of
from runners.api.parameters import refuse_unknown_query
from runners.api.parsers import JsonObjectParser
from runners.domain.scopes import Principal


class JsonWhateverIsAccepted(BaseContentNegotiation):
    """Answer with the view's one form whatever ``Accept`` or ``?format=`` say: a refusal must be readable too."""

    def select_parser(self, request: Request, parsers: Sequence[BaseParser]) -> BaseParser | None:
        content_type = (request.content_type or "").partition(";")[0].strip().lower()
        return next((parser for parser in parsers if parser.media_type == content_type), None)

    def select_renderer(
        self, request: Request, renderers: Sequence[BaseRenderer], format_suffix: str | None = None
    ) -> tuple[BaseRenderer, str]:
        return renderers[0], renderers[0].media_type


class ApiView(APIView):
    """A view that declares the scope of each of its methods in ``required_scope``."""

    required_scope: dict[str, str] = {}
    http_method_names = ["get", "post", "put", "delete", "head"]
    content_negotiation_class = JsonWhateverIsAccepted
    parser_classes = [JsonObjectParser]
    takes_any_query = False
    """Query parameters that the method does not describe (`query_names`) are refused, so that a filter with a typing
    error never answers more than was asked for."""

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        method = request.method.lower()
        handler = getattr(self, method, None) if method in self.http_method_names else None
        if handler is None and not self.authentication_classes:
            self.http_method_not_allowed(request)  # nobody can be asked for a key here
        super().initial(request, *args, **kwargs)
        known = getattr(handler, "query_names", None)
        if known is not None and not self.takes_any_query:
            refuse_unknown_query(request, known)

    @cached_property
    def now(self) -> datetime:
        """The instant of this request, by the database's clock."""
        return now_of(self.request)

    @property
    def principal(self) -> Principal:
        return self.request.user

    @property
    def body(self) -> dict[str, Any]:
        return self.request.data
