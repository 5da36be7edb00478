"""Fairness between tenants, and edits that meet claims and attempts that end."""

from tests.mutations.record import Edit, Mutation

FAIR = "tests/scheduler/conformance/test_fairness.py::"
EDITS = "tests/scheduler/conformance/test_edits.py::"
POSTGRESQL = "scheduler/sql/postgresql.py"
SQLITE = "scheduler/sql/sqlite.py"
LANES = "scheduler/queries/lanes.py"
LOCK = "        lock_entries_of(job)\n"

RECORDS = [
    Mutation(
        name="fairness-share-first",
        mechanism="Each tenant with something due gets its share of the seats before anybody gets more.",
        edits=[
            Edit(
                POSTGRESQL,
                "LIMIT CASE t.around WHEN 1 THEN t.share END OFFSET CASE t.around WHEN 1 THEN 0 ELSE t.share END",
                "OFFSET CASE t.around WHEN 1 THEN 0 ELSE t.share END",
            ),
            Edit(SQLITE, "for share in (-(-most // max(len(hungry), 1)), most):", "for share in (most, most):"),
        ],
        red=[FAIR + "test_each_tenant_gets_its_share_first_and_the_rest_is_filled_up"],
    ),
    Mutation(
        name="fairness-fills-up",
        mechanism="What the others left over is filled up: no seat stays empty while something is due.",
        edits=[
            Edit(POSTGRESQL, "FROM generate_series(1, 2) AS around", "FROM generate_series(1, 1) AS around"),
            Edit(
                SQLITE,
                "for share in (-(-most // max(len(hungry), 1)), most):",
                "for share in (-(-most // max(len(hungry), 1)),):",
            ),
        ],
        red=[FAIR + "test_each_tenant_gets_its_share_first_and_the_rest_is_filled_up"],
    ),
    Mutation(
        name="fairness-share-of-the-hungry",
        mechanism="Tenants without anything due take no share.",
        edits=[
            Edit(
                POSTGRESQL,
                "            WHERE d.state = 0 AND d.lane_id = l.lane_id AND d.available_at <= l.due_at "
                "AND d.run_id <> ALL (%s::uuid[])\n                AND d.available_at >= l.begins_at\n"
                "            ORDER BY d.available_at, d.run_id\n",
                "            WHERE d.available_at <= l.due_at OR d.run_id <> ALL (%s::uuid[])\n",
            ),
            Edit(
                SQLITE,
                "(lane_ids for lane_ids in tenants if any(due(lane_id, 1) for lane_id in lane_ids))",
                "(lane_ids for lane_ids in tenants)",
            ),
        ],
        red=[FAIR + "test_the_share_is_of_tenants_with_something_due"],
    ),
    Mutation(
        name="fairness-no-more-hungry-than-seats",
        mechanism="A claim looks for no more hungry tenants than it has seats.",
        edits=[
            Edit(
                POSTGRESQL,
                "    ) has_due\n    LIMIT (SELECT count(*) FROM seats)\n",
                "    ) has_due\n",
            ),
            Edit(SQLITE, "list(islice(has_due, most))", "list(islice(has_due, 10**9))"),
        ],
        red=[FAIR + "test_a_claim_looks_for_no_more_hungry_tenants_than_it_has_seats"],
    ),
    Mutation(
        name="fairness-last-served-goes-last",
        mechanism="The tenant that was served last goes last.",
        file=LANES,
        old="                    self._served[directory.tenant_of(lane_ids[0])] = self._count\n",
        new="                    pass\n",
        red=[
            FAIR + "test_b_comes_within_the_next_two_claims_whatever_a_has_queued",
            FAIR + "test_everybody_of_1001_tenants_is_served_within_one_rotation",
            FAIR + "test_instant_retries_of_a_do_not_delay_b",
        ],
    ),
    Mutation(
        name="fairness-at-the-edge",
        mechanism="A server's claims go in its rotation and are noted in it.",
        file="scheduler/api/work/claiming.py",
        old="        self._rotation.note(turns, done.served, self._directory)\n",
        new="",
        red=[
            "tests/scheduler/edge/test_producers.py::"
            "test_a_runner_of_all_tenants_gets_b_within_two_polls_whatever_a_has_queued"
        ],
    ),
    Mutation(
        name="edit-route-locks-entries",
        mechanism="An attempt that ends while its job's route is edited waits in the lane that the edit says.",
        file="scheduler/services/jobs.py",
        old="    if _FOLLOWED & set(changed):\n        lock_entries_of(job)\n",
        new="",
        red=[
            EDITS + "test_an_attempt_that_ends_while_its_job_is_rerouted_waits_where_the_edit_says",
            "tests/scheduler/conformance/test_edits_and_claims.py::"
            "test_an_attempt_that_ends_while_the_lease_is_edited_waits_with_the_new_one",
        ],
        database="postgresql",
    ),
    Mutation(
        name="edit-pause-locks-entries",
        mechanism="An attempt that ends while its job is paused is held.",
        file="scheduler/services/pause.py",
        old=LOCK + "        _scheduled(job, QueueEntry.State.READY",
        new="        _scheduled(job, QueueEntry.State.READY",
        red=[EDITS + "test_an_attempt_that_ends_while_its_job_is_paused_is_held"],
        database="postgresql",
    ),
    Mutation(
        name="edit-resume-locks-entries",
        mechanism="An attempt that ends while its job is resumed is not held for ever.",
        file="scheduler/services/pause.py",
        old="    lock_entries_of(job)\n    held = ",
        new="    held = ",
        red=[EDITS + "test_an_attempt_that_ends_while_its_job_is_resumed_does_not_wait_for_ever"],
        database="postgresql",
    ),
    Mutation(
        name="edit-delete-locks-entries",
        mechanism="Nothing of a job begins again that is deleted while its attempt ends.",
        file="scheduler/services/jobs.py",
        old=LOCK + "        diff = difference(_told(job), {})\n",
        new="        diff = difference(_told(job), {})\n",
        red=[EDITS + "test_nothing_of_a_job_begins_again_that_is_deleted_while_its_attempt_ends"],
        database="postgresql",
    ),
    Mutation(
        name="retry-follows-the-route",
        mechanism="The next attempt waits in the lane that its job has by now, unless the run had one of its own.",
        file="scheduler/services/queue.py",
        old="            rest.entry.lane_id = rest.entry.job.lane_id\n",
        new="            pass\n",
        red=[EDITS + "test_a_claim_that_is_first_keeps_its_run_and_its_next_attempt_follows_the_edit"],
    ),
    Mutation(
        name="retry-keeps-its-own-lane",
        mechanism="A run with a trigger's own override stays where that sent it.",
        file="scheduler/services/queue.py",
        old="        if not rest.entry.own_lane:\n",
        new="        if True:\n",
        red=[EDITS + "test_a_run_with_an_override_of_its_own_stays_where_that_sent_it"],
    ),
    Mutation(
        name="depth-sees-what-the-turn-before-made",
        mechanism="A trigger that waited for its turn counts the runs made meanwhile.",
        file="scheduler/services/trigger_runs.py",
        old='        Q(available_at__lte=now) | Q(waits_since__gte=F("available_at")),\n',
        new="        Q(available_at__lte=now),\n",
        red=[
            "tests/scheduler/planning/test_trigger_runs.py::"
            "test_a_request_that_waited_for_its_turn_counts_what_the_one_before_made"
        ],
    ),
]
