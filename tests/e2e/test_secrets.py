"""What the processes of an installation say, at their most talkative, holds none of the secrets that they have."""

from __future__ import annotations

import json
import secrets
from urllib.parse import urlsplit, urlunsplit

import httpx
import pytest
from django.contrib.auth import get_user_model

from scheduler.models import Run
from tests.e2e.installation import installation
from tests.support.polling import poll_until

pytestmark = [pytest.mark.realtime, pytest.mark.django_db(transaction=True)]


def with_password(url: str, password: str) -> str:
    """Name a password that this server does not ask for."""
    parts = urlsplit(url)
    if parts.scheme == "sqlite":
        return url
    user, _, host = parts.netloc.rpartition("@")
    return urlunsplit(parts._replace(netloc=f"{user or 'postgres'}:{password}@{host}"))


@pytest.mark.timeout(300)
def test_no_process_says_a_secret_and_each_event_is_one_line_of_json(settings):
    marks = {
        name: f"{name}{secrets.token_hex(16)}" for name in ("database", "password", "signing", "oidc", "wrong", "basic")
    }
    settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.PBKDF2PasswordHasher"]  # as the server has it
    get_user_model().objects.create_superuser("root", password=marks["password"])
    with installation([], serve=False) as site:
        site.env |= {
            "DATABASE_URL": with_password(site.env["DATABASE_URL"], marks["database"]),
            "CRONIQ_SECRET_KEY": marks["signing"],
            "CRONIQ_LOG_LEVEL": "DEBUG",
            "CRONIQ_LOG_FORMAT": "json",
            "CRONIQ_OIDC_ISSUER": "http://127.0.0.1:9",
            "CRONIQ_OIDC_CLIENT_ID": "croniq",
            "CRONIQ_OIDC_CLIENT_SECRET": marks["oidc"],
        }
        marks["admin key"], marks["runner key"] = site.key("admin"), site.key("work:poll", "work:ack", "work:events")
        site.start("serve", "--port", str(urlsplit(site.base_url).port))
        for command in ("materialize", "reap"):
            site.start(command)
        site.wait_for_server()
        runner = site.start(
            "runner", "--server", site.base_url, "--runner-id", "r1", CRONIQ_RUNNER_KEY=marks["runner key"]
        )
        with site.http(marks["admin key"]) as http:
            job = {"job_key": "say:no", "action": {"type": "command", "argv": ["false"]}, "max_retries": 0}
            assert http.post("/v1/jobs", json=job).status_code == 201
            run_id = http.post("/v1/trigger", json={"job_key": "say:no"}).json()["execution_id"]
            assert http.post("/v1/jobs", content=b"{").status_code == 415
        wrong = {"Authorization": f"ApiKey croniq_{marks['wrong']}"}
        assert httpx.get(f"{site.base_url}/v1/jobs", headers=wrong).status_code == 401
        assert httpx.post(f"{site.base_url}/v1/work/poll", headers=wrong, json={}).status_code == 401
        assert (
            httpx.get(f"{site.base_url}/v1/jobs", headers={"Authorization": f"Basic {marks['basic']}"}).status_code
            == 401
        )
        with httpx.Client(base_url=site.base_url) as browser:
            token = browser.get("/sign-in").cookies["csrftoken"]
            form = {"username": "root", "password": marks["password"], "csrfmiddlewaretoken": token}
            assert browser.post("/sign-in", data=form).status_code == 302
            assert browser.post("/sign-in", data=form | {"password": marks["wrong"]}).status_code in (200, 302, 403)
        poll_until(lambda: Run.objects.filter(pk=run_id, verdict="dead").exists(), 60, what="the run has ended")
        assert all(site.stop(process) == 0 for process in reversed(site.processes))
        said = {process: site.log_of(process) for process in site.processes}
    for process, text in said.items():
        for name, mark in marks.items():
            assert mark not in text, (name, process.args)
        lines = [line for line in text.splitlines() if line]
        told = [json.loads(line) for line in lines if not line.startswith("Croniq serves ")]
        assert all({"time", "level", "logger", "message"} <= set(one) for one in told)
    ended = [json.loads(line) for line in said[runner].splitlines() if run_id in line]
    assert any((one.get("execution_id"), one.get("job_key")) == (run_id, "say:no") for one in ended), ended
