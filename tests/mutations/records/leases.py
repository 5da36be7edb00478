"""Losses, leases, logs, cancels and back-off: fences and bounds of what a holder has."""

from tests.mutations.record import Edit, Mutation

RELEASE = "tests/scheduler/conformance/test_release.py::"
RENEW = "tests/scheduler/conformance/test_renew.py::"
LOG = "tests/scheduler/conformance/test_log.py::"
CANCEL = "tests/scheduler/conformance/test_cancel.py::"
RACES = "tests/scheduler/conformance/test_races.py::"
RETRIES = "tests/scheduler/domain/test_retries.py::"

POSTGRESQL = "scheduler/sql/postgresql.py"
SQLITE = "scheduler/sql/sqlite.py"

RECORDS = [
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
        old="{column} <= %s",
        new="{column} < %s",
        red=[RELEASE + "test_a_lease_ends_at_its_instant_and_not_a_microsecond_before"],
    ),
    Mutation(
        name="oldest-lease-first",
        mechanism="The reaper takes the oldest first, so that nothing waits for ever behind newer ones.",
        file="scheduler/sql/locks.py",
        old="ORDER BY {column}",
        new="ORDER BY {column} DESC",
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
                "    WHERE q.state + 0 = 3 AND q.holder_id = a.holder_id\n",
                "    WHERE q.state IN (3, 4) AND q.holder_id = a.holder_id\n",
            ),
            Edit(
                POSTGRESQL,
                "WHERE q.run_id = h.run_id AND q.state + 0 = 3 AND q.holder_id = h.holder_id\nRETURNING",
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
            Edit(POSTGRESQL, "    WHERE q.state + 0 = 3 AND q.holder_id = a.holder_id\n", "    WHERE q.state = 3\n"),
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
        new="        queue.remove_entries(held, now)\n",
        red=[CANCEL + "test_a_claimed_run_is_cancelled_and_its_handler_winds_down"],
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
]
