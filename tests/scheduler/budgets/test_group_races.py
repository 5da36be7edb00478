"""Jobs that are put into a group while somebody edits or deletes it. On SQLite these take turns."""

from __future__ import annotations

import pytest

from croniq_site.kernel.errors import Conflict, InvalidInput
from scheduler.models import ConcurrencyGroup, Job
from scheduler.services import jobs
from scheduler.services.groups import delete_group, save_group
from scheduler.services.jobs import save_job
from tests.factories import ConcurrencyGroupFactory, JobFactory
from tests.scheduler.budgets.world import group_of
from tests.scheduler.planning.support import ACTOR
from tests.support.polling import poll_until
from tests.support.races import DEADLINE_SECONDS, Session, is_waiting_for_lock

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def several_writers(database):
    if database != "postgresql":
        pytest.skip("SQLite has one writer")


def test_a_job_is_put_into_a_group_while_its_limit_is_edited_and_nobody_waits_in_a_circle(now):
    """The job's edit has the domain's lock, and the database looks at the group's row when it commits (the foreign key
    is deferred): whoever edits the group must not have locked that row and wait for the domain."""
    group_of(1, "db")
    job = JobFactory()
    with Session() as first, Session() as second:
        first.begin()
        first.run(save_job, {"job_key": job.job_key, "concurrency_group": "db"}, now, ACTOR, partial=True)
        pid = second.backend_pid
        limited = second.start(save_group, "db", 2, now, ACTOR, "default")
        poll_until(lambda: is_waiting_for_lock(pid) or limited.done(), what="the group's edit waits")
        first.commit()
        limited.result(DEADLINE_SECONDS)
    assert Job.objects.get(pk=job.pk).concurrency_group == ConcurrencyGroup.objects.get(max_concurrent=2)


def test_a_group_into_which_a_job_is_being_put_is_in_use(now):
    group_of(1, "db")
    job = JobFactory()
    with Session() as editor, Session() as deleter:
        editor.begin()
        editor.run(save_job, {"job_key": job.job_key, "concurrency_group": "db"}, now, ACTOR, partial=True)
        pid = deleter.backend_pid
        deleted = deleter.start(delete_group, "db", now, ACTOR, "default")
        poll_until(lambda: is_waiting_for_lock(pid) or deleted.done(), what="the deletion waits")
        editor.commit()
        with pytest.raises(Conflict) as refused:
            deleted.result(DEADLINE_SECONDS)
    assert refused.value.code == "group_in_use"
    assert Job.objects.get(pk=job.pk).concurrency_group.name == "db"


def test_a_group_that_is_deleted_while_a_job_is_put_into_it_is_refused_by_name(now):
    group_of(1, "db")
    job = JobFactory()
    with Session() as deleter, Session() as editor:
        deleter.begin()
        deleter.run(delete_group, "db", now, ACTOR, "default")
        pid = editor.backend_pid
        edit = editor.start(save_job, {"job_key": job.job_key, "concurrency_group": "db"}, now, ACTOR, partial=True)
        poll_until(lambda: is_waiting_for_lock(pid) or edit.done(), what="the edit waits")
        deleter.commit()
        with pytest.raises(InvalidInput) as refused:
            edit.result(DEADLINE_SECONDS)
    assert list(refused.value.fields) == ["concurrency_group"]


def test_the_loser_of_two_that_make_a_job_edits_the_winners_by_the_groups_of_its_tenant(now, monkeypatch):
    groups = {tenant: ConcurrencyGroupFactory(tenant=tenant, name="db") for tenant in ("default", "other")}
    make = jobs._make

    def beaten(*arguments):
        with Session() as winner:
            winner.run(lambda: JobFactory(job_key="a:b", tenant="other"))
        return make(*arguments)

    monkeypatch.setattr(jobs, "_make", beaten)
    job, is_new = save_job({"job_key": "a:b", "concurrency_group": "db"}, now, ACTOR)
    assert (is_new, job.tenant, job.concurrency_group_id) == (False, "other", groups["other"].pk)
