"""Put the spans that the public SDK makes of each run (`croniq.execute`) below what the run's assignment says.

The SDK makes them by the process's tracer, without a parent: it does not read `traceparent`. Its spans name their run,
so the tracer that it is given looks it up. Only imported where spans are made.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from opentelemetry import trace
from opentelemetry.context import Context

from croniq_site.kernel.spans import Spans, as_current, below
from croniq_site.kernel.tracing import place_of

RUN_ID = "croniq.execution_id"

TraceparentOf = Callable[[str], str | None]


def give_to_sdk(spans: Spans, traceparent_of: TraceparentOf) -> None:
    """Make these spans those of the whole process; works once in a process."""
    trace.set_tracer_provider(Provider(spans.provider, traceparent_of))


class Provider(trace.TracerProvider):
    def __init__(self, inner: trace.TracerProvider, traceparent_of: TraceparentOf) -> None:
        self._inner, self._traceparent_of = inner, traceparent_of

    def get_tracer(self, *args: Any, **kwargs: Any) -> trace.Tracer:
        return _Tracer(self._inner.get_tracer(*args, **kwargs), self._traceparent_of)


class _Tracer(trace.Tracer):
    def __init__(self, inner: trace.Tracer, traceparent_of: TraceparentOf) -> None:
        self._inner, self._traceparent_of = inner, traceparent_of

    def start_span(self, name: str, context: Context | None = None, **kwargs: Any) -> trace.Span:
        run_id = (kwargs.get("attributes") or {}).get(RUN_ID)
        place = place_of(self._traceparent_of(run_id)) if context is None and run_id else None
        return self._inner.start_span(name, context if place is None else below(place), **kwargs)

    @contextmanager
    def start_as_current_span(self, name: str, context: Context | None = None, **kwargs: Any) -> Iterator[trace.Span]:
        with as_current(self.start_span(name, context, **kwargs)) as span:
            yield span
