"""How a view describes its methods for the OpenAPI document."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from drf_spectacular.openapi import AutoSchema
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import (
    OpenApiParameter,
    OpenApiResponse,
    PolymorphicProxySerializer,
    extend_schema,
    inline_serializer,
)
from rest_framework import serializers

from runners.api.parameters import DEFAULT_LIMIT, MOST_LIMIT


class HasFields(serializers.Serializer):
    """``fields`` on the wire is a name that serializers use themselves: it is declared as ``fields_``."""

    def get_fields(self) -> dict[str, serializers.Field]:
        declared = super().get_fields()
        return {name.rstrip("_"): field for name, field in declared.items()}


class Refusal(HasFields):
    """Why not: a code for machines, a sentence for people; with 400 the fields that are wrong."""

    error = serializers.CharField()
    message = serializers.CharField()
    fields_ = serializers.DictField(child=serializers.ListField(child=serializers.CharField()), required=False)


REFUSALS: dict[int, str] = {
    400: "A field or a parameter is wrong.",
    401: "No key, or one that is unknown, expired or revoked.",
    403: "The key has not the scope.",
    404: "There is none, or it is another tenant's.",
    409: "Its state does not allow that.",
    413: "The body is too large.",
    415: "The body is not JSON.",
    429: "The job's queue is full, or there were too many requests; Retry-After says when to ask again.",
    503: "The database is away; try again.",
}


class ScopedSchema(AutoSchema):
    """Say of each operation which scope its key must have (OpenAPI 3.1 lets any security scheme name roles)."""

    def get_operation(self, *args: Any, **kwargs: Any) -> dict[str, Any] | None:
        operation = super().get_operation(*args, **kwargs)
        if operation is not None:
            scope = self.view.required_scope.get(self.method)
            for rule in operation.get("security", []):
                if "ApiKey" in rule:
                    rule["ApiKey"] = [scope]
        return operation


def number_query(name: str, most: int, *, least: int = 1, says: str = "") -> OpenApiParameter:
    kind = {"type": "integer", "minimum": least, "maximum": most}
    return OpenApiParameter(name, kind, OpenApiParameter.QUERY, description=says)


def query(
    name: str, kind: Any = OpenApiTypes.STR, *, enum: list[str] | None = None, says: str = ""
) -> OpenApiParameter:
    return OpenApiParameter(name, kind, OpenApiParameter.QUERY, enum=enum, description=says)


PAGING = [
    number_query("limit", MOST_LIMIT, says=f"How many; {DEFAULT_LIMIT} by default."),
    number_query("page_size", MOST_LIMIT, says="Answer pages of so many instead of an array."),
    query("cursor", says="From the next link of a page."),
]


def documented(
    operation_id: str,
    says: str,
    answers: dict[int, Any],
    *,
    body: Any = None,
    parameters: list[OpenApiParameter] | None = None,
    refuses: tuple[int, ...] = (),
    public: bool = False,
) -> Callable:
    """Describe a method of a view: what it answers by status, and which refusals are its own.

    A query parameter that is not among ``parameters`` is refused (`ApiView.initial`): what is taken is what is written.
    """
    codes = sorted({*refuses, 400, *(() if public else (401, 403, 429)), *((413, 415) if body else ()), 503})
    refusals = {code: OpenApiResponse(Refusal, description=REFUSALS[code]) for code in codes}
    describe = extend_schema(
        operation_id=operation_id,
        description=says,
        request=body,
        parameters=parameters or [],
        responses={**refusals, **answers},
        auth=[] if public else None,
    )

    def decorate(method: Callable) -> Callable:
        method = describe(method)
        method.query_names = frozenset(parameter.name for parameter in parameters or ())
        return method

    return decorate


def listed(answer: type[serializers.Serializer]) -> Any:
    """An array, or with paging a page of it."""
    page = inline_serializer(
        name=answer.__name__.replace("Answer", "Page"),
        fields={"results": answer(many=True), "next": serializers.URLField(allow_null=True)},
    )
    return PolymorphicProxySerializer(
        component_name=answer.__name__.replace("Answer", "List"),
        serializers=[answer(many=True), page],
        resource_type_field_name=None,
        many=False,
    )
