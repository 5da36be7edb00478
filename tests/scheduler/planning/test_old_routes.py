"""Bounds that hold for what is there, and for what comes together."""

from __future__ import annotations

import pytest

from croniq_site.kernel.clock import DatabaseClock
from croniq_site.kernel.errors import InvalidInput
from runners.services.audit import SYSTEM
from scheduler.models import Lane, Run
from scheduler.services.jobs import delete_job, save_job
from scheduler.services.lanes import LANES_PER_TENANT, route_of
from scheduler.services.trigger_runs import trigger_run

pytestmark = pytest.mark.django_db(transaction=True)


def test_pins_to_machines_that_are_long_gone_do_not_keep_new_jobs_out():
    """Each deploy pins its job to its machine and deletes the job when the machine goes."""
    now = DatabaseClock().now()
    for number in range(2):
        save_job({"job_key": "a:b", "pin": f"machine-{number}"}, now, SYSTEM)
        delete_job("a:b", now, SYSTEM)
    # 998 more deploys, by hand for speed: the same rows.
    pins = [f"runner:machine-{number}" for number in range(2, LANES_PER_TENANT)]
    Lane.objects.bulk_create(
        Lane(tenant="default", route=route_of([pin], []), priority=0, require=[pin], prefer=[]) for pin in pins
    )
    save_job({"job_key": "a:b", "pin": "machine-1000"}, now, SYSTEM)
    assert Lane.objects.count() == LANES_PER_TENANT + 1


def test_metadata_of_job_and_trigger_are_bounded_together():
    now = DatabaseClock().now()
    save_job({"job_key": "a:b", "metadata": {"a": "x" * 60_000}}, now, SYSTEM)
    with pytest.raises(InvalidInput) as caught:
        trigger_run("a:b", now, metadata={"b": "y" * 60_000})
    assert list(caught.value.fields) == ["metadata"]
    assert not Run.objects.exists()
    trigger_run("a:b", now, metadata={"a": "y" * 60_000})
