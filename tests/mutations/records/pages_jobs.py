"""The list of jobs, what is done to many of them, a job's form and what a person does on its page."""

from tests.mutations.record import Mutation

LIST = "tests/scheduler/dashboard/test_job_list.py::"
FORM = "tests/scheduler/dashboard/test_job_form.py::"
DO = "tests/scheduler/dashboard/test_job_actions.py::"
RUNS = "tests/scheduler/dashboard/test_runs_bulk.py::"
BULK = "scheduler/dashboard/bulk_jobs.py"
STEPS = "scheduler/dashboard/bulk.py"
WHOLE = "scheduler/services/whole_job.py"
FORMS = "scheduler/dashboard/job_form.py"

RECORDS = [
    Mutation(
        name="job-record-of-ended-runs",
        mechanism="The record of a job is that of runs that have ended.",
        file="scheduler/sql/recent.py",
        old=" AND r.verdict IS NOT NULL",
        new="",
        red=[LIST + "test_the_record_is_that_of_the_newest_ended_runs"],
    ),
    Mutation(
        name="job-record-in-order",
        mechanism="Bars stand in the order of time.",
        file="scheduler/sql/recent.py",
        old="runs = sorted(map(",
        new="runs = list(map(",
        red=[LIST + "test_equal_instants_keep_fractions_and_order"],
    ),
    Mutation(
        name="job-record-success-of-what-was-tried",
        mechanism="What was cancelled or skipped is no failure.",
        file="scheduler/queries/job_record.py",
        old=" if run.verdict in (Run.Verdict.COMPLETED, Run.Verdict.FAILED, Run.Verdict.DEAD)]",
        new="]",
        red=[LIST + "test_a_bar_tells_how_long_and_by_its_shape_what_became_of_a_run"],
    ),
    Mutation(
        name="job-choice-paused-is-no-active",
        mechanism="The filter for active jobs leaves paused ones out.",
        file="scheduler/queries/job_choice.py",
        old='if choice.status in ("active", "paused"):',
        new='if choice.status == "paused":',
        red=[LIST + "test_filters_stand_in_the_address"],
    ),
    Mutation(
        name="bulk-as-many-as-shown",
        mechanism="Where another number matches, or comes, than was shown, nothing is done.",
        file=STEPS,
        old="        if matched != expected:\n",
        new="        if False:\n",
        red=[
            LIST + "test_where_others_match_than_were_shown_nothing_is_done",
            RUNS + "test_a_form_that_was_cut_on_its_way_does_nothing",
        ],
    ),
    Mutation(
        name="bulk-typed",
        mechanism="What is done to more than a hundred jobs, runs or letters is typed; the server checks it.",
        file=STEPS,
        old="    if is_typed(int(expected)) and ",
        new="    if False and ",
        red=[
            LIST + "test_more_than_a_hundred_are_typed",
            RUNS + "test_more_than_a_hundred_are_typed",
            "tests/scheduler/dashboard/test_letters.py::test_many_have_to_be_typed",
        ],
    ),
    Mutation(
        name="bulk-nothing-ticked-stays-there",
        mechanism="Who ticks nothing stays on the page of the list that he had, and is told beside the button.",
        file=STEPS,
        old="    if asked.ids == ():\n        messages.warning(",
        new="    if False:\n        messages.warning(",
        red=[RUNS + "test_who_ticks_nothing_stays_where_he_was_and_is_told_beside_the_button"],
    ),
    Mutation(
        name="job-bulk-ticked-alone",
        mechanism="The ticked jobs alone are meant where some are ticked.",
        file="scheduler/queries/job_choice.py",
        old="return jobs if job_ids is None else jobs.filter(pk__in=job_ids)",
        new="return jobs",
        red=[LIST + "test_pausing_the_ticked_ones_with_a_reason_leaves_the_others"],
    ),
    Mutation(
        name="job-bulk-filters-hold",
        mechanism="All that match are those of the filters in the address.",
        file=BULK,
        old="return chosen_jobs(choice_of(asked.values), ",
        new="return chosen_jobs(JobChoice(), ",
        red=[LIST + "test_all_that_match_are_those_of_the_filters_alone"],
    ),
    Mutation(
        name="job-bulk-run-once",
        mechanism="A form that is sent twice starts each job once.",
        file=BULK,
        old='idempotency_key=f"page {token}" if token else None',
        new="idempotency_key=None",
        red=[LIST + "test_run_now_makes_one_run_each_however_often_the_form_is_sent"],
    ),
    Mutation(
        name="job-form-all-or-nothing",
        mechanism="A job and its schedules are saved together or not at all.",
        file=WHOLE,
        old="    with write_transaction():\n        if seen is None:",
        new="    if True:\n        if seen is None:",
        red=[FORM + "test_all_of_it_is_saved_or_nothing"],
    ),
    Mutation(
        name="job-form-changed-since",
        mechanism="Who edits what somebody else edited meanwhile overwrites nothing.",
        file=WHOLE,
        old="            if version_of(job) != seen:\n",
        new="            if False:\n",
        red=[FORM + "test_who_edits_what_somebody_else_edited_meanwhile_is_told_so"],
    ),
    Mutation(
        name="job-form-new-key",
        mechanism="A form for a new job changes no job that there is.",
        file=WHOLE,
        old="            if not is_new:\n",
        new="            if False:\n",
        red=[FORM + "test_a_key_that_is_taken_and_a_group_that_is_not_there_are_refused_beside_their_fields"],
    ),
    Mutation(
        name="job-form-own-schedules",
        mechanism="The form of a job takes no other job's schedule away.",
        file=WHOLE,
        old=" and job.triggers.filter(pk=edit.trigger_id).exists()",
        new="",
        red=[FORM + "test_another_jobs_schedule_is_out_of_reach"],
    ),
    Mutation(
        name="job-form-over-is-no-error",
        mechanism="A schedule that is over keeps nobody from editing its job.",
        file=WHOLE,
        old="    if not is_as_it_was and (",
        new="    if (",
        red=[FORM + "test_a_schedule_that_is_over_keeps_nobody_from_editing_its_job"],
    ),
    Mutation(
        name="job-form-exec-of-its-own",
        mechanism="What is executed is said by those alone who have the permission.",
        file=FORMS,
        old='    if may_exec and "does" in values:\n',
        new='    if "does" in values:\n',
        red=[FORM + "test_only_who_may_says_what_is_executed"],
    ),
    Mutation(
        name="job-form-preview-saves-nothing",
        mechanism="The button of the preview saves nothing.",
        file=FORMS,
        old='    if "preview" in values:\n',
        new='    if "preview " in values:\n',
        red=[FORM + "test_without_a_script_a_button_shows_the_preview_and_saves_nothing"],
    ),
    Mutation(
        name="job-preview-by-calendar",
        mechanism="The preview heeds the calendar.",
        file=WHOLE,
        old="fires = trigger_fires(row, after=now, count=PREVIEWED, calendar=spec)",
        new="fires = trigger_fires(row, after=now, count=PREVIEWED)",
        red=[FORM + "test_the_preview_heeds_the_calendar_and_says_what_moved"],
    ),
    Mutation(
        name="job-page-backfill-as-shown",
        mechanism="A backfill makes the runs that were shown or none.",
        file="scheduler/dashboard/job_actions.py",
        old='        if values.get("expected") == str(len(would.instants)):\n',
        new="        if True:\n",
        red=[DO + "test_where_it_would_be_other_runs_than_were_shown_none_is_made"],
    ),
    Mutation(
        name="job-page-delete-typed",
        mechanism="A job is deleted by whoever types its key.",
        file="scheduler/dashboard/job_actions.py",
        old='    if request.POST.get("typed", "").strip() != job_key:\n',
        new="    if False:\n",
        red=[DO + "test_a_job_is_deleted_by_whoever_types_its_key"],
    ),
    Mutation(
        name="job-page-pause-ends",
        mechanism="A pause ends when the form says so.",
        file="scheduler/dashboard/pausing.py",
        old='            said["until"] = _end_in(request, now)\n',
        new="            _end_in(request, now)\n",
        red=[DO + "test_a_pause_has_a_reason_and_an_end"],
    ),
    Mutation(
        name="job-page-run-with-metadata",
        mechanism="A run has the metadata of the form.",
        file="scheduler/dashboard/jobs.py",
        old="job_key, now, metadata=metadata, idempotency_key=",
        new="job_key, now, idempotency_key=",
        red=[DO + "test_a_run_has_the_metadata_of_the_form"],
    ),
]
