"""Spans by OpenTelemetry's SDK; only imported where they are wanted (`croniq_site.kernel.tracing`).

Besides spans around what is done now there are those of a run, which begin in one process and end in another: their
ids are given and not drawn, and they are told of when they have ended.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from importlib.metadata import PackageNotFoundError, version

from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import OTELResourceDetector, Resource
from opentelemetry.sdk.trace import SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, ConsoleSpanExporter
from opentelemetry.sdk.trace.id_generator import RandomIdGenerator
from opentelemetry.trace import NonRecordingSpan, SpanContext, Status, StatusCode, TraceFlags

from croniq_site.kernel.logs import masked
from croniq_site.kernel.tracing import Place

END_SECONDS = 1.0
"""How long the end of a process waits for its last spans to be sent."""
ERROR_MOST_CHARACTERS = 1000
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_given: ContextVar[Place | None] = ContextVar("croniq_span_place", default=None)


@dataclass(frozen=True)
class Ended:
    """A span that is over. ``parent_id`` None: the first of its trace. ``error`` None: it went well."""

    name: str
    place: Place
    parent_id: int | None
    began_at: datetime
    ended_at: datetime
    attributes: Mapping[str, str | int] = field(default_factory=dict)
    error: str | None = None


class Spans:
    """Makes the spans of one process."""

    def __init__(self, process: str, processor: SpanProcessor) -> None:
        try:
            ours = version("croniq")
        except PackageNotFoundError:
            ours = "unreleased"
        named = {"service.name": "croniq", "service.version": ours, "croniq.process": process}
        resource = Resource.create().merge(Resource(named)).merge(OTELResourceDetector().detect())
        self.provider = TracerProvider(resource=resource, id_generator=_Ids(), shutdown_on_exit=False)
        self.provider.add_span_processor(processor)
        self._tracer = self.provider.get_tracer("croniq", ours)

    @contextlib.contextmanager
    def live(self, name: str) -> Iterator[object]:
        with as_current(self._tracer.start_span(name)) as span:
            yield span

    def ended(self, spans: Sequence[Ended]) -> None:
        """Tell of spans that are over. Each is linked to the one that is current, if there is one."""
        around = trace.get_current_span().get_span_context()
        links = [trace.Link(around)] if around.is_valid else []
        for one in spans:
            span = self._begun(one, links)
            if one.error is not None:
                span.set_status(_failed(one.error))
            span.end(end_time=max(_nanoseconds(one.began_at), _nanoseconds(one.ended_at)))

    def _begun(self, one: Ended, links: Sequence[trace.Link]) -> trace.Span:
        token = _given.set(one.place)
        try:
            return self._tracer.start_span(
                one.name,
                context=_below(one.place, one.parent_id),
                attributes=dict(one.attributes),
                links=links,
                start_time=_nanoseconds(one.began_at),
            )
        finally:
            _given.reset(token)

    def is_sampled(self, trace_id: int) -> bool:
        """Say whether a trace that begins with this id is recorded. Every process says the same of it: the samplers of
        the standard variables look at nothing else."""
        sampler = self.provider.sampler
        return sampler.should_sample(Context(), trace_id, "croniq").decision.is_sampled()

    @staticmethod
    def current() -> Place | None:
        around = trace.get_current_span().get_span_context()
        return Place(around.trace_id, around.span_id, around.trace_flags.sampled) if around.is_valid else None

    def end(self) -> None:
        # A collector that hangs must not keep the process; the thread ends with it.
        last = threading.Thread(target=self.provider.shutdown, name="croniq-last-spans", daemon=True)
        last.start()
        last.join(END_SECONDS)


@contextlib.contextmanager
def as_current(span: trace.Span) -> Iterator[trace.Span]:
    """Make this span the current one until the block ends, and end it. What the block raises is told in one sentence,
    without secrets, and not with a traceback: that is in the log."""
    with trace.use_span(span, end_on_exit=True, record_exception=False, set_status_on_exception=False):
        try:
            yield span
        except Exception as error:
            span.set_status(_failed(f"{type(error).__name__}: {error}"))
            raise


class _Ids(RandomIdGenerator):
    """Draws ids, except where one is given."""

    def generate_trace_id(self) -> int:
        given = _given.get()
        return super().generate_trace_id() if given is None else given.trace_id

    def generate_span_id(self) -> int:
        given = _given.get()
        return super().generate_span_id() if given is None else given.span_id


def batched(exporter: str) -> SpanProcessor:
    """Return what sends spans in batches, in a thread of its own, to where the variables say."""
    return BatchSpanProcessor(ConsoleSpanExporter() if exporter == "console" else OTLPSpanExporter())


def below(place: Place) -> Context:
    """Return the context of what is done below this span."""
    return _below(place, place.span_id)


def _below(place: Place, parent_id: int | None) -> Context:
    if parent_id is None:
        return Context()
    flags = TraceFlags(TraceFlags.SAMPLED if place.is_sampled else TraceFlags.DEFAULT)
    parent = SpanContext(place.trace_id, parent_id, is_remote=True, trace_flags=flags)
    return trace.set_span_in_context(NonRecordingSpan(parent), Context())


def _failed(error: str) -> Status:
    return Status(StatusCode.ERROR, masked(error)[:ERROR_MOST_CHARACTERS])


def _nanoseconds(instant: datetime) -> int:
    return (instant - _EPOCH) // timedelta(microseconds=1) * 1000
