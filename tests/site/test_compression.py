"""What pages are made of travels compressed, what machines ask for does not."""

from __future__ import annotations

import pytest

from tests.support.server import live_edge

PLAIN = {"Accept-Encoding": "identity"}


@pytest.mark.django_db(transaction=True)
def test_pages_and_their_files_travel_compressed_and_are_the_same():
    with live_edge() as server:
        for path in ("/sign-in", "/static/croniq.css", "/static/django_htmx/htmx-2.min.js"):
            packed = server.http.get(path, headers={"Accept-Encoding": "gzip"})
            plain = server.http.get(path, headers=PLAIN)
            assert packed.headers["content-encoding"] == "gzip", path
            assert "accept-encoding" in packed.headers["vary"].lower(), path
            assert "content-encoding" not in plain.headers, path
            assert packed.num_bytes_downloaded < 0.7 * plain.num_bytes_downloaded, path
            if path.startswith("/static/"):
                assert packed.text == plain.text
        for path in ("/v1/openapi.yaml", "/v1/jobs", "/metrics", "/nothing/here"):
            answer = server.http.get(path, headers={"Accept-Encoding": "gzip"})
            assert "content-encoding" not in answer.headers, path


@pytest.mark.django_db(transaction=True)
def test_a_file_that_a_browser_has_is_not_sent_again():
    with live_edge() as server:
        first = server.http.get("/static/croniq.css", headers={"Accept-Encoding": "gzip"})
        names = {"etag": "If-None-Match", "last-modified": "If-Modified-Since"}
        had = {names[name]: value for name, value in first.headers.items() if name in names}
        assert had
        again = server.http.get("/static/croniq.css", headers={"Accept-Encoding": "gzip", **had})
        assert again.status_code == 304
        assert again.content == b""
