"""Where spans go in tests: into a list of this process, or over HTTP to a real receiver that reads OTLP."""

from __future__ import annotations

import gzip
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from croniq_site.kernel import tracing
from croniq_site.kernel.spans import Spans
from tests.support.receivers import Webhook


class Recorded:
    """The spans of this process that have ended, in order."""

    def __init__(self, exporter: InMemorySpanExporter) -> None:
        self._exporter = exporter

    def all(self) -> list[ReadableSpan]:
        return list(self._exporter.get_finished_spans())

    def named(self, name: str) -> list[ReadableSpan]:
        return [span for span in self.all() if span.name == name]

    def one(self, name: str) -> ReadableSpan:
        (span,) = self.named(name)
        return span


@contextmanager
def recorded_spans() -> Iterator[Recorded]:
    """Make spans in this process until the block ends; sampled as the variables say."""
    exporter = InMemorySpanExporter()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tracing, "active", Spans("test", SimpleSpanProcessor(exporter)))
        yield Recorded(exporter)


def received(hook: Webhook) -> list[dict[str, Any]]:
    """Return the spans that a receiver got: name, ids in hex (`trace`, `id`, `parent`), and the attributes of span and
    process together."""
    return [
        {
            "name": span.name,
            "trace": span.trace_id.hex(),
            "id": span.span_id.hex(),
            "parent": span.parent_span_id.hex(),
            **_values(resource.resource.attributes),
            **_values(span.attributes),
        }
        for headers, body in list(hook.seen)
        for resource in _request(headers, body).resource_spans
        for scope in resource.scope_spans
        for span in scope.spans
    ]


def _request(headers: Mapping[str, str], body: bytes) -> ExportTraceServiceRequest:
    raw = gzip.decompress(body) if headers.get("content-encoding") == "gzip" else body
    return ExportTraceServiceRequest.FromString(raw)


def _values(attributes: Any) -> dict[str, Any]:
    return {one.key: getattr(one.value, one.value.WhichOneof("value")) for one in attributes}
