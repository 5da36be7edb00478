"""Whether this process makes spans: only if OpenTelemetry's own variables (`OTEL_…`) ask for it.

Else `active` stays None, nothing of OpenTelemetry is imported, and whoever could make a span looks at that one name.
"""

from __future__ import annotations

import contextlib
import logging
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from croniq_site.kernel.spans import Spans

_log = logging.getLogger(__name__)

active: Spans | None = None

_TRACEPARENT = re.compile(r"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?")
_MOST_CHARACTERS = 255


@dataclass(frozen=True, slots=True)
class Place:
    """A span's place: ``trace_id`` of 128 bits, ``span_id`` of 64, neither zero."""

    trace_id: int
    span_id: int
    is_sampled: bool

    def as_traceparent(self) -> str:
        return f"00-{self.trace_id:032x}-{self.span_id:016x}-{int(self.is_sampled):02x}"


def place_of(traceparent: object) -> Place | None:
    """Read a `traceparent` (W3C Trace Context, level 1); None where it is none: then there was no parent."""
    if not isinstance(traceparent, str) or len(traceparent) > _MOST_CHARACTERS:
        return None
    found = _TRACEPARENT.fullmatch(traceparent.strip())
    if found is None:
        return None
    version, trace_id, span_id, flags, more = found.groups()
    # A later version may say more after it; the first one ends here.
    if version == "ff" or (version == "00" and more) or not int(trace_id, 16) or not int(span_id, 16):
        return None
    return Place(int(trace_id, 16), int(span_id, 16), bool(int(flags, 16) & 1))


def wanted_exporter(environ: Mapping[str, str]) -> str | None:
    """Return ``otlp`` or ``console``, or None: off. What is asked for and cannot be is told in the log, and is off:
    these variables are often given to everything on a machine, and no job waits for want of a span."""
    said = {name: value.strip() for name, value in environ.items() if name.startswith("OTEL_")}
    exporter = said.get("OTEL_TRACES_EXPORTER", "").lower()
    endpoint = said.get("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT") or said.get("OTEL_EXPORTER_OTLP_ENDPOINT")
    if said.get("OTEL_SDK_DISABLED", "").lower() == "true" or exporter == "none" or not (exporter or endpoint):
        return None
    if exporter not in ("", "otlp", "console"):
        _log.warning("no traces: OTEL_TRACES_EXPORTER is %r; otlp, console and none are known", exporter)
        return None
    protocol = said.get("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL") or said.get("OTEL_EXPORTER_OTLP_PROTOCOL")
    if exporter != "console" and protocol not in (None, "", "http/protobuf"):
        _log.warning("no traces: OTEL_EXPORTER_OTLP_PROTOCOL is %r; http/protobuf is what this speaks", protocol)
        return None
    return exporter or "otlp"


def start(process: str, environ: Mapping[str, str] = os.environ) -> None:
    """Begin to make spans, if they are wanted; ``process`` is what this one does. Call it after any fork."""
    global active
    exporter = wanted_exporter(environ)
    if exporter is None:
        return
    try:
        # Some variables are read, and refused, while it is imported.
        from croniq_site.kernel.spans import Spans, batched

        made = Spans(process, batched(exporter))
        made.is_sampled(1)  # by whatever sampler is installed here
    except ImportError as error:
        _log.warning("no traces: OTEL_… asks for them, but %s is not installed (docs/tracing.md)", error.name)
    except Exception as error:
        _log.warning("no traces: %s", error)
    else:
        active = made


def end() -> None:
    """Send what is left, for a moment, and make no spans any more."""
    global active
    spans, active = active, None
    if spans is not None:
        spans.end()


def live(name: str) -> contextlib.AbstractContextManager[object]:
    """A span around what is done within; nothing where there are none."""
    spans = active
    return contextlib.nullcontext() if spans is None else spans.live(name)


def current() -> Place | None:
    """Return where this line of work is in a trace, if it is in one."""
    spans = active
    return None if spans is None else spans.current()
