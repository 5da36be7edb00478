"""One trace through the processes: a caller's, a server, the reference runner on the public SDK; and a worker's own."""

from __future__ import annotations

import pytest

from tests.e2e.installation import PATIENCE_SECONDS, installation
from tests.factories import JobFactory
from tests.support.collector import received
from tests.support.polling import poll_until
from tests.support.receivers import webhook

pytestmark = [pytest.mark.realtime, pytest.mark.django_db(transaction=True), pytest.mark.timeout(300)]

TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"


def test_a_triggered_run_is_one_trace_from_its_caller_to_the_command(monkeypatch):
    with webhook() as hook:
        hook.status = 200
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", hook.url)
        monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "100")
        monkeypatch.setenv("OTEL_SERVICE_NAME", "nightly")
        monkeypatch.setenv("CRONIQ_LOG_FORMAT", "json")
        with installation(("materialize --interval 0.5",)) as site:
            JobFactory(job_key="demo:a", action={"type": "command", "shell": "echo told $TRACEPARENT"})
            key = site.key()
            site.start(
                *("runner", "--server", site.base_url, "--key", key, "--runner-id", "r1", "--allow-insecure-http"),
                CRONIQ_LOG_FORMAT="json",
            )
            with site.http(key) as api:
                asked = api.post(
                    "/v1/trigger", json={"job_key": "demo:a"}, headers={"traceparent": f"00-{TRACE}-{SPAN}-01"}
                )
                run_id = asked.json()["execution_id"]

                def spans() -> dict[str, dict]:
                    return {span["name"]: span for span in received(hook) if span.get("croniq.execution_id") == run_id}

                names = {"croniq.trigger", "croniq.claim", "croniq.run", "croniq.execute"}
                poll_until(lambda: spans().keys() == names, PATIENCE_SECONDS, what="the spans of the run")
                told = spans()
                lines = [row["message"] for row in api.get(f"/v1/executions/{run_id}/logs").json()]
            log = "".join(site.log_of(process) for process in site.processes)
            poll_until(
                lambda: any(span["name"] == "croniq.tick" for span in received(hook)), PATIENCE_SECONDS, what="a tick"
            )
    assert {span["trace"] for span in told.values()} == {TRACE}
    parents = [told[f"croniq.{name}"]["parent"] for name in ("trigger", "claim", "run", "execute")]
    assert parents == [SPAN, *(told[f"croniq.{name}"]["id"] for name in ("trigger", "claim", "run"))]
    assert [told[f"croniq.{name}"]["croniq.process"] for name in ("run", "execute")] == ["serve", "runner"]
    assert {span["service.name"] for span in told.values()} == {"nightly"}
    assert lines == [f"told 00-{TRACE}-{told['croniq.execute']['id']}-01"]
    assert f'"trace_id": "{TRACE}"' in log  # of the runner's lines about the run
