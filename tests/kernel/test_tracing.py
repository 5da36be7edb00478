"""Whether spans are made, where they go, and what is read of a `traceparent`."""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
import threading
from datetime import timedelta
from pathlib import Path

import pytest

from croniq_site.kernel import spans, tracing
from croniq_site.kernel.logs import JsonLines
from croniq_site.kernel.spans import Ended
from croniq_site.kernel.tracing import Place, place_of, wanted_exporter
from tests.support.collector import received, recorded_spans
from tests.support.polling import poll_until
from tests.support.receivers import webhook

TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
PLACE = Place(int(TRACE, 16), int(SPAN, 16), True)
ENDPOINT = "OTEL_EXPORTER_OTLP_ENDPOINT"
ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize(
    ("text", "place"),
    [
        (f"00-{TRACE}-{SPAN}-01", PLACE),
        (f"00-{TRACE}-{SPAN}-03", PLACE),
        (f"00-{TRACE}-{SPAN}-00", Place(PLACE.trace_id, PLACE.span_id, False)),
        (f"cc-{TRACE}-{SPAN}-01-what-will-be", PLACE),
        (f"00-{TRACE}-{SPAN}-01-more", None),
        (f"ff-{TRACE}-{SPAN}-01", None),
        (f"00-{'0' * 32}-{SPAN}-01", None),
        (f"00-{TRACE}-{'0' * 16}-01", None),
        (f"00-{TRACE.upper()}-{SPAN}-01", None),
        (f"00-{TRACE}-{SPAN}", None),
        (f"cc-{TRACE}-{SPAN}-01-" + "x" * 300, None),
        ("", None),
        (None, None),
        (7, None),
    ],
)
def test_a_traceparent_is_read_as_the_recommendation_says_and_is_else_none(text, place):
    assert place_of(text) == place


def test_what_is_written_is_what_is_read():
    assert place_of(PLACE.as_traceparent()) == PLACE
    assert PLACE.as_traceparent() == f"00-{TRACE}-{SPAN}-01"


