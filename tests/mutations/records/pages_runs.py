"""The list of runs, what is done to many of them, one run, and doing it once more."""

from tests.mutations.record import Mutation

RACE = "tests/scheduler/planning/test_replay_race.py::"
FILTERS = "tests/scheduler/dashboard/test_run_filters.py::"
BULK = "tests/scheduler/dashboard/test_runs_bulk.py::"
STORY = "tests/scheduler/dashboard/test_run_story.py::"

RUNS = "scheduler/queries/runs.py"
REACH = "scheduler/queries/run_reach.py"
MANY = "scheduler/dashboard/runs_bulk.py"
STORIES = "scheduler/queries/run_story.py"
COMPARE = "scheduler/queries/run_compare.py"
PATH = "scheduler/dashboard/run_path.py"
LINE = "scheduler/dashboard/run_timeline.py"

NARROW = FILTERS + "test_filters_narrow_the_list_down_and_stay_in_the_address"
STEPS = FILTERS + "test_a_filter_without_an_index_looks_back_in_steps_and_loses_nothing"
BOUNDED = FILTERS + "test_what_an_index_answers_is_looked_for_to_the_end"

RECORDS = [
    Mutation(
        name="replay-keeps-its-original",
        mechanism="A run that is done once more is kept from retention, and one that retention has in hand is gone.",
        file="scheduler/services/replays.py",
        old="    return Run.objects.select_for_update(no_key=True).filter(pk=run_id).first()\n",
        new="    return Run.objects.filter(pk=run_id).first()\n",
        database="postgresql",
        red=[
            RACE + "test_a_run_that_retention_has_in_hand_is_gone_for_who_replays_it",
            RACE + "test_of_many_the_one_that_retention_has_in_hand_is_refused_and_the_others_are_made",
            RACE + "test_a_run_whose_letter_goes_with_it_is_gone_for_who_replays_the_letter",
            RACE + "test_a_run_that_somebody_replays_in_this_moment_is_left_to_the_next_pass",
        ],
    ),
    Mutation(
        name="runs-attempts-of-what-goes-on",
        mechanism="The filter by attempts sees those of runs that have not ended.",
        file=RUNS,
        old=" | Q(entry__attempt__gte=filters.least_attempt)",
        new="",
        red=[NARROW],
    ),
    Mutation(
        name="runs-errors-of-what-failed",
        mechanism="The text of an error is looked for among the runs that ended with one, which have an index.",
        file=RUNS,
        old='rows.filter(problem__in=WITH_ERRORS).filter(contains("error_start"',
        new='rows.filter(contains("error_start"',
        database="postgresql",
        red=[FILTERS + "test_the_usual_filters_read_the_runs_by_an_index"],
    ),
    Mutation(
        name="runs-errors-are-read-so-far",
        mechanism="Of an error so much is read through as the list shows: no more is detoasted for each of thousands.",
        file=RUNS,
        old='rows.alias(error_start=Left("error", LIST_ERROR_CHARACTERS))',
        new='rows.alias(error_start=Left("error", 100))',
        red=[NARROW],
    ),
    Mutation(
        name="runs-window-moves",
        mechanism='"The last hour" is that before each look.',
        file="scheduler/dashboard/run_choice.py",
        old="since = now - WINDOWS[self.last] if self.last else self.since",
        new="since = self.since",
        red=[NARROW, FILTERS + "test_the_last_hour_moves_in_a_tab_left_open"],
    ),
    Mutation(
        name="runs-look-has-an-end",
        mechanism="Filters without an index are looked for in so many runs at a time.",
        file=REACH,
        old="    if not _reads_through(filters, kinds):\n        return None\n",
        new="    return None\n",
        red=[STEPS, BOUNDED],
    ),
    Mutation(
        name="runs-look-goes-on-below",
        mechanism="The next look begins below the instant at which the last one ended, and loses no run of it.",
        file="scheduler/dashboard/runs.py",
        old="last = position_text(reached, BELOW_ALL)",
        new="last = position_text(reached, UUID(int=2**128 - 1))",
        red=[STEPS],
    ),
    Mutation(
        name="runs-index-answers-to-the-end",
        mechanism="What an index answers is looked for to the end of history.",
        file=REACH,
        old="    return bool(has_no_index or has_several",
        new="    return bool(True or has_no_index or has_several",
        red=[BOUNDED],
    ),
    Mutation(
        name="runs-of-several-jobs-fill-a-page",
        mechanism="A look at the runs of several jobs goes at least so far that a page is full.",
        file=REACH,
        old="place = max(page_rows, LOOKED_AT // max(1, len(filters.job_ids)))",
        new="place = LOOKED_AT // max(1, len(filters.job_ids))",
        red=[FILTERS + "test_a_page_of_several_jobs_is_full_where_it_ends"],
    ),
    Mutation(
        name="runs-newer-are-counted-by-the-index",
        mechanism="What is newer is counted from the top of the index on.",
        file=REACH,
        old="    runs = newest_first(runs, by_entries=filters.is_by_entries or filters.error_text is not None)\n",
        new="    runs = runs.order_by()\n",
        database="postgresql",
        red=[FILTERS + "test_the_usual_filters_read_the_runs_by_an_index"],
    ),
    Mutation(
        name="runs-newer-since-the-head",
        mechanism="An older page counts what has come since its reader left the newest page, however far he went.",
        file="scheduler/dashboard/runs.py",
        old="newer_runs(filters, now, head or before, PAGE_ROWS)",
        new="newer_runs(filters, now, before, PAGE_ROWS)",
        red=[FILTERS + "test_an_older_page_says_how_many_have_come_since_and_asks_again"],
    ),
    Mutation(
        name="runs-bulk-as-they-were-shown",
        mechanism="What waited when it was shown and was claimed since is not cancelled with what waits.",
        file=MANY,
        old="entry_states(state if state in ENTRY_STATES else None)",
        new="entry_states(None)",
        red=[BULK + "test_what_came_was_claimed_or_ended_since_the_look_is_left_alone"],
    ),
    Mutation(
        name="runs-bulk-filters-hold",
        mechanism="All that match are those of the filters in the address.",
        file=MANY,
        old="    filters = choice.filters(now)\n",
        new="    filters = RunFilter()\n",
        red=[BULK + "test_all_that_match_are_cancelled_with_a_reason_and_the_others_stay"],
    ),
    Mutation(
        name="runs-bulk-in-one-look",
        mechanism="All that match are looked for in one look, and the page says how far it went.",
        file=MANY,
        old="    filters = within(filters, reached)\n",
        new="",
        red=[BULK + "test_all_that_match_are_those_that_one_look_finds"],
    ),
    Mutation(
        name="run-way-through-stopping",
        mechanism="A run whose handler was told to stop has gone through stopping.",
        file=PATH,
        old='    if verdict == "cancelled" or attempt.outcome == "timed_out":\n',
        new="    if is_winding_down:\n",
        red=[STORY + "test_the_way_of_a_run_goes_along_the_table"],
    ),
    Mutation(
        name="run-line-waits-between-attempts",
        mechanism="An attempt waits from the end of the one before it.",
        file=LINE,
        old="        free_at = ended\n",
        new="",
        red=[STORY + "test_each_attempt_has_its_wait_and_its_time_on_one_line"],
    ),
    Mutation(
        name="run-beat-is-not-made-up",
        mechanism="A lease that says a beat to come says nothing about the last one.",
        file=STORIES,
        old="max(beat, entry.claimed_at) if beat <= now else None",
        new="max(beat, entry.claimed_at)",
        red=[STORY + "test_the_page_tells_the_last_sign_of_life_and_how_long_the_lease_is_good_for"],
    ),
    Mutation(
        name="run-story-names-its-own-run",
        mechanism="Of two runs that were asked for at one instant each tells who asked for it.",
        file=STORIES,
        old="Q(action__in=_MAKING, diff__execution_id=str(run.id))",
        new="Q(action__in=_MAKING)",
        red=[STORY + "test_who_asked_for_a_run_and_who_ended_it_is_told"],
    ),
    Mutation(
        name="run-compared-with-the-one-before",
        mechanism="The last good run is one before this run, among so many.",
        file=COMPARE,
        old='.values("pk")[:LOOKED_AT]\n',
        new='.values("pk")\n',
        red=[STORY + "test_a_good_run_too_far_back_is_not_looked_for"],
    ),
    Mutation(
        name="run-compared-by-its-last-attempt",
        mechanism="The lines that are compared are those of the last attempts.",
        file=COMPARE,
        old="filter(run_id=run_id, attempt=attempt)",
        new="filter(run_id=run_id)",
        red=[STORY + "test_the_first_line_that_differs_by_more_than_numbers_is_found"],
    ),
    Mutation(
        name="run-lines-alike-but-for-numbers",
        mechanism="Lines that differ by numbers, ids or paths alone are alike.",
        file=COMPARE,
        old='one.level != other.level or fingerprint_of(one.message, "") != fingerprint_of(other.message, "")',
        new="True",
        red=[STORY + "test_the_first_line_that_differs_by_more_than_numbers_is_found"],
    ),
    Mutation(
        name="run-metadata-for-those-who-act",
        mechanism="What a run was given of its own is not shown to who may only look.",
        file="scheduler/dashboard/run_page.py",
        old="    if not may_see:\n",
        new="    if False:\n",
        red=[STORY + "test_what_a_run_was_given_is_shown_to_those_alone_who_could_give_it"],
    ),
    Mutation(
        name="run-once-more-leads-to-what-is-there",
        mechanism="Who asks a second time to do a run once more is led to the run that there is.",
        file="scheduler/dashboard/run_page.py",
        old='return address("run", run_id=replay_of(run_id) or run_id)',
        new='return address("run", run_id=run_id)',
        red=[STORY + "test_a_run_is_done_once_more_for_the_same_instant_and_both_name_each_other"],
    ),
]
