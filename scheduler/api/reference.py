"""The OpenAPI document as a page that needs nobody's script: paths by subject, what they take, what they answer."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

Document = Mapping[str, Any]

EXAMPLES: dict[str, Any] = {
    "dry_run": True,
    "job_key": "billing:invoices",
    "job_keys": ["billing:invoices"],
    "schedule": "5m",
    "name": "office",
    "scopes": ["jobs:read"],
    "runner_id": "worker-1",
    "execution_id": "018f4e9c-8a1b-7c3d-9e2f-0123456789ab",
    "status": "success",
    "message": "done",
    "timezone": "Europe/Vienna",
    "from": "2026-03-01T00:00:00Z",
    "until": "2026-03-02T00:00:00Z",
}
"""What the curl line of a body says; other fields by their type."""


@dataclass(frozen=True)
class Field:
    """``kind`` in words; ``shape`` is the component that it is (one or many of), if it is one."""

    name: str
    kind: str
    shape: str
    is_required: bool
    says: str


@dataclass(frozen=True)
class Answer:
    status: str
    kind: str
    shape: str
    says: str


@dataclass(frozen=True)
class Operation:
    id: str
    method: str
    path: str
    says: str
    scope: str
    parameters: list[Field]
    body: Field | None
    answers: list[Answer]
    curl_data: str


@dataclass(frozen=True)
class Section:
    name: str
    operations: list[Operation]


@dataclass(frozen=True)
class Shape:
    name: str
    says: str
    fields: list[Field]


@dataclass(frozen=True)
class Reference:
    version: str
    sections: list[Section]
    shapes: list[Shape]


def reference(document: Document) -> Reference:
    """Read ``document`` for the page."""
    sections: dict[str, list[Operation]] = {}
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            name = (operation.get("tags") or ["other"])[0]
            sections.setdefault(name, []).append(_operation(document, path, method, operation))
    shapes = [
        Shape(name, schema.get("description", ""), list(_fields(document["components"]["schemas"], schema)))
        for name, schema in sorted(document["components"]["schemas"].items())
        if schema.get("properties")
    ]
    return Reference(document["info"]["version"], [Section(*row) for row in sorted(sections.items())], shapes)


def _operation(document: Document, path: str, method: str, operation: Document) -> Operation:
    schemas = document["components"]["schemas"]
    body = _content(operation.get("requestBody", {}))
    return Operation(
        id=operation["operationId"],
        method=method.upper(),
        path=path,
        says=operation.get("description", ""),
        scope=next((scope for rule in operation.get("security", []) for scope in rule.get("ApiKey", [])), ""),
        parameters=[
            Field(
                item["name"],
                _kind(schemas, item.get("schema", {})),
                "",
                item.get("required", False),
                item.get("description", ""),
            )
            for item in operation.get("parameters", [])
        ],
        body=Field("body", _kind(schemas, body), _shape(schemas, body), True, "") if body else None,
        answers=[_answer(schemas, status, answer) for status, answer in sorted(operation["responses"].items())],
        curl_data=json.dumps(_example(document, body, "")) if body else "",
    )


def _answer(schemas: Document, status: str, answer: Document) -> Answer:
    schema = _content(answer)
    kind = _kind(schemas, schema) if schema else ""
    return Answer(status, kind, _shape(schemas, schema), answer.get("description", ""))


def _content(part: Document) -> Document:
    return next((kind.get("schema", {}) for kind in part.get("content", {}).values()), {})


def _fields(schemas: Document, schema: Document) -> Iterator[Field]:
    required = set(schema.get("required", []))
    for name, part in schema["properties"].items():
        yield Field(name, _kind(schemas, part), _shape(schemas, part), name in required, part.get("description", ""))


def _named(schemas: Document, schema: Document) -> tuple[str, Document]:
    """Return the name of the component that ``schema`` refers to, and the component."""
    name = str(schema["$ref"]).rpartition("/")[2]
    return name, schemas[name]


def _parts(schema: Document) -> list[Document]:
    return schema.get("oneOf") or schema.get("anyOf") or schema.get("allOf") or []


def _shape(schemas: Document, schema: Document) -> str:
    """Return the component with fields that ``schema`` is, or is a list of, or may be; empty where there is none."""
    if "$ref" in schema:
        name, component = _named(schemas, schema)
        return name if "properties" in component else _shape(schemas, component)
    parts = [*_parts(schema), *([schema["items"]] if "items" in schema else [])]
    return next((found for part in parts if (found := _shape(schemas, part))), "")


_WORDS = {"string": "text", "integer": "whole number", "boolean": "true or false"}
_FORMATS = {"date-time": "instant", "date": "day", "uuid": "uuid", "uri": "address"}


def _kind(schemas: Document, schema: Document) -> str:
    """Say in words what a value is."""
    if "$ref" in schema:
        name, component = _named(schemas, schema)
        return name if "properties" in component else _kind(schemas, component)
    if _parts(schema):
        return " or ".join(dict.fromkeys(_kind(schemas, part) for part in _parts(schema)))
    if "enum" in schema or "const" in schema:
        values = schema.get("enum", [schema.get("const")])
        return "one of " + ", ".join("null" if value is None else str(value) for value in values)
    types = schema.get("type", "anything")
    kinds = [types] if isinstance(types, str) else types
    return " or ".join(_one_kind(schemas, kind, schema) for kind in kinds)


def _one_kind(schemas: Document, kind: str, schema: Document) -> str:
    if kind == "array":
        return f"list of {_kind(schemas, schema.get('items', {}))}"
    if kind == "string" and schema.get("format") in _FORMATS:
        return _FORMATS[schema["format"]]
    least, most = schema.get("minimum"), schema.get("maximum")
    bounds = f" {least} to {most}" if least is not None and most is not None else ""
    return _WORDS.get(kind, kind) + bounds


def _example(document: Document, schema: Document, name: str) -> Any:
    """Return a small value of ``schema``: of objects what must be there, or the field that says most."""
    if name in EXAMPLES:
        return EXAMPLES[name]
    if "$ref" in schema:
        return _example(document, _named(document["components"]["schemas"], schema)[1], name)
    if schema.get("type") == "array":
        return [_example(document, schema.get("items", {}), name)]
    if "properties" in schema:
        wanted = schema.get("required") or [each for each in schema["properties"] if each in EXAMPLES][:2]
        return {each: _example(document, schema["properties"][each], each) for each in wanted}
    kinds = schema.get("type", "object")
    kind = kinds if isinstance(kinds, str) else kinds[0]
    if "enum" in schema:
        return schema["enum"][0]
    return {"integer": schema.get("minimum", 1), "number": 1, "boolean": True, "string": "…"}.get(kind, {})
