"""The page of one day: what is drawn where, how long what is to come takes, and when nothing does."""

from tests.mutations.record import Edit, Mutation

OVERLAP = "tests/scheduler/dashboard/test_overlap.py::"
DAY = "scheduler/queries/day.py"
LANES = "scheduler/dashboard/day_lanes.py"
BARS = "scheduler/dashboard/day_bars.py"

RECORDS = [
    Mutation(
        name="overlap-waits-and-runs",
        mechanism="A bar begins where its run was claimed; before that it is a wait.",
        file=LANES,
        old="began = end if run.claimed is None else max(run.claimed, run.due)",
        new="began = end if run.claimed is None else run.due",
        red=[OVERLAP + "test_a_run_is_a_bar_of_its_wait_and_its_time_and_leads_to_its_page"],
    ),
    Mutation(
        name="overlap-beside-each-other",
        mechanism="Runs of a job that overlap lie beside each other.",
        file=LANES,
        old="next((level for level, free in enumerate(ends) if free <= begin), len(ends))",
        new="0",
        red=[OVERLAP + "test_runs_that_overlap_lie_beside_each_other"],
    ),
    Mutation(
        name="overlap-of-the-day-before",
        mechanism="A run of the day before that still ran is part of the day.",
        file=DAY,
        old="_ran(start - DAY, until)",
        new="_ran(start, until)",
        red=[OVERLAP + "test_a_run_of_the_day_before_that_still_ran_is_part_of_the_day"],
    ),
    Mutation(
        name="overlap-nothing-that-was-skipped",
        mechanism="A fire that was skipped is no bar.",
        file=DAY,
        old="Q(problem__isnull=True) | ~Q(problem=Run.Verdict.SKIPPED)",
        new="Q()",
        red=[OVERLAP + "test_a_run_of_the_day_before_that_still_ran_is_part_of_the_day"],
    ),
    Mutation(
        name="overlap-newest-runs-expect",
        mechanism="The newest runs of a job, and no older ones, say how long the next ones take.",
        file=DAY,
        old="recent_durations(jobs, now, EXPECTED_OF)",
        new="recent_durations(jobs, now, 2 * EXPECTED_OF)",
        red=[OVERLAP + "test_the_newest_runs_say_how_long_the_next_ones_take"],
    ),
    Mutation(
        name="overlap-completed-runs-expect",
        mechanism="A run that failed says nothing about how long the next ones take.",
        file="scheduler/sql/day.py",
        old="newest.verdict = 'completed' AND newest.duration_ms IS NOT NULL",
        new="newest.duration_ms IS NOT NULL",
        red=[OVERLAP + "test_the_newest_runs_say_how_long_the_next_ones_take"],
    ),
    Mutation(
        name="overlap-midnight-begins-the-day",
        mechanism="A fire at midnight belongs to the day that begins with it.",
        file=DAY,
        old="% QUARTER - TICK\n",
        new="% QUARTER\n",
        red=[OVERLAP + "test_what_is_to_come_is_as_long_as_the_last_runs_were"],
    ),
    Mutation(
        name="overlap-no-fires-of-paused-jobs",
        mechanism="What a paused job would fire is not to come.",
        edits=[
            Edit(DAY, "for job in found.jobs if job.starts}", "for job in found.jobs if job.fires}"),
            Edit(DAY, "for item in listed if not item.is_paused]", "for item in listed]"),
        ],
        red=[
            OVERLAP + "test_what_is_to_come_is_as_long_as_the_last_runs_were",
            OVERLAP + "test_a_pause_with_an_end_lets_come_what_is_after_it",
        ],
    ),
    Mutation(
        name="overlap-quiet-is-an-hour",
        mechanism="Quiet is said of stretches of an hour or more in which nothing runs or comes.",
        file=LANES,
        old="if is_quiet and len(indices) >= QUIET_QUARTERS:",
        new="if len(indices) >= QUIET_QUARTERS:",
        red=[OVERLAP + "test_quiet_hours_are_said_in_words"],
    ),
    Mutation(
        name="overlap-bounded-bars",
        mechanism="So many bars are drawn; rows beyond them are drawn by the hour.",
        file=LANES,
        old="        if room >= 0 and not row.hours:\n",
        new="        if not row.hours:\n",
        red=[OVERLAP + "test_a_day_of_many_runs_is_drawn_by_the_hour"],
    ),
    Mutation(
        name="overlap-bounded-runs",
        mechanism="Of a day with more runs than are read only numbers by the hour are read.",
        edits=[
            Edit(DAY, "    if number > MOST_RUNS and", "    if"),
            Edit(DAY, ".count() > MOST_RUNS:", ".count() < 0:"),
            Edit(DAY, "return found if len(found) <= MOST_RUNS else None", "return found"),
        ],
        red=[OVERLAP + "test_a_day_of_more_runs_than_are_read_is_counted"],
    ),
    Mutation(
        name="overlap-bounded-rows",
        mechanism="So many rows are drawn; the others are counted.",
        file=LANES,
        old="    shown = order[:MOST_ROWS]\n",
        new="    shown = order\n",
        red=[OVERLAP + "test_rows_beyond_the_most_are_counted"],
    ),
    Mutation(
        name="overlap-failed-by-shape",
        mechanism="What failed is told by the shape of its bar, not by colour alone.",
        file=BARS,
        old='_rect("ran bad", bar.x, bar.y, bar.width, "12")',
        new='_rect("ran bad", bar.x, bar.y + 2, bar.width, "8")',
        red=[OVERLAP + "test_what_failed_is_told_by_its_shape_too"],
    ),
    Mutation(
        name="overlap-names-are-text",
        mechanism="What a runner calls itself is text in a drawing too.",
        file=BARS,
        old="    words = escape(bar.words)\n",
        new="    words = bar.words\n",
        red=[OVERLAP + "test_what_a_runner_calls_itself_is_text"],
    ),
    Mutation(
        name="overlap-rest-by-the-hour",
        mechanism="Fires to come that are not drawn one by one are drawn in the hours in which they are.",
        file=LANES,
        old='    row.stretches = list(_stretches(unlisted, max(row.unlisted, default=0), "more"))\n',
        new="",
        red=[OVERLAP + "test_what_is_not_listed_of_what_comes_is_drawn_by_the_hour"],
    ),
    Mutation(
        name="forecast-unlisted-without-the-listed",
        mechanism="What has a mark of its own is not in the heap beside it.",
        file="scheduler/queries/forecast_rows.py",
        old="                left[bisect_left(ends, item.at)] -= 1\n",
        new="                pass\n",
        red=[
            OVERLAP + "test_what_is_not_listed_of_what_comes_is_drawn_by_the_hour",
            "tests/scheduler/dashboard/test_upcoming.py::test_marks_and_bars_lie_where_their_instants_are",
        ],
    ),
    Mutation(
        name="forecast-heaps-without-what-is-held",
        mechanism="What a pause holds back is in no heap of what starts.",
        file="scheduler/queries/forecast.py",
        old="self._folded([0] * held_to + fires[held_to:])",
        new="self._folded(fires)",
        red=[OVERLAP + "test_a_pause_that_ends_takes_nothing_from_what_is_drawn_by_the_hour"],
    ),
]
