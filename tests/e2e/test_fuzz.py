"""schemathesis over the whole OpenAPI document, against a real server: no 5xx, nothing that the document does not know.

The long run is `python -m benchmarks.fuzz`.
"""

from __future__ import annotations

import pytest

from benchmarks.fuzz import ENVIRONMENT, KEY, fuzz
from tests.e2e.installation import free_port, installation

pytestmark = [pytest.mark.realtime, pytest.mark.django_db(transaction=True), pytest.mark.timeout(600)]


def test_every_answer_is_one_that_the_document_knows():
    with installation(serve=False) as site:
        port = free_port()
        server = site.start("serve", "--port", str(port), **ENVIRONMENT)
        address = f"http://127.0.0.1:{port}"
        site.wait_for_server(address)
        report = fuzz(address, KEY, 1)
        with site.http(KEY) as client:
            assert client.get(f"{address}/v1/jobs").status_code == 200, "the key was lost on the way"
        assert site.stop(server) == 0
    assert report.good, report.output
    assert report.operations >= 75
    assert report.requests >= 2000
