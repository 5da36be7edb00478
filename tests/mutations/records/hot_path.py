"""Claim, ack, losses, leases, logs, cancel: the fences and bounds of the hot path."""

from tests.mutations.record import Edit, Mutation

CLAIM = "tests/scheduler/conformance/test_claim.py::"
FINISH = "tests/scheduler/conformance/test_finish.py::"
RELEASE = "tests/scheduler/conformance/test_release.py::"
RENEW = "tests/scheduler/conformance/test_renew.py::"
LOG = "tests/scheduler/conformance/test_log.py::"
CANCEL = "tests/scheduler/conformance/test_cancel.py::"
RACES = "tests/scheduler/conformance/test_races.py::"
PLANS = "tests/scheduler/conformance/test_plans.py::"
TABLE = "tests/scheduler/conformance/test_transitions.py::"
RETRIES = "tests/scheduler/domain/test_retries.py::"

POSTGRESQL = "scheduler/sql/postgresql.py"
SQLITE = "scheduler/sql/sqlite.py"

RECORDS = [
    Mutation(
        name="claim-skips-locked-rows",
        mechanism="A claim passes over what another claim has locked; it does not wait for it.",
        file=POSTGRESQL,
        old="            LIMIT 1000\n            FOR UPDATE SKIP LOCKED\n",
        new="            LIMIT 1000\n            FOR UPDATE\n",
        red=[RACES + "test_what_one_claim_has_taken_another_passes_over"],
        database="postgresql",
    ),
    Mutation(
        name="claim-locks-what-it-takes",
        mechanism="Rows that a claim does not lock would be claimed twice.",
        file=POSTGRESQL,
        old="            LIMIT 1000\n            FOR UPDATE SKIP LOCKED\n",
        new="            LIMIT 1000\n",
        red=[RACES + "test_what_one_claim_has_taken_another_passes_over"],
        database="postgresql",
        quick=True,
    ),
    Mutation(
        name="claim-stops-at-the-last-seat",
        mechanism="A claim locks exactly as many rows as it takes.",
        file=POSTGRESQL,
        old="    LIMIT (SELECT count(*) FROM seats)\n",
        new="",
        red=[
            RACES + "test_a_claim_locks_no_more_than_it_takes",
            PLANS + "test_a_claim_reads_the_claimable_index_and_locks_only_what_it_takes",
        ],
        database="postgresql",
    ),
    Mutation(
        name="claim-for-current-instances",
        mechanism="A deposed instance gets no run.",
        edits=[
            Edit(POSTGRESQL, "    WHERE i.deposed_at IS NULL\n    ORDER BY i.id\n", "    ORDER BY i.id\n"),
            Edit(SQLITE, '"WHERE deposed_at IS NULL AND id IN ', '"WHERE id IN '),
        ],
        red=[CLAIM + "test_a_deposed_instance_gets_nothing"],
    ),
    Mutation(
        name="claim-shares-its-holders-row",
        mechanism="Claim and takeover of one instance wait for each other: no claim of a deposed one remains.",
        file=POSTGRESQL,
        old="    ORDER BY i.id\n    FOR SHARE OF i\n",
        new="    ORDER BY i.id\n",
        red=[
            RACES + "test_a_takeover_while_a_claim_is_under_way_finds_that_claim",
            RACES + "test_a_claim_while_its_holder_is_being_deposed_gets_nothing",
        ],
        database="postgresql",
    ),
    Mutation(
        name="claim-only-what-is-due",
        mechanism="No run is claimed before its instant.",
        edits=[
            Edit(POSTGRESQL, "AND e.available_at <= %s AND", "AND e.available_at >= %s - interval '1 year' AND"),
            Edit(SQLITE, "AND available_at <= %s AND", "AND available_at >= %s - 1 AND"),
        ],
        red=[CLAIM + "test_a_run_is_due_at_its_instant_and_not_a_microsecond_before"],
    ),
    Mutation(
        name="claim-only-what-is-ready",
        mechanism="Gated, held, claimed and stopping runs are not handed out.",
        edits=[
            Edit(POSTGRESQL, "WHERE e.state = 0 AND e.lane_id", "WHERE e.state IN (0, 1, 2) AND e.lane_id"),
            Edit(POSTGRESQL, "WHERE q.run_id = d.run_id AND q.state = 0\n", "WHERE q.run_id = d.run_id\n"),
            Edit(SQLITE, "WHERE state = 0 AND lane_id", "WHERE state IN (0, 1, 2) AND lane_id"),
            Edit(SQLITE, "WHERE q.run_id = d.run_id AND q.state = 0", "WHERE q.run_id = d.run_id"),
        ],
        red=[CLAIM + "test_a_gated_or_held_run_is_not_claimed"],
    ),
    Mutation(
        name="claim-never-a-listed-run",
        mechanism="A run that a poll lists is never in its answer.",
        edits=[
            Edit(POSTGRESQL, " AND e.run_id <> ALL (%s::uuid[])", " AND e.run_id <> ALL ((%s::uuid[])[1:0])"),
            Edit(SQLITE, " AND run_id NOT IN (SELECT value FROM json_each(%s))", " AND %s IS NOT NULL"),
        ],
        red=[
            CLAIM + "test_a_run_that_the_poll_lists_is_never_in_its_answer",
            CLAIM + "test_two_runners_never_get_a_run_that_each_of_them_lists",
        ],
    ),
    Mutation(
        name="claim-listed-runs-for-others",
        mechanism="A run that one poll lists goes to another poll of the same batch.",
        file="scheduler/services/claim.py",
        old="            if again - asks[place].listed:\n",
        new="            if False:\n",
        red=[CLAIM + "test_a_listed_run_goes_to_another_poll_of_the_same_batch"],
    ),
    Mutation(
        name="claim-deals-in-turn",
        mechanism="Polls that wait together share what is due.",
        edits=[
            Edit(POSTGRESQL, "row_number() OVER (ORDER BY turn, c.ask)", "row_number() OVER (ORDER BY c.ask, turn)"),
            Edit(SQLITE, "[(turn, ask, holder_id) for turn", "[(ask, ask, holder_id) for turn"),
        ],
        red=[CLAIM + "test_runs_are_dealt_out_in_turn_to_the_polls_that_wait_together"],
    ),
    Mutation(
        name="claim-order-of-ids",
        mechanism="Of runs due at one instant the smaller id goes first, on both databases.",
        edits=[
            Edit(
                POSTGRESQL, "            ORDER BY e.available_at, e.run_id\n", "            ORDER BY e.available_at\n"
            ),
            Edit(POSTGRESQL, "(ORDER BY place, available_at, run_id)", "(ORDER BY place, available_at, run_id DESC)"),
            Edit(SQLITE, "ORDER BY available_at, run_id\n", "ORDER BY available_at, run_id DESC\n"),
        ],
        red=[CLAIM + "test_the_order_is_lane_by_preference_then_due_time_then_id"],
    ),
    Mutation(
        name="claim-buries-what-is-used-up",
        mechanism="A due run without attempts left is buried and the claim goes on with the next one.",
        file="scheduler/services/claim.py",
        old="            buried[open_places[0]] += bury(used_up, now)\n",
        new="            return\n",
        red=[CLAIM + "test_a_due_run_whose_attempts_are_used_up_is_buried_and_the_next_one_claimed"],
    ),
    Mutation(
        name="claim-counts-the-attempt",
        mechanism="The attempt is counted at the claim: it is the number that fences what the holder says.",
        edits=[
            Edit(
                POSTGRESQL,
                "SET state = 3, attempt = q.attempt + 1,",
                "SET state = 3, attempt = GREATEST(q.attempt, 1),",
            ),
            Edit(SQLITE, "SET state = 3, attempt = q.attempt + 1, ", "SET state = 3, attempt = max(q.attempt, 1), "),
        ],
        red=[RELEASE + "test_a_run_that_kills_every_runner_starts_a_bounded_number_of_times"],
    ),
    Mutation(
        name="claim-index-has-the-order",
        mechanism="Many runs due at one instant are read in order from the index, not sorted at every claim.",
        edits=[
            Edit(
                "scheduler/models/queue.py",
                'fields=["lane", "available_at", "run"], condition=Q(state=0)',
                'fields=["lane", "available_at"], condition=Q(state=0)',
            ),
            Edit(
                "scheduler/migrations/0001_initial.py",
                "fields=['lane', 'available_at', 'run'], name='queue_entry_claimable'",
                "fields=['lane', 'available_at'], name='queue_entry_claimable'",
            ),
        ],
        red=["tests/schema/test_indexes.py::test_the_query_of_an_index_uses_it[queue_entry_claimable]"],
    ),
    Mutation(
        name="ack-attempt-fence",
        mechanism="An ack counts only for the attempt that it names.",
        edits=[
            Edit(
                POSTGRESQL,
                "WHERE q.state = 3 AND q.attempt = a.attempt AND r.runner_id",
                "WHERE q.state = 3 AND r.runner_id",
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
            FINISH + "test_the_last_attempt_that_times_out_is_dead_and_its_handler_winds_down",
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
                "    WHERE s.run_id = d.run_id AND j.id = d.job_id\n",
                "    WHERE false AND s.run_id = d.run_id AND j.id = d.job_id\n",
            ),
            Edit(SQLITE, "        if limited:\n", "        if False:\n"),
        ],
        red=[FINISH + "test_a_run_of_a_limited_job_gives_its_slots_back_whatever_became_of_it"],
    ),
    Mutation(
        name="unlimited-jobs-leave-slots-alone",
        mechanism="Runs of jobs without a limit never touch the slots.",
        edits=[
            Edit(POSTGRESQL, "        AND (j.max_concurrent IS NOT NULL OR j.concurrency_group_id IS NOT NULL)\n", ""),
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
        old="state = 3 AND deadline_at <= %s",
        new="state = 3 AND deadline_at < %s",
        red=[FINISH + "test_a_deadline_that_has_come_fails_the_attempt"],
    ),
    Mutation(
        name="timeout-waits-for-the-handler",
        mechanism="A run whose last attempt timed out keeps its slots until its handler is gone.",
        file="scheduler/services/finish.py",
        old="queue.begin_stopping(_fail(failures, now, rng))",
        new="queue.remove_entries(_fail(failures, now, rng))",
        red=[FINISH + "test_the_last_attempt_that_times_out_is_dead_and_its_handler_winds_down"],
    ),
    Mutation(
        name="release-attempt-fence",
        mechanism="A claim is released only with the attempt that was meant.",
        file="scheduler/services/release.py",
        old="if entry.state == QueueEntry.State.CLAIMED and entry.attempt == attempts[entry.run_id]",
        new="if entry.state == QueueEntry.State.CLAIMED",
        red=[RELEASE + "test_a_claim_with_another_attempt_is_not_released"],
    ),
    Mutation(
        name="losses-are-bounded",
        mechanism="Only max_losses losses raise the attempt cap.",
        file="scheduler/services/release.py",
        old="(1 if entry.losses < entry.max_losses else 0)",
        new="1",
        red=[RELEASE + "test_a_run_that_kills_every_runner_starts_a_bounded_number_of_times"],
        quick=True,
    ),
    Mutation(
        name="losses-cost-no-attempt",
        mechanism="A loss raises the attempt cap while max_losses allows.",
        file="scheduler/services/release.py",
        old="(1 if entry.losses < entry.max_losses else 0)",
        new="0",
        red=[RELEASE + "test_a_run_that_kills_every_runner_starts_a_bounded_number_of_times"],
    ),
    Mutation(
        name="last-loss-buries",
        mechanism="A run whose last attempt was lost is buried by the loss itself.",
        file="scheduler/services/release.py",
        old="    return len(bury(used_up, now))\n",
        new="    return 0\n",
        red=[RELEASE + "test_the_last_loss_buries_the_run_and_keeps_what_its_last_attempt_said"],
    ),
    Mutation(
        name="bury-only-what-is-used-up",
        mechanism="A run with attempts left is not buried.",
        file="scheduler/services/release.py",
        old="if entry.state in WAITING and entry.attempt >= entry.max_attempts",
        new="if entry.state in WAITING",
        red=[RELEASE + "test_a_run_with_attempts_left_is_not_buried"],
    ),
    Mutation(
        name="lease-ends-at-its-instant",
        mechanism="A lease that has not ended is not reaped; one that has is.",
        file="scheduler/sql/locks.py",
        old="lease_expires_at <= %s",
        new="lease_expires_at < %s",
        red=[RELEASE + "test_a_lease_ends_at_its_instant_and_not_a_microsecond_before"],
    ),
    Mutation(
        name="oldest-lease-first",
        mechanism="The reaper takes the oldest first, so that nothing waits for ever behind newer ones.",
        file="scheduler/sql/locks.py",
        old="ORDER BY lease_expires_at",
        new="ORDER BY lease_expires_at DESC",
        red=[RELEASE + "test_the_oldest_lease_goes_first_and_no_more_than_asked_for"],
    ),
    Mutation(
        name="reaper-leaves-what-is-locked",
        mechanism="The reaper does not wait for a claim whose ack is under way.",
        file=POSTGRESQL,
        old='SKIP_LOCKED = "FOR UPDATE SKIP LOCKED"',
        new='SKIP_LOCKED = "FOR UPDATE"',
        red=[RACES + "test_the_reaper_leaves_a_claim_alone_whose_ack_is_under_way"],
        database="postgresql",
    ),
    Mutation(
        name="wind-down-by-the-holder",
        mechanism="A poll winds down only what its own instance was stopping.",
        file="scheduler/services/release.py",
        old="if entry.state == QueueEntry.State.STOPPING and entry.holder_id == holder_id",
        new="if entry.state == QueueEntry.State.STOPPING",
        red=[RELEASE + "test_only_stopping_runs_of_the_instance_are_wound_down"],
    ),
    Mutation(
        name="renew-names-the-claim-it-read",
        mechanism="A renew extends the claim that was read, not one that began in between.",
        file="scheduler/services/renew.py",
        old="run_id=run_id, state=QueueEntry.State.CLAIMED, attempt=entry.attempt, holder_id=entry.holder_id\n",
        new="run_id=run_id\n",
        red=[RACES + "test_a_renew_that_comes_while_its_claim_is_reaped_revives_nothing"],
        database="postgresql",
    ),
    Mutation(
        name="renew-after-a-takeover",
        mechanism="After a takeover a renew without an attempt extends nothing: it may be the deposed process's.",
        file="scheduler/services/renew.py",
        old="if attempt is None and _was_taken_over(entry):",
        new="if False:",
        red=[RENEW + "test_after_a_takeover_a_renew_without_attempt_extends_nothing"],
    ),
    Mutation(
        name="renew-never-shortens",
        mechanism="A renew never brings a lease's end forward, whatever the clocks do.",
        edits=[
            Edit(
                "scheduler/services/renew.py",
                "max(entry.lease_expires_at, now + timedelta(seconds=entry.lease_seconds))",
                "now + timedelta(seconds=entry.lease_seconds)",
            ),
        ],
        red=[RENEW + "test_a_lease_is_never_shortened"],
    ),
    Mutation(
        name="renew-held-only-claimed",
        mechanism="A poll renews only what its instance has claimed; a stopping run's lease ends.",
        edits=[
            Edit(
                POSTGRESQL,
                "    WHERE q.state = 3 AND q.holder_id = a.holder_id\n",
                "    WHERE q.state IN (3, 4) AND q.holder_id = a.holder_id\n",
            ),
            Edit(
                POSTGRESQL,
                "WHERE q.run_id = h.run_id AND q.state = 3 AND q.holder_id = h.holder_id\nRETURNING",
                "WHERE q.run_id = h.run_id\nRETURNING",
            ),
            Edit(
                SQLITE,
                "WHERE q.state = 3 AND q.holder_id = a.holder_id",
                "WHERE q.state IN (3, 4) AND q.holder_id = a.holder_id",
            ),
            Edit(
                SQLITE,
                "WHERE q.run_id = d.run_id AND q.state = 3 AND q.holder_id",
                "WHERE q.run_id = d.run_id AND q.holder_id",
            ),
        ],
        red=[RENEW + "test_a_poll_renews_what_the_instance_holds_and_nothing_else"],
    ),
    Mutation(
        name="renew-held-by-its-holder",
        mechanism="A poll renews nothing that another instance holds.",
        edits=[
            Edit(POSTGRESQL, "    WHERE q.state = 3 AND q.holder_id = a.holder_id\n", "    WHERE q.state = 3\n"),
            Edit(SQLITE, "WHERE q.state = 3 AND q.holder_id = a.holder_id", "WHERE q.state = 3"),
        ],
        red=[RENEW + "test_a_poll_renews_what_the_instance_holds_and_nothing_else"],
    ),
    Mutation(
        name="poll-renews-in-order",
        mechanism="A poll locks what it renews in the order of run ids, as the acks do.",
        file=POSTGRESQL,
        old="= a.holder_id\n    ORDER BY q.run_id\n",
        new="= a.holder_id\n    ORDER BY q.run_id DESC\n",
        red=[RACES + "test_a_poll_locks_what_it_renews_in_the_same_order_as_the_acks"],
        database="postgresql",
    ),
    Mutation(
        name="log-client-fence",
        mechanism="Only the API client of the holder writes to a run's log.",
        file="scheduler/services/log.py",
        old="if entry.holder_id is None or entry.holder.runner.client_id != client_id:",
        new="if entry.holder_id is None:",
        red=[LOG + "test_only_the_client_of_the_holder_may_write"],
    ),
    Mutation(
        name="log-claim-fence",
        mechanism="Lines that come after the ack are refused.",
        file="scheduler/services/log.py",
        old="    if row is None:\n        raise _refusal(entry.run_id)\n    return row[0] - more\n",
        new="    return row[0] - more if row else 0\n",
        red=[RACES + "test_lines_that_come_before_the_ack_are_kept_and_lines_after_it_refused"],
        database="postgresql",
    ),
    Mutation(
        name="log-is-bounded",
        mechanism="A run's log ends at 10 MiB and says so once.",
        file="scheduler/services/log.py",
        old="            if used <= MOST_BYTES:\n",
        new="            if True:\n",
        red=[LOG + "test_a_full_log_says_so_once_and_keeps_no_more"],
    ),
    Mutation(
        name="log-says-once-that-it-is-full",
        mechanism="One line says that the log is full, not one for every post.",
        file="scheduler/services/log.py",
        old="if said_before <= MOST_BYTES < used:",
        new="if MOST_BYTES < used:",
        red=[LOG + "test_a_full_log_says_so_once_and_keeps_no_more"],
    ),
    Mutation(
        name="cancel-of-what-is-over",
        mechanism="A run with another verdict cannot be cancelled.",
        file="scheduler/services/cancel.py",
        old="    if run.verdict not in (None, Run.Verdict.CANCELLED):\n",
        new="    if False:\n",
        red=[CANCEL + "test_what_is_over_is_a_conflict"],
    ),
    Mutation(
        name="cancel-waits-for-the-handler",
        mechanism="A claimed run that is cancelled keeps its place until its handler is gone.",
        file="scheduler/services/cancel.py",
        old="        queue.begin_stopping(held)\n",
        new="        queue.remove_entries(held)\n",
        red=[CANCEL + "test_a_claimed_run_is_cancelled_and_its_handler_winds_down"],
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
    Mutation(
        name="backoff-is-capped",
        mechanism="No back-off is longer than its cap with its jitter.",
        file="scheduler/domain/retries.py",
        old="wait = min(wait, cap) * (1.0",
        new="wait = wait * (1.0",
        red=[
            RETRIES + "test_exponential_doubles",
            RETRIES + "test_a_wait_is_more_than_nothing_and_at_most_the_cap_with_its_jitter",
        ],
    ),
    Mutation(
        name="backoff-does-not-overflow",
        mechanism="The billionth attempt and absurd settings give a wait, not an error.",
        file="scheduler/domain/retries.py",
        old="2.0 ** min(before, _MOST_DOUBLINGS)",
        new="2.0**before",
        red=[RETRIES + "test_exponential_doubles"],
    ),
    Mutation(
        name="backoff-is-never-zero",
        mechanism="A wait is at least a microsecond.",
        file="scheduler/domain/retries.py",
        old="max(1, math.floor(",
        new="max(0, math.floor(",
        red=[RETRIES + "test_absurd_values_give_a_wait_that_can_be_added_to_an_instant"],
    ),
    Mutation(
        name="schema-one-run-per-occurrence",
        mechanism="The database lets one run of an occurrence in, however many schedulers tick.",
        edits=[
            Edit(
                "scheduler/models/run.py",
                'fields=["job", "scheduled_for"],\n                condition=Q(kind="scheduled"),',
                'fields=["job", "scheduled_for", "id"],\n                condition=Q(kind="scheduled"),',
            ),
            Edit(
                "scheduler/migrations/0001_initial.py",
                "fields=('job', 'scheduled_for'), name='run_one_per_occurrence'",
                "fields=('job', 'scheduled_for', 'id'), name='run_one_per_occurrence'",
            ),
        ],
        red=["tests/schema/test_constraints.py::test_a_constraint_refuses"],
    ),
    Mutation(
        name="schema-verdict-check-knows-null",
        mechanism="The check of a run's verdict is false, not unknown, where a column is null.",
        edits=[
            Edit("scheduler/models/run.py", "                    problem__isnull=False,\n", ""),
            Edit(
                "scheduler/migrations/0001_initial.py",
                "('problem', models.F('verdict')), ('problem__isnull', False), ",
                "('problem', models.F('verdict')), ",
            ),
        ],
        red=["tests/schema/test_constraints.py::test_a_constraint_refuses"],
    ),
]
