"""Stories of time and of edits: calendars, clocks, rules of zones."""

from tests.mutations.record import Edit, Mutation

PLANNING = "tests/scheduler/planning/"
RACES = PLANNING + "test_calendar_races.py::"
EDITS = PLANNING + "test_stories_of_edits.py::"
TIME = PLANNING + "test_stories_of_time.py::"
RULES = PLANNING + "test_rules.py::"
DOCTOR = "tests/scheduler/test_doctor.py::"
_RANDOM = "__import__('uuid').uuid4().hex"

RECORDS = [
    Mutation(
        name="calendar-is-kept-while-a-trigger-is-bound",
        mechanism="Who binds a trigger to a calendar waits for an edit of it in hand, and keeps the next one waiting.",
        file="scheduler/services/triggers.py",
        old="        share_calendar(found.pk)\n",
        new="        pass\n",
        red=[RACES + "test_a_trigger_that_is_bound_while_the_calendar_is_edited"],
        database="postgresql",
    ),
    Mutation(
        name="calendar-edit-sees-new-users",
        mechanism="An edit that finds a new user of its calendar, once it has the locks, begins again.",
        file="scheduler/services/calendars.py",
        old="            if calendar is not None and not _lock_with_users(calendar.pk):\n",
        new="            if False:\n",
        red=[RACES + "test_edits_of_calendars_jobs_and_triggers_at_one_moment_end"],
        database="postgresql",
    ),
    Mutation(
        name="plan-again-same-id",
        mechanism="A run that is planned again is the same run.",
        edits=[
            Edit(
                "scheduler/services/planning.py",
                "yield PlannedRun(uuid7_of(at, job_id),",
                f"yield PlannedRun({_RANDOM},",
            ),
            Edit(
                "scheduler/services/planning.py",
                "return PlannedRun(uuid7_of(at, job.pk),",
                f"return PlannedRun({_RANDOM},",
            ),
        ],
        red=[
            EDITS + "test_what_changes_no_fire_changes_no_run",
            EDITS + "test_a_day_becomes_a_holiday_and_a_working_day_again_and_then_nothing_is_open",
        ],
    ),
    Mutation(
        name="clock-back-takes-the-future-back",
        mechanism="What was planned beyond the horizon, by a clock that was ahead, is taken back.",
        file="scheduler/services/materialize.py",
        old="        remove_planned({trigger.job_id: trigger.job for trigger in triggers}.values(), now + horizon())\n",
        new="",
        red=[TIME + "test_the_year_2200_for_one_tick"],
    ),
    Mutation(
        name="outage-has-no-future",
        mechanism="An outage that a clock far ahead wrote down ends when the clock is right again.",
        file="runners/services/outages.py",
        old="    _forget_the_future(now)\n",
        new="",
        red=[TIME + "test_the_year_2200_for_one_tick"],
    ),
    Mutation(
        name="rules-are-followed",
        mechanism="A materializer with other rules of zones plans again what was planned by the old ones.",
        file="scheduler/workers/materializer.py",
        old="    is_followed = follow_rules(now)\n",
        new="    is_followed = True\n",
        red=[RULES + "test_unclaimed_runs_move_with_the_wall_clock"],
    ),
    Mutation(
        name="rules-lose-nothing",
        mechanism="A run whose instant by the new rules is past already is due at once.",
        file="scheduler/services/rules.py",
        old="        if is_unclaimed and at <= now:\n",
        new="        if False:\n",
        red=[RULES + "test_a_run_that_would_be_past_by_the_new_rules_is_not_lost"],
    ),
    Mutation(
        name="rules-double-nothing",
        mechanism="A run that was begun by the old rules is not begun again by the new ones.",
        file="scheduler/services/rules.py",
        old="        elif not is_unclaimed and at > now:\n",
        new="        elif False:\n",
        red=[RULES + "test_a_run_that_was_begun_by_the_old_rules_is_not_begun_again"],
    ),
    Mutation(
        name="rules-once-a-process",
        mechanism="The same rules as the last time plan nothing again.",
        file="scheduler/services/rules.py",
        old="    if _next_job == 0 and followed_versions() == versions:\n",
        new="    if False:\n",
        red=[RULES + "test_the_same_rules_are_followed_once_and_change_nothing"],
    ),
    Mutation(
        name="rules-by-one-shift",
        mechanism="Where instants moved is told by the shift that explains most of them.",
        file="scheduler/services/rules.py",
        old="    pairs = {was: was + shift for was in old if was + shift in targets}\n",
        new="    pairs = {was: was for was in old if was in targets}\n",
        red=[RULES + "test_which_instant_moved_where"],
    ),
    Mutation(
        name="rules-in-batches",
        mechanism="Jobs are planned again by new rules a few a pass.",
        file="scheduler/services/rules.py",
        old="    if len(job_ids) == JOBS_A_PASS:\n",
        new="    if False:\n",
        red=[RULES + "test_many_jobs_are_planned_again_a_few_a_pass"],
    ),
    Mutation(
        name="doctor-tells-of-the-dead",
        mechanism="A process that is silent, or ended, is not alive.",
        edits=[
            Edit("scheduler/queries/trouble.py", "        elif now - at > SILENT:\n", "        elif False:\n"),
            Edit("scheduler/queries/trouble.py", "Q(ended_at__isnull=True, ", "Q("),
        ],
        red=[DOCTOR + "test_a_process_that_is_not_there_or_silent_is_told"],
    ),
    Mutation(
        name="plan-once-together",
        mechanism="Triggers that fire once are read together, not one by one.",
        file="scheduler/sql/due.py",
        old="t.kind <> 'once' AND ",
        new="",
        red=[
            "tests/scheduler/planning/test_once_together.py::"
            "test_the_number_of_queries_does_not_depend_on_that_of_triggers_that_fire_once"
        ],
    ),
    Mutation(
        name="plan-breaks-no-edited-trigger",
        mechanism="A pass that found a trigger broken leaves it alone where it was edited since.",
        file="scheduler/services/materialize.py",
        old="unedited = Trigger.objects.filter(pk=pk, next_materialize_at__lte=now)",
        new="unedited = Trigger.objects.filter(pk=pk)",
        red=[
            "tests/scheduler/planning/test_mended_meanwhile.py::"
            "test_what_was_mended_since_it_was_looked_at_stays_mended[True]"
        ],
    ),
]
