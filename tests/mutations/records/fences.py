"""What ends a claim, what it leaves behind, and what a run goes on with: mechanisms of fences, losses and keys."""

from tests.mutations.record import Mutation

RELEASE = "tests/scheduler/conformance/test_release.py::"
FINISH = "tests/scheduler/conformance/test_finish.py::"
TRIGGER_RUNS = "tests/scheduler/planning/test_trigger_runs.py::"

RECORDS = [
    Mutation(
        name="cancel-tells-the-holder",
        mechanism="The cancel of a running run ends the held poll of its holder.",
        file="scheduler/services/cancel.py",
        old="        tell({entry.holder_id for entry in held})\n",
        new="",
        red=["tests/scheduler/edge/test_poll.py::test_a_new_cancel_ends_a_held_poll_once"],
        database="postgresql",  # on SQLite its data_version tells, a moment later
    ),
    Mutation(
        name="cancel-all-or-none",
        mechanism="Of runs that are cancelled together all are, or none.",
        file="scheduler/services/cancel.py",
        old="            _check(run_id, runs.get(run_id))\n",
        new="            pass\n",
        red=["tests/scheduler/conformance/test_cancel.py::test_all_or_none"],
    ),
    Mutation(
        name="unheard-answers-are-no-loss",
        mechanism="A claim whose answer nobody was there to hear costs no attempt and no loss.",
        file="scheduler/services/release.py",
        old="            if cause is LossCause.DISCONNECTED:\n",
        new="            if False:\n",
        red=[RELEASE + "test_an_answer_that_nobody_was_there_to_hear_leaves_no_trace"],
    ),
    Mutation(
        name="losses-are-told",
        mechanism="Each loss is an event in the audit.",
        file="scheduler/services/release.py",
        old="            for entry in held\n        ),\n        now,\n    )\n",
        new="            for entry in held[:0]\n        ),\n        now,\n    )\n",
        red=[RELEASE + "test_a_lost_claim_is_counted_and_goes_back_at_once"],
    ),
    Mutation(
        name="burials-keep-the-last-word",
        mechanism="A buried run's letter says what its last attempt said.",
        file="scheduler/services/release.py",
        old='    said = next((row.error for row in attempts if row.error), "")\n',
        new='    said = ""\n',
        red=[RELEASE + "test_the_last_loss_buries_the_run_and_keeps_what_its_last_attempt_said"],
    ),
    Mutation(
        name="lost-runs-are-gated-again",
        mechanism="A run of a limited job waits to be admitted again, however its attempt ended.",
        file="scheduler/services/queue.py",
        old="resting_state(is_limited=is_limited(entry.job), ",
        new="resting_state(is_limited=False, ",
        red=[
            RELEASE + "test_a_lost_run_of_a_limited_job_waits_to_be_admitted_again",
            "tests/scheduler/budgets/test_admit.py::"
            "test_a_retry_gives_its_slot_up_while_it_backs_off_and_is_admitted_again",
        ],
    ),
    Mutation(
        name="retries-of-a-paused-job-are-held",
        mechanism="The next attempt of a paused job's scheduled run is held.",
        file="scheduler/services/queue.py",
        old="    is_held = entry.job.paused_at is not None and entry.run.kind == Run.Kind.SCHEDULED\n",
        new="    is_held = False\n",
        red=[FINISH + "test_the_retry_of_a_paused_job_is_held_unless_somebody_triggered_it"],
    ),
    Mutation(
        name="retries-of-manual-runs-are-not-held",
        mechanism="A pause does not hold the next attempt of a run that somebody triggered.",
        file="scheduler/services/queue.py",
        old=" is not None and entry.run.kind == Run.Kind.SCHEDULED\n",
        new=" is not None\n",
        red=[FINISH + "test_the_retry_of_a_paused_job_is_held_unless_somebody_triggered_it"],
    ),
    Mutation(
        name="letters-can-be-off",
        mechanism="Where dead letters are off a used-up run is failed and has none.",
        file="scheduler/services/queue.py",
        old="dead_letters=job.dead_letter_enabled and job.deleted_at is None",
        new="dead_letters=job.deleted_at is None",
        red=[FINISH + "test_without_dead_letters_the_run_is_failed"],
    ),
    Mutation(
        name="letters-for-ever",
        mechanism="A retention of nought keeps letters for ever.",
        file="scheduler/services/queue.py",
        old="expires_at=now + timedelta(seconds=kept) if kept > 0 else None",
        new="expires_at=now + timedelta(seconds=kept)",
        red=[FINISH + "test_letters_that_are_kept_for_ever_do_not_expire"],
    ),
    Mutation(
        name="retry-backs-off",
        mechanism="A failed run waits for its back-off.",
        file="scheduler/services/finish.py",
        old="                available_at=now + _wait(failure.entry, rng),\n",
        new="                available_at=now,\n",
        red=[FINISH + "test_a_failure_with_attempts_left_waits_for_its_next_one"],
    ),
    Mutation(
        name="key-of-a-live-run",
        mechanism="A key stands for its run while that is live, however long that takes.",
        file="scheduler/services/trigger_runs.py",
        old="(kept.run.verdict is not None and kept.expires_at <= now)",
        new="kept.expires_at <= now",
        red=[TRIGGER_RUNS + "test_a_key_stands_for_one_run_while_it_is_live_and_for_ten_minutes_after_its_creation"],
    ),
    Mutation(
        name="key-for-ten-minutes",
        mechanism="A key stands for its run for ten minutes, though that has ended.",
        file="scheduler/services/trigger_runs.py",
        old="(kept.run.verdict is not None and kept.expires_at <= now)",
        new="kept.run.verdict is not None",
        red=[TRIGGER_RUNS + "test_a_key_stands_for_one_run_while_it_is_live_and_for_ten_minutes_after_its_creation"],
    ),
    Mutation(
        name="group-in-use-stays",
        mechanism="A group that a job or an unfinished run needs cannot be deleted.",
        file="scheduler/services/groups.py",
        old="        if jobs.filter(deleted_at__isnull=True).exists() or ",
        new="        if False and ",
        red=[
            "tests/scheduler/budgets/test_edits.py::"
            "test_groups_are_made_changed_and_deleted_only_where_nobody_needs_them"
        ],
    ),
]
