"""A runner registers a job in the moment in which somebody makes it over the API."""

from __future__ import annotations

import pytest

from croniq_site.kernel.clock import DatabaseClock
from runners.domain.scopes import Principal
from runners.services.audit import SYSTEM
from scheduler.models import Job
from scheduler.services.jobs import save_job
from scheduler.services.registration import register_job
from tests.factories import ApiClientFactory
from tests.support.polling import poll_until
from tests.support.races import Session, is_waiting_for_lock

pytestmark = pytest.mark.django_db(transaction=True)


def test_the_definition_of_the_api_stays(database):
    if database != "postgresql":
        pytest.skip("SQLite has one writer: the registration begins when the other has ended")
    now = DatabaseClock().now()
    client = ApiClientFactory(scopes=["jobs:register"])
    principal = Principal(client_id=client.pk, name=client.name, tenant=None, scopes=frozenset(["jobs:register"]))
    action = {"type": "command", "argv": ["/bin/true"]}
    with Session() as api, Session() as runner:
        pid = runner.backend_pid
        api.begin()
        api.run(
            lambda: save_job({"job_key": "a:b", "action": action, "max_retries": 0, "require": ["gpu"]}, now, SYSTEM)
        )
        body = {"job_key": "a:b", "schedule": "5m", "capabilities": ["all"]}
        answer = runner.start(lambda: register_job(body, now, principal))
        poll_until(lambda: is_waiting_for_lock(pid), what="the registration waits for the key")
        api.commit()
        answer.result(10)
    job = Job.objects.get()
    assert (job.managed_by, job.action, job.max_retries, job.require) == ("api", action, 0, ["gpu"])
