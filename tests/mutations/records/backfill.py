"""The next fire left out; past fires made up for."""

from tests.mutations.record import Edit, Mutation

SKIP = "tests/scheduler/planning/test_skip_next.py::"
BACK = "tests/scheduler/planning/test_backfill.py::"
SKIPPING = "scheduler/services/skip.py"
FILLING = "scheduler/services/backfill.py"

RECORDS = [
    Mutation(
        name="skip-next-not-what-is-claimed",
        mechanism="A claim that is first keeps its run; the fire after it is skipped.",
        file=SKIPPING,
        old="    return run_id if gone else None\n",
        new="    return run_id\n",
        red=[SKIP + "test_a_claim_that_is_first_keeps_its_run_and_the_fire_after_it_is_skipped"],
    ),
    Mutation(
        name="skip-next-before-it-is-planned",
        mechanism="A fire beyond the horizon gets a skipped run at once, so that no materializer makes it.",
        file=SKIPPING,
        old="    if run_id is None:\n",
        new="    if run_id is None and False:\n",
        red=[SKIP + "test_a_fire_beyond_the_horizon_is_skipped_before_it_is_planned_and_no_materializer_makes_it"],
    ),
    Mutation(
        name="skip-next-of-all-triggers",
        mechanism="The next fire is the earliest of all triggers, equal ones once.",
        file="scheduler/queries/job_fires.py",
        old="        yield from (fires[at] for at in sorted(fires))\n",
        new="        yield from fires.values()\n",
        red=[SKIP + "test_the_next_of_several_triggers_is_skipped_and_of_equal_fires_there_is_one"],
    ),
    Mutation(
        name="backfill-revives-only-the-skipped",
        mechanism="A run that has another verdict, or none, counts as already there.",
        edits=[
            Edit(FILLING, "verdict == Run.Verdict.SKIPPED and attempt == 0 for at", "verdict is not None for at"),
            Edit(
                FILLING,
                "scheduled_for__in=instants, verdict=Run.Verdict.SKIPPED, attempt=0",
                "scheduled_for__in=instants",
            ),
            Edit(FILLING, "pk__in=list(found), verdict=Run.Verdict.SKIPPED", "pk__in=list(found)"),
        ],
        red=[BACK + "test_fires_without_a_run_get_one_and_those_with_one_keep_it"],
    ),
    Mutation(
        name="backfill-dry-run",
        mechanism="A dry run does nothing.",
        file=FILLING,
        old="    if dry_run:\n",
        new="    if False:\n",
        red=[BACK + "test_a_dry_run_says_what_would_be_done_and_does_nothing"],
    ),
    Mutation(
        name="backfill-bounded",
        mechanism="A call makes at most 1,000 runs.",
        file=FILLING,
        old="    if len(fires) > MOST_FIRES:\n",
        new="    if len(fires) > 10 * MOST_FIRES:\n",
        red=[BACK + "test_a_thousand_fires_at_most"],
    ),
    Mutation(
        name="backfill-not-of-a-paused-job",
        mechanism="A paused job is refused: the end of its pause would skip what was made.",
        file=FILLING,
        old="    if job.paused_at is not None:\n",
        new="    if False:\n",
        red=[
            BACK + "test_a_paused_job_is_refused_and_a_foreign_one_is_none",
            BACK + "test_while_the_job_is_being_paused_it_is_one_or_the_other",
        ],
    ),
    Mutation(
        name="backfill-due-now",
        mechanism="What is made up for falls due now and does not go before what waits already.",
        file=FILLING,
        old="            available_at=now,\n",
        new="            available_at=found[run_id],\n",
        red=[BACK + "test_a_skipped_run_comes_back_as_itself_and_runs"],
    ),
    Mutation(
        name="backfill-admits",
        mechanism="Runs of a limited job that are made up for get the slots that there are.",
        file=FILLING,
        old="        settle_later([domain_of(job)], now)\n",
        new="        pass\n",
        red=[BACK + "test_runs_of_a_limited_job_wait_for_their_slots"],
    ),
]
