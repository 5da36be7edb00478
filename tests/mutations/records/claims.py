"""Claims: who gets what, in which order, and what a claim costs."""

from tests.mutations.record import Edit, Mutation

CLAIM = "tests/scheduler/conformance/test_claim.py::"
RELEASE = "tests/scheduler/conformance/test_release.py::"
RACES = "tests/scheduler/conformance/test_races.py::"
PLANS = "tests/scheduler/conformance/test_plans.py::"
HISTORY = "tests/scheduler/conformance/test_history.py::test_a_run_costs_the_same_after_a_long_history"
LOW_WATER = "tests/scheduler/conformance/test_low_water.py::"
PREPARED = "tests/scheduler/conformance/test_prepared.py::"

POSTGRESQL = "scheduler/sql/postgresql.py"
SQLITE = "scheduler/sql/sqlite.py"
LOW_WATER_FILE = "scheduler/sql/low_water.py"
PREPARED_FILE = "scheduler/sql/prepared.py"

RECORDS = [
    Mutation(
        name="claim-skips-locked-rows",
        mechanism="A claim passes over what another claim has locked; it does not wait for it.",
        file=POSTGRESQL,
        old="            LIMIT 2 * (SELECT count(*) FROM seats)\n            FOR UPDATE SKIP LOCKED\n",
        new="            LIMIT 2 * (SELECT count(*) FROM seats)\n            FOR UPDATE\n",
        red=[RACES + "test_what_one_claim_has_taken_another_passes_over"],
        database="postgresql",
    ),
    Mutation(
        name="claim-locks-what-it-takes",
        mechanism="Rows that a claim does not lock would be claimed twice.",
        file=POSTGRESQL,
        old="            LIMIT 2 * (SELECT count(*) FROM seats)\n            FOR UPDATE SKIP LOCKED\n",
        new="            LIMIT 2 * (SELECT count(*) FROM seats)\n",
        red=[RACES + "test_what_one_claim_has_taken_another_passes_over"],
        database="postgresql",
        quick=True,
    ),
    Mutation(
        name="claim-stops-at-the-last-seat",
        mechanism="A claim locks exactly as many rows as it takes.",
        file=POSTGRESQL,
        old="    ) q\n    LIMIT (SELECT count(*) FROM seats)\n",
        new="    ) q\n",
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
            Edit(POSTGRESQL, "    WHERE i.deposed_at IS NULL AND NOT i.is_drained", "    WHERE NOT i.is_drained"),
            Edit(SQLITE, '"WHERE deposed_at IS NULL AND NOT is_drained', '"WHERE NOT is_drained'),
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
            Edit(
                POSTGRESQL,
                "AND d.available_at <= l.due_at AND",
                "AND d.available_at >= l.due_at - interval '1 year' AND",
            ),
            Edit(
                POSTGRESQL,
                "AND e.available_at <= l.due_at AND",
                "AND e.available_at >= l.due_at - interval '1 year' AND",
            ),
            Edit(SQLITE, "AND available_at <= %s AND", "AND available_at >= %s - 1 AND"),
        ],
        red=[CLAIM + "test_a_run_is_due_at_its_instant_and_not_a_microsecond_before"],
    ),
    Mutation(
        name="claim-only-what-is-ready",
        mechanism="Gated, held, claimed and stopping runs are not handed out.",
        edits=[
            Edit(POSTGRESQL, "WHERE d.state = 0 AND d.lane_id", "WHERE d.state IN (0, 1, 2) AND d.lane_id"),
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
            Edit(POSTGRESQL, "turn, place, available_at, run_id)", "turn, place, available_at, run_id DESC)"),
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
        name="hot-statements-are-prepared",
        mechanism="A hot statement is parsed and planned once a connection.",
        file=PREPARED_FILE,
        old="            raw.prepare_threshold = 0  #",
        new="            #",
        red=[PREPARED + "test_claims_and_acks_are_planned_once_for_any_number_of_runs"],
        database="postgresql",
    ),
    Mutation(
        name="hot-plans-are-generic",
        mechanism="One plan serves any number of rows; it is not made anew for calls that bring few.",
        file=PREPARED_FILE,
        old='"SET plan_cache_mode = force_generic_plan; DISCARD PLANS"',
        new='"DISCARD PLANS"',
        red=[PREPARED + "test_claims_and_acks_are_planned_once_for_any_number_of_runs"],
        database="postgresql",
    ),
    Mutation(
        name="hot-plans-are-looked-at-again",
        mechanism="A plan that was made for an empty queue is not kept when it has filled.",
        file=PREPARED_FILE,
        old='"SET plan_cache_mode = force_generic_plan; DISCARD PLANS"',
        new='"SET plan_cache_mode = force_generic_plan"',
        red=[PREPARED + "test_a_plan_of_an_empty_queue_is_not_kept_when_it_has_filled"],
        database="postgresql",
    ),
    Mutation(
        name="hot-statements-stand-alone",
        mechanism="On PostgreSQL a claim and an ack are one journey each: no transaction is opened around them.",
        file="scheduler/sql/__init__.py",
        old="    if is_postgresql():\n        yield\n",
        new="    if False:\n        yield\n",
        red=[PREPARED + "test_a_claim_and_its_acks_are_one_journey_each"],
        database="postgresql",
    ),
    Mutation(
        name="claim-tells-what-it-committed",
        mechanism="What a claim has committed is told although a later statement of it failed.",
        file="scheduler/services/claim.py",
        old="            kept = taken.outcomes() if stands_for_itself and any(taken.claimed) else []\n",
        new="            kept = []\n",
        red=[PREPARED + "test_what_was_claimed_is_told_although_the_burying_that_followed_failed"],
        database="postgresql",
    ),
    Mutation(
        name="claim-reads-lanes-in-order",
        mechanism="A lane with some hundreds due is read in its order, not sorted for every claim.",
        file=POSTGRESQL,
        old="            LIMIT 2 * (SELECT count(*) FROM seats)\n            FOR UPDATE SKIP LOCKED\n",
        new="            LIMIT 1000\n            FOR UPDATE SKIP LOCKED\n",
        red=[PREPARED + "test_lanes_of_some_hundreds_are_read_in_their_order_and_never_sorted"],
        database="postgresql",
    ),
    Mutation(
        name="ack-finds-entries-by-key",
        mechanism="An ack finds its entry by its key, not in a list of all claims.",
        file=POSTGRESQL,
        old="    WHERE q.run_id = h.run_id AND q.state + 0 = 3 AND q.attempt = h.attempt",
        new="    WHERE q.run_id = h.run_id AND q.state = 3 AND q.attempt = h.attempt",
        red=[PREPARED + "test_an_ack_finds_its_entry_by_its_key_however_few_are_believed_to_be_claimed"],
        database="postgresql",
    ),
    Mutation(
        name="slots-are-freed-where-they-are-handed-on",
        mechanism="An ack that stands for itself leaves runs with slots to the transaction that hands the slots on.",
        file=POSTGRESQL,
        old="        AND (%s::boolean OR NOT h.is_limited)\n",
        new="        AND (%s::boolean OR true)\n",
        red=[PREPARED + "test_a_run_with_slots_is_not_closed_where_they_could_not_be_handed_on"],
        database="postgresql",
    ),
    Mutation(
        name="a-run-costs-the-same-after-a-long-history",
        mechanism="Closing a run writes no index of the history: its bytes of WAL do not grow with it.",
        file=POSTGRESQL,
        old="    SET verdict = 'completed', attempt = d.attempt,",
        new="    SET verdict = 'completed', created_at = r.created_at, occurrence_at = r.occurrence_at,\n"
        "        scheduled_for = r.scheduled_for + interval '1 ms', attempt = d.attempt,",
        realtime=[HISTORY],
        database="postgresql",
    ),
    Mutation(
        name="low-water-begins-at-the-mark",
        mechanism="Where claims are slow a lane is read from where the last one found its first run.",
        file=POSTGRESQL,
        old=" AND e.run_id <> ALL (%s::uuid[])\n                AND e.available_at >= l.begins_at\n",
        new=" AND e.run_id <> ALL (%s::uuid[])\n",
        red=[LOW_WATER + "test_a_lane_is_read_from_its_mark"],
        database="postgresql",
    ),
    Mutation(
        name="low-water-looks-again-from-the-beginning",
        mechanism="A mark lasts a second from the last look at the whole lane, however many claims used it.",
        file=LOW_WATER_FILE,
        old="_Mark(max(at, marks[lane_id].at), marks[lane_id].looked_at)",
        new="_Mark(max(at, marks[lane_id].at), began)",
        red=[LOW_WATER + "test_a_look_from_the_beginning_is_due_a_second_after_the_last"],
        database="postgresql",
    ),
    Mutation(
        name="low-water-is-not-the-end",
        mechanism="A claim that finds too little behind the marks looks before them at once.",
        file=POSTGRESQL,
        old="    if marks and len(picks) < sum(seats.wants):\n",
        new="    if False:\n",
        red=[
            LOW_WATER + "test_a_claim_that_wants_more_than_stands_behind_the_mark_gets_the_rest_at_once",
            LOW_WATER + "test_a_run_that_is_released_is_claimed_again_before_the_mark",
        ],
        database="postgresql",
    ),
    Mutation(
        name="low-water-second-look-counts-the-first",
        mechanism="Over both looks no poll gets more than it wants.",
        file=POSTGRESQL,
        old="        wants = [want - got[ask] for ask, want in enumerate(seats.wants)]\n",
        new="        wants = list(seats.wants)\n",
        red=[LOW_WATER + "test_several_polls_get_no_more_than_they_want_over_both_looks"],
        database="postgresql",
    ),
    Mutation(
        name="low-water-first-look-is-told",
        mechanism="What the first look claimed is told although the second failed.",
        file=POSTGRESQL,
        old="            if connection.in_atomic_block or not got:\n                raise\n",
        new="            raise\n",
        red=[LOW_WATER + "test_what_the_first_look_claimed_is_told_when_the_second_fails"],
        database="postgresql",
    ),
    Mutation(
        name="low-water-only-where-slow",
        mechanism="A claim that was not slow leaves no mark: then nothing is read out of its order.",
        file=LOW_WATER_FILE,
        old="                    if is_slow:\n",
        new="                    if True:\n",
        red=[LOW_WATER + "test_a_claim_that_was_not_slow_leaves_no_mark"],
        database="postgresql",
    ),
]
