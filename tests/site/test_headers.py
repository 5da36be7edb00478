"""What every answer tells a browser, at whichever door, and whom it is for."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.server import live_edge

ROOT = Path(__file__).resolve().parents[2]
PAGES = ["/sign-in", "/", "/nothing/here", "/admin/login/", "/static/croniq.css"]
MACHINES = ["/v1/jobs", "/v1/openapi.yaml", "/v1/nothing", "/health", "/version", "/v1/work/poll", "/v1/work/nothing"]


@pytest.mark.django_db(transaction=True)
def test_every_answer_is_what_it_says_and_is_shown_nowhere_else(settings):
    settings.SECURE_HSTS_SECONDS = 31_536_000
    with live_edge() as server:
        for path in PAGES + MACHINES:
            answer = server.http.get(path, headers={"X-Forwarded-Proto": "https"})
            assert answer.headers["x-content-type-options"] == "nosniff", path
            if path.startswith("/v1/work/"):
                continue  # nothing that a browser shows or keeps
            assert answer.headers["referrer-policy"] == "same-origin", path
            assert answer.headers["cross-origin-opener-policy"] == "same-origin", path
            assert answer.headers["strict-transport-security"] == "max-age=31536000", path
            policy = answer.headers["content-security-policy"]
            assert "default-src 'none'" in policy, path
            assert "frame-ancestors 'none'" in policy, path
            assert "unsafe" not in policy, path
        assert "strict-transport-security" not in server.http.get("/sign-in").headers  # plain http may not say it


@pytest.mark.django_db(transaction=True)
def test_a_host_that_is_not_ours_is_refused():
    with live_edge(allowed_hosts=["127.0.0.1"]) as server:
        for host in ("evil.example", "127.0.0.1.evil.example", "", "a b", "127.0.0.1:x", "evil.example@127.0.0.1"):
            for path in ("/sign-in", "/v1/jobs"):
                answer = server.http.get(path, headers={"Host": host, "X-Forwarded-Host": "127.0.0.1"})
                assert answer.status_code == 400, (host, path)
                assert "evil" not in answer.text


def test_the_checks_of_a_deployment_find_nothing(tmp_path):
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("CRONIQ_", "DATABASE_URL", "DJANGO_"))}
    ended = subprocess.run(
        [sys.executable, "manage.py", "check", "--deploy", "--fail-level", "INFO"],
        cwd=ROOT,
        env={**kept, "CRONIQ_DATA_DIR": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
