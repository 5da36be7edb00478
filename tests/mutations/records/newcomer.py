"""What somebody found who used it for the first time."""

from tests.mutations.record import Edit, Mutation

CONTROL = "tests/scheduler/api/test_job_control.py::"
EXECUTIONS = "tests/scheduler/api/test_executions.py::"
FORECAST = "tests/scheduler/api/test_forecast.py::"
JOB_PAGE = "tests/scheduler/dashboard/test_jobs.py::"
LETTERS = "tests/scheduler/api/test_dead_letters.py::"
NEXT = "tests/scheduler/dashboard/test_upcoming.py::"
PAUSE = "tests/scheduler/planning/test_pause.py::"
BACKFILL = "tests/scheduler/planning/test_backfill.py::"
RUNS = "tests/scheduler/dashboard/test_runs.py::"
RUN_PAGE = "tests/scheduler/dashboard/test_run.py::"
SITE = "tests/scheduler/api/test_site.py::"
STATES = "tests/scheduler/api/test_job_states.py::"

RECORDS = [
    Mutation(
        name="newcomer-skipped-is-not-next",
        mechanism="A fire that was taken out is no job's next fire: not in states, metric or list of jobs.",
        file="scheduler/queries/jobs.py",
        old="    skipped = skipped_ahead(job_ids, now) if job_ids else {}\n",
        new="    skipped = {}\n",
        red=[
            STATES + "test_a_fire_that_was_taken_out_is_not_the_next_one_anywhere",
            JOB_PAGE + "test_a_fire_that_was_taken_out_is_struck_through_and_is_not_the_next",
        ],
    ),
    Mutation(
        name="newcomer-skipped-on-the-jobs-page",
        mechanism="A job's page shows a fire that was taken out as skipped.",
        file="scheduler/queries/overview.py",
        old="    skipped = skipped_ahead([job.pk], now).get(job.pk, set())\n",
        new="    skipped = set()\n",
        red=[JOB_PAGE + "test_a_fire_that_was_taken_out_is_struck_through_and_is_not_the_next"],
    ),
    Mutation(
        name="newcomer-skipped-is-not-forecast",
        mechanism="The forecast counts no fire that was taken out, and lists it as skipped.",
        file="scheduler/queries/forecast.py",
        old="            for at in self._skipped.get(job.pk, ())\n",
        new="            for at in ()\n",
        red=[
            FORECAST + "test_a_fire_that_was_taken_out_is_listed_as_skipped_and_counts_nowhere",
            NEXT + "test_a_fire_that_was_taken_out_is_struck_through_and_not_counted",
        ],
    ),
    Mutation(
        name="newcomer-skipped-by-the-schedule-as-it-is",
        mechanism="The forecast takes off only what the schedules, as they are now, would still fire.",
        file="scheduler/queries/forecast.py",
        old="if trigger_fires(trigger, after=at - _TICK, until=at, count=1, calendar=gates.calendar)",
        new="if trigger",
        red=[FORECAST + "test_a_fire_that_was_taken_out_is_listed_as_skipped_and_counts_nowhere"],
    ),
    Mutation(
        name="newcomer-skipped-is-not-past",
        mechanism="A fire that was taken out stands among the planned runs until it would be due.",
        file="scheduler/queries/runs.py",
        old="if verdict != Run.Verdict.SKIPPED)\n",
        new=")\n",
        red=[
            EXECUTIONS + "test_a_fire_that_was_taken_out_is_listed_when_it_would_be_due_or_with_what_is_planned",
            RUNS + "test_a_fire_that_was_taken_out_stands_among_the_planned_ones_until_it_would_be_due",
        ],
    ),
    Mutation(
        name="newcomer-skipped-is-planned",
        mechanism="What is planned is listed with the fires that were taken out.",
        file="scheduler/queries/runs.py",
        old=" | Q(problem=Run.Verdict.SKIPPED))\n",
        new=")\n",
        red=[RUNS + "test_a_fire_that_was_taken_out_stands_among_the_planned_ones_until_it_would_be_due"],
    ),
    Mutation(
        name="newcomer-pauses-keep",
        mechanism="A pause of a job that is paused keeps the reason and the end that it does not say.",
        edits=[
            Edit(
                "scheduler/services/pause.py", "            reason = job.paused_reason\n", '            reason = ""\n'
            ),
            Edit(
                "scheduler/services/pause.py",
                "until = job.paused_until if job.paused_until is not None and job.paused_until > now else None",
                "until = None",
            ),
        ],
        red=[
            CONTROL + "test_pausing_again_keeps_what_is_not_said",
            PAUSE + "test_pausing_again_keeps_reason_and_end_unless_they_are_said",
        ],
    ),
    Mutation(
        name="newcomer-pauses-keep-no-past-end",
        mechanism="A pause does not take over an end that has come: it would be over at once.",
        file="scheduler/services/pause.py",
        old=" and job.paused_until > now else None",
        new=" else None",
        red=[CONTROL + "test_pausing_again_keeps_what_is_not_said"],
    ),
    Mutation(
        name="newcomer-letters-name-their-replay",
        mechanism="A dead letter that was replayed names the run of that.",
        file="scheduler/queries/letters.py",
        old="        replayed_as=letter.replayed_as,\n",
        new="        replayed_as=None,\n",
        red=[LETTERS + "test_a_letter_and_its_replay_know_each_other"],
    ),
    Mutation(
        name="newcomer-replays-name-what-died",
        mechanism="A replay names the run that died, in the API and on its page.",
        file="scheduler/queries/runs.py",
        old='tuple(attempts), values["replay_of_id"])',
        new="tuple(attempts), None)",
        red=[
            LETTERS + "test_a_letter_and_its_replay_know_each_other",
            RUN_PAGE + "test_a_replay_links_the_run_that_died",
        ],
    ),
    Mutation(
        name="newcomer-the-document-names-all-fields",
        mechanism="The API document names each field that a job takes.",
        file="scheduler/api/schema.py",
        old='    max_catch_up = number(required=False, help_text="The most missed fires that catch_up all runs.")\n',
        new="",
        red=[SITE + "test_the_document_names_every_field_that_a_write_takes_and_no_other"],
    ),
    Mutation(
        name="newcomer-backfills-before-the-creation",
        mechanism="A backfill of the time before a schedule's creation says that it has no fires there.",
        file="scheduler/services/backfill.py",
        old="    if made_at:\n",
        new="    if False:\n",
        red=[
            CONTROL + "test_a_backfill_of_the_time_before_the_schedule_says_why_it_made_nothing",
            BACKFILL + "test_it_says_why_nothing_or_not_all_was_made",
        ],
    ),
    Mutation(
        name="newcomer-backfills-say-what-was-there",
        mechanism="A backfill that makes nothing or not all says how many fires have their run already.",
        file="scheduler/services/backfill.py",
        old=" if there else",
        new=" if False else",
        red=[BACKFILL + "test_it_says_why_nothing_or_not_all_was_made"],
    ),
    Mutation(
        name="newcomer-backfills-of-jobs-that-are-off",
        mechanism="A backfill of a job that is switched off, or has no schedule, says so.",
        edits=[
            Edit("scheduler/services/backfill.py", "    if not job.is_active:\n", "    if False:\n"),
            Edit("scheduler/services/backfill.py", "    if not triggers:\n", "    if False:\n"),
        ],
        red=[BACKFILL + "test_it_says_that_a_job_is_off_or_without_a_schedule"],
    ),
    Mutation(
        name="newcomer-ended-runs-say-why",
        mechanism="The explanation of a run that was skipped, cancelled or died is the reason of that.",
        file="scheduler/queries/explain.py",
        old="    if run.problem is None:\n",
        new="    if True:\n",
        red=[EXECUTIONS + "test_a_run_that_ended_otherwise_than_well_says_why_in_detail_and_explanation"],
    ),
]
