"""How a view describes its methods for the OpenAPI document."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import (
    OpenApiParameter,
    OpenApiResponse,
    PolymorphicProxySerializer,
    extend_schema,
    inline_serializer,
)
from rest_framework import serializers


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
    429: "The job's queue is full.",
    503: "The database is away; try again.",
}


def query(
    name: str, kind: Any = OpenApiTypes.STR, *, enum: list[str] | None = None, says: str = ""
) -> OpenApiParameter:
    return OpenApiParameter(name, kind, OpenApiParameter.QUERY, enum=enum, description=says)


PAGING = [
    query("limit", OpenApiTypes.INT, says="1 to 500, 100 by default."),
    query("page_size", OpenApiTypes.INT, says="1 to 500: answer pages instead of an array."),
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
    """Describe a method of a view: what it answers by status, and which refusals are its own."""
    codes = sorted({*refuses, *(() if public else (401, 403)), 503})
    refusals = {code: OpenApiResponse(Refusal, description=REFUSALS[code]) for code in codes}
    return extend_schema(
        operation_id=operation_id,
        description=says,
        request=body,
        parameters=parameters or [],
        responses={**refusals, **answers},
        auth=[] if public else None,
    )


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
