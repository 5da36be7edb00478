"""Edits of a job while its runs are claimed: either the old claim or the new rule."""

from tests.mutations.record import Mutation

MEETINGS = "tests/scheduler/conformance/test_edits_and_claims.py::"
JOBS = "scheduler/services/jobs.py"
QUEUE = "scheduler/services/queue.py"
POSTGRESQL = "scheduler/sql/postgresql.py"
NEXT = "            rest.entry.job.lease_seconds,\n"
TIMEOUT = "            rest.entry.run.timeout_seconds or rest.entry.job.timeout_seconds,\n"

RECORDS = [
    Mutation(
        name="retry-follows-the-lease",
        mechanism="The next attempt has the lease that its job has by now.",
        file=QUEUE,
        old=NEXT,
        new="            rest.entry.lease_seconds,\n",
        red=[
            MEETINGS + "test_a_lease_or_a_timeout",
            MEETINGS + "test_an_attempt_that_ends_while_the_lease_is_edited_waits_with_the_new_one",
        ],
    ),
    Mutation(
        name="retry-follows-the-timeout",
        mechanism="The next attempt has the timeout that its job has by now.",
        file=QUEUE,
        old=TIMEOUT,
        new="            rest.entry.timeout_seconds,\n",
        red=[
            MEETINGS + "test_a_lease_or_a_timeout",
            MEETINGS + "test_an_attempt_that_ends_while_the_lease_is_edited_waits_with_the_new_one",
        ],
    ),
    Mutation(
        name="retry-keeps-its-own-timeout",
        mechanism="A timeout that a trigger asked for stays with its run over all attempts.",
        file=QUEUE,
        old=TIMEOUT,
        new="            rest.entry.job.timeout_seconds,\n",
        red=[MEETINGS + "test_a_timeout_that_a_trigger_asked_for_stays_with_its_run"],
    ),
    Mutation(
        name="claim-stamps-one-moment",
        mechanism="A claim's lease and deadline are those of the row that it took, also if it had seen an older one.",
        file=POSTGRESQL,
        old="        lease_expires_at = n.now + make_interval(secs => q.lease_seconds),",
        new="        lease_expires_at = n.now + make_interval(secs => (\n"
        "            SELECT o.lease_seconds FROM scheduler_queueentry o WHERE o.run_id = d.run_id)),",
        red=[MEETINGS + "test_a_lease_or_a_timeout"],
        database="postgresql",
    ),
    Mutation(
        name="edit-takes-limits-to-waiting-runs",
        mechanism="What waits when a limit is set is admitted by it.",
        file=JOBS,
        old="        _bring_limits_to_waiting(job, domain_before, now)\n",
        new="        pass\n",
        red=[MEETINGS + "test_a_limit_that_is_set", MEETINGS + "test_a_limit_that_is_lowered"],
    ),
    Mutation(
        name="group-gates-again",
        mechanism="What nobody has claimed yet is admitted by the new limit of its group.",
        file="scheduler/services/groups.py",
        old="            _gate_again(group, now)\n",
        new="            pass\n",
        red=[MEETINGS + "test_the_limit_of_a_group_that_is_lowered"],
    ),
]
