"""Acks and timeouts: whose word counts, and what it causes."""

from tests.mutations.record import Edit, Mutation

FINISH = "tests/scheduler/conformance/test_finish.py::"
CANCEL = "tests/scheduler/conformance/test_cancel.py::"
RACES = "tests/scheduler/conformance/test_races.py::"
PLANS = "tests/scheduler/conformance/test_plans.py::"
TABLE = "tests/scheduler/conformance/test_transitions.py::"
TIMEOUTS = "tests/scheduler/conformance/test_timeouts.py::"

POSTGRESQL = "scheduler/sql/postgresql.py"
SQLITE = "scheduler/sql/sqlite.py"

RECORDS = [
    Mutation(
        name="ack-attempt-fence",
        mechanism="An ack counts only for the attempt that it names.",
        edits=[
            Edit(
                POSTGRESQL,
                "WHERE q.state + 0 = 3 AND q.attempt = a.attempt AND r.runner_id",
                "WHERE q.state + 0 = 3 AND r.runner_id",
            ),
            Edit(
                SQLITE,
                "WHERE q.state = 3 AND q.attempt = a.attempt AND r.runner_id",
                "WHERE q.state = 3 AND r.runner_id",
            ),
        ],
        red=[FINISH + "test_an_ack_of_another_attempt_or_runner_changes_nothing"],
        quick=True,
    ),
    Mutation(
        name="ack-runner-fence",
        mechanism="An ack counts only from the runner that holds the run.",
        edits=[
            Edit(
                POSTGRESQL, "AND q.attempt = a.attempt AND r.runner_id = a.runner_id\n", "AND q.attempt = a.attempt\n"
            ),
            Edit(
                SQLITE, 'AND q.attempt = a.attempt AND r.runner_id = a.runner_id",\n', 'AND q.attempt = a.attempt",\n'
            ),
        ],
        red=[FINISH + "test_an_ack_of_another_attempt_or_runner_changes_nothing"],
    ),
    Mutation(
        name="ack-fence-of-failures",
        mechanism="A failure counts only from the runner that holds the attempt.",
        file="scheduler/services/finish.py",
        old="if entry is None or entry.attempt != ack.attempt or queue.holder_name(entry) != ack.runner_id:",
        new="if entry is None:",
        red=[
            FINISH + "test_an_ack_of_another_attempt_or_runner_changes_nothing",
            FINISH + "test_only_the_holder_winds_a_cancelled_run_down",
        ],
    ),
    Mutation(
        name="ack-one-a-run-at-a-time",
        mechanism="Of two acks of one run in a batch the second sees what the first did.",
        file="scheduler/services/finish.py",
        old="batch.setdefault(ack.run_id, (place, ack))",
        new="batch[ack.run_id] = (place, ack)",
        red=[FINISH + "test_of_two_equal_acks_in_one_batch_the_first_counts"],
    ),
    Mutation(
        name="ack-repeat-needs-the-same-verdict",
        mechanism="Another verdict on a completed run is stale, not a repetition.",
        file="scheduler/services/finish.py",
        old="return AckAnswer.REPEATED if ack.status is AckStatus.SUCCESS else AckAnswer.STALE",
        new="return AckAnswer.REPEATED",
        red=[FINISH + "test_another_verdict_comes_too_late"],
    ),
    Mutation(
        name="ack-repeat-needs-the-same-runner",
        mechanism="An ack is a repetition only from the runner whose attempt it was.",
        file="scheduler/services/finish.py",
        old="run.attempt != ack.attempt or run.runner_id != ack.runner_id:",
        new="run.attempt != ack.attempt:",
        red=[FINISH + "test_another_verdict_comes_too_late"],
    ),
    Mutation(
        name="ack-of-what-was-cancelled-is-welcome",
        mechanism="The holder's ack of a run that was cancelled under it is good, also when it is repeated.",
        file="scheduler/services/finish.py",
        old="    if run.verdict == Run.Verdict.CANCELLED or run.reason == TIMED_OUT:\n",
        new="    if False:\n",
        red=[
            FINISH + "test_the_holders_ack_of_a_cancelled_run_only_frees_its_place",
            TIMEOUTS + "test_the_last_attempt_that_times_out_is_dead_and_its_handler_winds_down",
        ],
    ),
    Mutation(
        name="ack-locks-in-order",
        mechanism="Batches lock entries in the order of run ids: two of them never wait for each other in a circle.",
        edits=[
            Edit(
                POSTGRESQL,
                "= a.runner_id\n    ORDER BY q.run_id\n",
                "= a.runner_id\n    ORDER BY q.run_id DESC\n",
            ),
            Edit("scheduler/services/queue.py", '.order_by("run_id")', '.order_by("-run_id")'),
        ],
        red=[RACES + "test_two_batches_in_opposite_order_do_not_wait_for_each_other_for_ever"],
        database="postgresql",
    ),
    Mutation(
        name="lock-before-looking",
        mechanism="Entries are locked before an event decides by their state.",
        file="scheduler/services/queue.py",
        old="        QueueEntry.objects.select_for_update()\n",
        new="        QueueEntry.objects.all()\n",
        red=[RACES + "test_a_cancel_that_comes_during_the_claim_reaches_the_handler"],
        database="postgresql",
    ),
    Mutation(
        name="nothing-of-a-deleted-job-begins",
        mechanism="A failed run of a deleted job has no next attempt.",
        file="scheduler/services/finish.py",
        old="return entry.attempt < entry.max_attempts and entry.job.deleted_at is None",
        new="return entry.attempt < entry.max_attempts",
        red=[FINISH + "test_nothing_of_a_deleted_job_begins_again"],
    ),
    Mutation(
        name="finish-gives-slots-back",
        mechanism="A run of a limited job that completes gives its slots back in the same transaction.",
        edits=[
            Edit(
                POSTGRESQL,
                "WHERE s.run_id = d.run_id AND d.is_limited\n",
                "WHERE s.run_id = d.run_id AND false\n",
            ),
            Edit(SQLITE, "    if with_slots:\n", "    if False:\n"),
        ],
        red=[FINISH + "test_a_run_of_a_limited_job_gives_its_slots_back_whatever_became_of_it"],
    ),
    Mutation(
        name="unlimited-jobs-leave-slots-alone",
        mechanism="Runs of jobs without a limit never touch the slots.",
        edits=[
            Edit(
                POSTGRESQL,
                "WHERE s.run_id = d.run_id AND d.is_limited\n",
                "WHERE s.run_id = d.run_id\n",
            ),
            Edit(SQLITE, "for run_id, *_, is_limited in held if is_limited]", "for run_id, *_, is_limited in held]"),
        ],
        red=[FINISH + "test_runs_of_unlimited_jobs_never_touch_the_slots"],
    ),
    Mutation(
        name="closing-is-heap-only",
        mechanism="The update that closes a run touches no indexed column.",
        file=POSTGRESQL,
        old="SET verdict = 'completed', attempt = d.attempt,",
        new="SET verdict = 'completed', scheduled_for = r.scheduled_for + interval '1 us', attempt = d.attempt,",
        red=[PLANS + "test_closing_a_run_touches_no_index"],
        database="postgresql",
    ),
    Mutation(
        name="timeout-ends-at-the-deadline",
        mechanism="An attempt fails when its deadline has come, and not before.",
        file="scheduler/sql/locks.py",
        old="{column} <= %s",
        new="{column} < %s",
        red=[TIMEOUTS + "test_a_deadline_that_has_come_fails_the_attempt"],
    ),
    Mutation(
        name="timeout-waits-for-the-handler",
        mechanism="A run whose last attempt timed out keeps its slots until its handler is gone.",
        file="scheduler/services/finish.py",
        old="queue.begin_stopping(_fail(failures, now, rng))",
        new="queue.remove_entries(_fail(failures, now, rng), now)",
        red=[TIMEOUTS + "test_the_last_attempt_that_times_out_is_dead_and_its_handler_winds_down"],
    ),
    Mutation(
        name="table-of-transitions",
        mechanism="What the services do is compared with the table, edge by edge.",
        edits=[
            Edit("scheduler/domain/transitions.py", "    (State.CLAIMED, Event.CANCEL): (State.STOPPING,),\n", ""),
        ],
        red=[TABLE + "test_a_service_does_what_the_table_says_and_nothing_where_it_says_nothing"],
    ),
    Mutation(
        name="paused-jobs-hold-their-retries",
        mechanism="A failed run of a paused job does not start again before the resume.",
        file="scheduler/domain/transitions.py",
        old="    if is_held:\n        return State.HELD\n",
        new="",
        red=[FINISH + "test_the_retry_of_a_paused_job_is_held_unless_somebody_triggered_it"],
    ),
]
