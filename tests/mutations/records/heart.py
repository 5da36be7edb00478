"""Guards of claims, leases, verdicts and keys whose removal no test saw."""

from __future__ import annotations

from tests.mutations.record import Edit, Mutation

CONFORMANCE = "tests/scheduler/conformance/"
GUARDS = CONFORMANCE + "test_guards.py::test_a_write_that_finds_something_else_than_was_locked_changes_nothing"
BOUNDS = CONFORMANCE + "test_guards.py::test_no_transaction_writes_more_rows_than_one_may"
FINISH = CONFORMANCE + "test_finish.py::"
IDENTITY = "tests/scheduler/edge/test_identity.py::"
QUEUE = "scheduler/services/queue.py"
POLL = "scheduler/services/poll.py"


def _one(name: str, mechanism: str, file: str, old: str, new: str, red: str) -> Mutation:
    return Mutation(name=name, mechanism=mechanism, file=file, old=old, new=new, red=[red])


RECORDS = [
    _one(
        "guarded-writes-are-counted",
        "A write of the queue that meets another number of rows than were locked undoes its transaction.",
        QUEUE,
        "    if changed != expected:\n",
        "    if False:\n",
        GUARDS,
    ),
    _one(
        "rest-names-the-state",
        "Only what is claimed is sent back to wait.",
        QUEUE,
        "AND q.attempt = r.attempt AND q.state = 3 RETURNING",
        "AND q.attempt = r.attempt RETURNING",
        GUARDS + "[rest of what stops]",
    ),
    _one(
        "rest-names-the-attempt",
        "Only the attempt that was read is sent back to wait.",
        QUEUE,
        "q.run_id = r.key AND q.attempt = r.attempt AND",
        "q.run_id = r.key AND",
        GUARDS + "[rest of another attempt]",
    ),
    _one(
        "ends-name-the-state",
        "An entry leaves the queue in the state in which it was read.",
        QUEUE,
        "filter(run_id__in=run_ids, state=state).delete()",
        "filter(run_id__in=run_ids).delete()",
        GUARDS + "[end of what stops]",
    ),
    _one(
        "stops-name-the-state",
        "Only what is claimed begins to stop.",
        QUEUE,
        "filter(run_id__in=run_ids, state=QueueEntry.State.CLAIMED).update(\n",
        "filter(run_id__in=run_ids).update(\n",
        GUARDS + "[stop of what stops]",
    ),
    _one(
        "a-verdict-is-written-once",
        "A run that has a verdict gets no other one.",
        QUEUE,
        "WHERE r.id = e.key AND r.verdict IS NULL RETURNING",
        "WHERE r.id = e.key RETURNING",
        GUARDS + "[second verdict]",
    ),
    _one(
        "acks-are-bounded-by-their-rows",
        "The acks of one transaction write no more rows than one may.",
        "scheduler/services/finish.py",
        "ACKS_PER_TRANSACTION = 150",
        "ACKS_PER_TRANSACTION = 500",
        BOUNDS,
    ),
    _one(
        "losses-are-bounded-by-their-rows",
        "The losses of one transaction write no more rows than one may.",
        "scheduler/services/release.py",
        "CLAIMS_PER_TRANSACTION = 100",
        "CLAIMS_PER_TRANSACTION = 500",
        BOUNDS,
    ),
    _one(
        "cancelled-is-not-failed",
        "A run that somebody cancels is no failure: nobody is told, nothing counts it.",
        QUEUE,
        "if ending.verdict in (State.FAILED, State.DEAD)]",
        "]",
        "tests/scheduler/alerts/test_causes.py::test_a_run_that_somebody_cancels_has_not_failed",
    ),
    _one(
        "no-attempt-lasts-less-than-nothing",
        "Where the clock went back an attempt that fails has lasted for nothing.",
        QUEUE,
        "return max(0, (now - claimed_at) // timedelta(milliseconds=1))",
        "return (now - claimed_at) // timedelta(milliseconds=1)",
        FINISH + "test_a_clock_that_went_back_makes_no_negative_duration",
    ),
    _one(
        "a-measured-nought-is-measured",
        "A runner that measured nothing at all for a failure is believed.",
        "scheduler/services/finish.py",
        "ack.duration_ms if ack.duration_ms is not None else",
        "ack.duration_ms or",
        FINISH + "test_a_failure_with_attempts_left_waits_for_its_next_one",
    ),
    _one(
        "passed-over-ends-with-the-claim",
        "A run that was passed over and then claimed waits for its next attempt as others do.",
        QUEUE,
        "passed_over_at = NULL, ",
        "",
        FINISH + "test_a_failure_with_attempts_left_waits_for_its_next_one",
    ),
    _one(
        "what-was-asked-for-waits-since-then",
        "A run that somebody asked for is no fire, also after a claim of which nobody heard.",
        QUEUE,
        '"waits_since = COALESCE(q.waits_since, "',
        '"waits_since = COALESCE(NULL, "',
        CONFORMANCE + "test_release.py::test_an_answer_that_nobody_was_there_to_hear_leaves_no_trace[asked for]",
    ),
    _one(
        "burials-say-what-was-used-up",
        "A run that is buried and was never lost has used up its retries.",
        "scheduler/services/release.py",
        "reason=LOSSES_EXHAUSTED if is_lost else RETRIES_EXHAUSTED",
        "reason=LOSSES_EXHAUSTED",
        CONFORMANCE + "test_claim.py::test_a_due_run_whose_attempts_are_used_up_is_buried_and_the_next_one_claimed",
    ),
    _one(
        "losses-tell-the-holder",
        "The runner whose claim is lost is told at once, also while its poll is held.",
        "scheduler/services/release.py",
        "    tell({entry.holder_id for entry in held})\n",
        "",
        "tests/scheduler/planning/test_wakes_of_edits.py"
        "::test_a_runner_whose_attempt_is_over_is_told_though_it_says_nothing[lost]",
    ),
    _one(
        "anonymous-leases-run-on",
        "A poll renews what it lists alone: what another anonymous process had, which is dead, is reaped.",
        POLL,
        "                if run_id in polls[place][0].listed\n",
        "",
        IDENTITY + "test_the_lease_of_what_an_anonymous_process_does_not_list_runs_on",
    ),
    _one(
        "polls-let-in-together-keep-their-own",
        "Of polls that are let in together only the holder of a run keeps it; another that lists it is told to stop.",
        POLL,
        " for renewed_holder, run_id in renewed if renewed_holder == holder_id}",
        " for renewed_holder, run_id in renewed}",
        IDENTITY + "test_of_polls_that_are_let_in_together_the_one_that_has_not_a_run_is_told_so",
    ),
    _one(
        "late-look-finds-the-deposed",
        "Who was let in without a look and was deposed by another server needs one.",
        POLL,
        "RunnerInstance.objects.filter(pk__in=list(polls), deposed_at__isnull=True)",
        "RunnerInstance.objects.filter(pk__in=list(polls))",
        "tests/scheduler/edge/test_drain.py::test_who_was_let_in_without_a_look_and_is_drained_or_deposed_needs_one",
    ),
    _one(
        "replay-keeps-the-occurrence",
        "A replay keeps the instant of which the fire was an occurrence.",
        "scheduler/services/replays.py",
        "        occurrence_at=original.occurrence_at,\n",
        "",
        "tests/scheduler/planning/test_letters.py"
        "::test_a_replay_is_a_new_run_of_the_same_instant_with_fresh_attempts_and_what_the_run_had_of_its_own",
    ),
    _one(
        "letters-edited-metadata-is-told-without-ours",
        "The audit of an edit of metadata names no key that is Croniq's.",
        "scheduler/services/letters.py",
        "{*own, *public_metadata(original.metadata)}",
        "{*own, *original.metadata}",
        "tests/scheduler/dashboard/test_letters.py::test_edited_metadata_takes_the_place_of_the_runs_own",
    ),
    _one(
        "key-of-a-coalesced-request",
        "A key stands for the run that its request coalesced with, also when that is over.",
        "scheduler/services/trigger_runs.py",
        "                _keep_key(job, wish.key, coalesced, now)\n",
        "                pass\n",
        "tests/scheduler/planning/test_trigger_runs.py::test_a_key_stands_for_the_run_that_its_request_coalesced_with",
    ),
    _one(
        "cancel-reason-is-bounded",
        "A reason that is too long is refused, whoever cancels, and not cut.",
        "scheduler/services/cancel.py",
        '    reason = text_of("reason", reason, most=255)\n',
        "",
        "tests/scheduler/test_admin_actions.py::test_runs_are_replayed_once_and_cancelled",
    ),
    _one(
        "slots-are-for-whom-they-were-taken",
        "Slots that were taken for a run that waits for them no more are undone with their transaction.",
        "scheduler/services/admit.py",
        "    if admitted != len(chosen):\n",
        "    if False:\n",
        GUARDS + "[slots for what stops]",
    ),
    _one(
        "one-call-admits-about-its-limit",
        "A poll that admits what is due does not admit all there is of every domain.",
        "scheduler/services/admit.py",
        "        while admitted < limit:\n",
        "        while True:\n",
        "tests/scheduler/budgets/test_admit.py::test_one_call_admits_about_as_many_as_it_is_asked_to",
    ),
    _one(
        "skipped-fires-are-told-to-their-tenant",
        "The audit of a fire that is skipped is that of the job's tenant.",
        "scheduler/services/admit.py",
        "                tenant=job_of[run_id].tenant,\n",
        "",
        "tests/scheduler/budgets/test_policies.py::test_a_minutely_job_that_needs_nine_and_a_half_minutes",
    ),
    _one(
        "full-queues-skip-nothing-that-was-tried",
        "A run that was tried waits for its next attempt, however full the queue of its job is.",
        "scheduler/services/waiting.py",
        "                    attempt=0,\n",
        "",
        "tests/scheduler/budgets/test_policies.py"
        "::test_of_an_unlimited_job_too_but_nothing_that_was_caught_up_or_triggered_or_tried",
    ),
    _one(
        "full-queues-skip-fires-alone",
        "A run that somebody asked for is not skipped, however full the queue of its job is.",
        "scheduler/services/waiting.py",
        "                    run__kind=Run.Kind.SCHEDULED,\n",
        "",
        "tests/scheduler/budgets/test_policies.py"
        "::test_of_an_unlimited_job_too_but_nothing_that_was_caught_up_or_triggered_or_tried",
    ),
    _one(
        "slots-of-what-is-gated-are-strays",
        "A slot of a run that waits for slots is handed on as one that nobody uses.",
        "scheduler/services/waiting.py",
        " | Q(run__entry__state__in=[State.GATED, State.HELD])",
        "",
        "tests/scheduler/budgets/test_admit.py::test_a_slot_that_nobody_uses_is_found_and_handed_on[is gated]",
    ),
    _one(
        "what-has-slots-is-no-stray",
        "What was admitted is not sent back to wait by the sweep that gates what has no slots.",
        "scheduler/services/waiting.py",
        '.filter(~Exists(Slot.objects.filter(run=OuterRef("run_id"))), state=State.READY)',
        ".filter(state=State.READY)",
        "tests/scheduler/budgets/test_admit.py"
        "::test_runs_that_were_claimable_when_tenants_were_first_limited_wait_for_slots",
    ),
    Mutation(
        name="a-success-writes-no-second-verdict",
        mechanism="A run that has a verdict is not completed.",
        edits=[
            Edit(
                "scheduler/sql/postgresql.py",
                "    WHERE r.id = d.run_id AND r.verdict IS NULL\n",
                "    WHERE r.id = d.run_id\n",
            ),
            Edit("scheduler/sql/sqlite.py", 'WHERE r.id = d.run_id AND r.verdict IS NULL",', 'WHERE r.id = d.run_id",'),
        ],
        red=[CONFORMANCE + "test_guards.py::test_a_success_writes_no_second_verdict"],
    ),
    _one(
        "what-stops-has-no-deadline",
        "A run that winds down does not time out once more.",
        "scheduler/sql/locks.py",
        '_locked("state = 3", "deadline_at"',
        '_locked("state IN (3, 4)", "deadline_at"',
        CONFORMANCE + "test_timeouts.py::test_what_stops_already_has_no_deadline",
    ),
    _one(
        "drained-runners-have-nothing-for-new-jobs",
        "Who saves a job is warned of what drained runners alone have.",
        "scheduler/queries/runners.py",
        "Runner.objects.filter(serves, last_poll_at__gte=since, drained_at__isnull=True)",
        "Runner.objects.filter(serves, last_poll_at__gte=since)",
        "tests/scheduler/api/test_jobs.py::test_a_requirement_that_no_live_runner_meets_is_warned_of",
    ),
    _one(
        "what-waited-before-the-tenants-limit-waits-on",
        "A run that was due when tenants were first limited is skipped by no rule.",
        "scheduler/services/waiting.py",
        "        gated.filter(run_id__in=due).update(waits_since=now, state=State.GATED)\n",
        "",
        "tests/scheduler/budgets/test_admit.py"
        "::test_runs_that_were_claimable_when_tenants_were_first_limited_wait_for_slots",
    ),
    _one(
        "the-end-of-a-pause-counts-what-it-skipped",
        "The audit of the end of a pause counts what was skipped, not what was tried before it.",
        "scheduler/services/pause.py",
        "held.filter(attempt=0, run__scheduled_for__lte=now)",
        "held.filter(run__scheduled_for__lte=now)",
        "tests/scheduler/planning/test_pause.py::test_a_run_that_was_tried_before_the_pause_goes_on_after_it",
    ),
    _one(
        "listed-runs-that-back-off-are-not-due",
        "A poll that lists a run which backs off is held, and not answered again and again.",
        "scheduler/queries/holders.py",
        "filter(state=QueueEntry.State.READY, available_at__lte=now)",
        "filter(state=QueueEntry.State.READY)",
        CONFORMANCE + "test_many_listed.py::test_of_the_listed_runs_those_are_due_that_anybody_could_claim_now",
    ),
    Mutation(
        name="takeovers-wait-for-whoever-drains",
        mechanism="A takeover reads the runner when it has its row: a drain under way is the new process's too.",
        file="scheduler/services/identity.py",
        old="Runner.objects.select_for_update().filter(runner_id=request.runner_id)",
        new="Runner.objects.filter(runner_id=request.runner_id)",
        red=[
            "tests/scheduler/edge/test_drain.py"
            "::test_a_takeover_that_waited_for_whoever_drains_the_runner_has_read_it_afterwards"
        ],
        database="postgresql",
    ),
    Mutation(
        name="a-claim-that-was-first-outlives-the-queue",
        mechanism="A run that is claimed while its time in the queue is found to be over is not cancelled.",
        file="scheduler/services/waiting.py",
        old="            if entry.state in (State.READY, State.GATED)\n            and entry.job",
        new="            if entry.job",
        red=["tests/scheduler/budgets/test_races.py::test_a_claim_that_was_first_keeps_its_run_from_the_queues_time"],
        database="postgresql",
    ),
]