@pytest.mark.parametrize(
    ("environ", "exporter", "warns"),
    [
        ({}, None, False),
        ({"OTEL_SERVICE_NAME": "croniq", "OTEL_TRACES_SAMPLER": "always_on"}, None, False),
        ({ENDPOINT: ""}, None, False),
        ({ENDPOINT: "http://collector:4318"}, "otlp", False),
        ({"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://collector:4318/v1/traces"}, "otlp", False),
        ({"OTEL_TRACES_EXPORTER": "otlp"}, "otlp", False),
        ({"OTEL_TRACES_EXPORTER": "console", "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}, "console", False),
        ({ENDPOINT: "http://collector:4318", "OTEL_TRACES_EXPORTER": "none"}, None, False),
        ({ENDPOINT: "http://collector:4318", "OTEL_SDK_DISABLED": "TRUE"}, None, False),
        ({ENDPOINT: "http://c:4318", "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf"}, "otlp", False),
        ({ENDPOINT: "http://c:4318", "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}, None, True),
        ({"OTEL_TRACES_EXPORTER": "zipkin"}, None, True),
    ],
)
def test_the_standard_variables_turn_it_on_and_nothing_else_does(environ, exporter, warns, caplog):
    assert wanted_exporter(environ) == exporter
    assert bool(caplog.records) is warns


def test_without_the_variables_nothing_of_it_is_imported():
    """A server and its workers, in a process that is told nothing."""
    code = (
        "import sys; from django.core.management import execute_from_command_line as run; run(['manage.py', 'check']);"
        "import scheduler.api.work.claiming, scheduler.workers.process, scheduler.management.commands.serve;"
        "from croniq_site.kernel import tracing; tracing.start('serve', {});"
        "sys.exit(tracing.active is not None or any(name.startswith('opentelemetry') for name in sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_without_the_extra_it_is_off_and_says_so(monkeypatch, caplog):
    monkeypatch.setitem(sys.modules, "croniq_site.kernel.spans", None)
    tracing.start("serve", {ENDPOINT: "http://127.0.0.1:9"})
    assert tracing.active is None
    assert "docs/tracing.md" in caplog.text


def test_what_the_sdk_refuses_ends_no_process(monkeypatch, caplog):
    monkeypatch.setenv("OTEL_BSP_MAX_QUEUE_SIZE", "1")  # less than a batch
    tracing.start("serve", {ENDPOINT: "http://127.0.0.1:9"})
    assert tracing.active is None
    assert "no traces: " in caplog.text


def test_what_the_sdk_refuses_while_it_is_imported_ends_no_process():
    code = "from croniq_site.kernel import tracing as t; t.start('serve'); raise SystemExit(t.active is not None)"
    environ = {**os.environ, ENDPOINT: "http://127.0.0.1:9", "OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT": "many"}
    run = [sys.executable, "-c", code]
    done = subprocess.run(run, cwd=ROOT, capture_output=True, text=True, env=environ, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stderr.startswith("no traces: OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT must be")


def test_a_sampler_that_fails_is_found_when_it_starts(monkeypatch, caplog):
    monkeypatch.setattr(spans.Spans, "is_sampled", lambda self, trace_id: 1 / 0)
    tracing.start("serve", {ENDPOINT: "http://127.0.0.1:9"})
    assert tracing.active is None
    assert "no traces: division" in caplog.text


def test_spans_go_over_http_to_where_the_variables_say(monkeypatch, now):
    with webhook() as hook:
        hook.status = 200
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", hook.url)
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "x-team=night")
        monkeypatch.setenv("OTEL_SERVICE_NAME", "nightly")
        monkeypatch.setenv("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment=test")
        tracing.start("materialize")
        try:
            place = Place(1, 2, True)
            told = Ended("croniq.run", place, 3, now, now + timedelta(seconds=2), {"croniq.attempt": 4})
            tracing.active.ended([told])
        finally:
            tracing.end()
        poll_until(lambda: hook.seen, what="the spans")
        (span,) = received(hook)
        assert hook.seen[0][0]["x-team"] == "night"
    assert (span["name"], span["trace"], span["id"], span["parent"]) == (
        "croniq.run",
        f"{1:032x}",
        f"{2:016x}",
        f"{3:016x}",
    )
    assert (span["service.name"], span["croniq.process"], span["croniq.attempt"]) == ("nightly", "materialize", 4)
    assert span["deployment.environment"] == "test"
    assert tracing.active is None


def test_a_collector_that_hangs_does_not_keep_the_process(monkeypatch, now):
    monkeypatch.setattr(spans, "END_SECONDS", 0.05)
    with webhook() as hook:
        hook.status = 0
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", hook.url)
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "60")
        tracing.start("serve")
        tracing.active.ended([Ended("croniq.run", PLACE, None, now, now)])
        tracing.end()
        (waiting,) = [thread for thread in threading.enumerate() if thread.name == "croniq-last-spans"]
        assert waiting.daemon  # so the process ends under it
        hook.closing.set()
        waiting.join(60)
        assert not waiting.is_alive()


def test_json_lines_within_a_span_name_it():
    record = logging.LogRecord("croniq.test", logging.INFO, __file__, 1, "m", (), None)
    with recorded_spans() as recorded:
        with tracing.live("croniq.tick"):
            told = json.loads(JsonLines().format(record))
        context = recorded.one("croniq.tick").context
        assert (told["trace_id"], told["span_id"]) == (f"{context.trace_id:032x}", f"{context.span_id:016x}")
        assert "trace_id" not in json.loads(JsonLines().format(record))
    assert tracing.current() is None


def test_a_failure_is_told_without_secrets(now):
    with recorded_spans() as recorded:
        error = "no: Bearer abcdefghijkl " + "x" * 5000
        tracing.active.ended([Ended("croniq.run", PLACE, None, now, now - timedelta(seconds=1), error=error)])
        span = recorded.one("croniq.run")
    assert not span.status.is_ok
    assert span.status.description.startswith("no: Bearer *** x")
    assert len(span.status.description) == spans.ERROR_MOST_CHARACTERS
    assert span.end_time == span.start_time  # a clock that went back makes no span of negative length


def test_what_is_raised_within_a_span_is_told_without_secrets_and_traceback():
    with recorded_spans() as recorded:
        with pytest.raises(ValueError), tracing.live("croniq.tick"):
            raise ValueError("no: Bearer abcdefghijkl")
        span = recorded.one("croniq.tick")
    assert (span.status.is_ok, span.status.description) == (False, "ValueError: no: Bearer ***")
    assert not span.events
    assert tracing.current() is None
