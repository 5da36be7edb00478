"""The forecast: counts without walking, what is blocked and where it goes, bounds of what is worked out."""

from tests.mutations.record import Mutation

DOMAIN = "scheduler/domain/forecast.py"
QUERY = "scheduler/queries/forecast.py"
GATES = "scheduler/queries/gates.py"
PURE = "tests/scheduler/domain/test_forecast.py::"
STORIES = "tests/scheduler/api/test_forecast.py::"
GAPS = "tests/scheduler/planning/test_long_gaps.py::"

RECORDS = [
    Mutation(
        name="seam-begins-where-the-last-ended",
        mechanism="A pass plans from where the last one ended, whoever made it: nothing in between is left out.",
        file="scheduler/services/planning.py",
        old="(fire for fire in ahead if fire.at > cursor)",
        new="(fire for fire in ahead if fire.at > cursor + timedelta(minutes=1))",
        realtime=[
            "tests/scheduler/planning/test_seam.py::"
            "test_two_materializers_of_which_each_is_killed_once_make_120_runs_in_two_hours"
        ],
    ),
    Mutation(
        name="gap-counted-by-arithmetic",
        mechanism="A gap of more fires than are listed is counted to its end.",
        file="scheduler/services/planning.py",
        old="number = fires_counted(trigger, after=trigger.cursor_at, until=last_at)",
        new="pass",
        red=[
            GAPS + "test_a_gap_under_a_calendar_is_counted_exactly",
            "tests/scheduler/planning/test_materialize.py::"
            "test_a_gap_of_thirty_years_is_one_span_and_one_look_at_either_end",
        ],
    ),
    Mutation(
        name="gap-moved-is-not-counted",
        mechanism="Fires that a policy moves are not said to be the occurrences at which the calendar is open.",
        file=GATES,
        old="if gates.moves:\n        return None",
        new="if False:\n        return None",
        red=[GAPS + "test_where_a_policy_moves_fires_the_admin_says_at_least"],
    ),
    Mutation(
        name="forecast-equal-once",
        mechanism="The fires of equal schedules on one calendar are worked out once, whatever their triggers' age.",
        file=GATES,
        old="return None\n        return trigger.created_at",
        new="pass\n        return trigger.created_at",
        red=[STORIES + "test_the_fires_of_equal_schedules_are_worked_out_once_whenever_they_were_made"],
    ),
    Mutation(
        name="forecast-lists-shared",
        mechanism="What equal schedules list is worked out once.",
        file=QUERY,
        old="if key not in self._firsts:",
        new="if True:",
        red=[STORIES + "test_the_fires_of_equal_schedules_are_worked_out_once_whenever_they_were_made"],
    ),
    Mutation(
        name="forecast-lists-shrink",
        mechanism="With many jobs each lists less: what is cut afterwards is not worked out.",
        file=QUERY,
        old="per_job = min(per_job, max(LEAST_OF_A_JOB, 4 * MOST_LISTED // len(triggers)))",
        new="pass",
        red=[STORIES + "test_with_many_jobs_each_lists_less"],
    ),
    Mutation(
        name="forecast-days-kept",
        mechanism="The days on which a calendar is open are looked up once for all that roll.",
        file="scheduler/domain/cron_days.py",
        old="parts = self._whole_days[day] = self.open_parts(day)",
        new="parts = self.open_parts(day)",
        red=[PURE + "test_where_it_goes_is_looked_up_by_days_that_are_kept"],
    ),
    Mutation(
        name="forecast-begin-matters",
        mechanism="A trigger's creation is left out of account only where nothing from before it could still fire.",
        file="scheduler/domain/blocked.py",
        old="return not openings.decision(at).open and openings.closed_since(at, min(least, at)) <= least",
        new="return False",
        red=[
            "tests/scheduler/domain/test_schedules.py::test_a_begin_matters_while_what_it_blocked_has_not_fired",
        ],
    ),
    Mutation(
        name="forecast-fold-counted-once",
        mechanism="A fixed-time match that comes twice is counted once.",
        file=DOMAIN,
        old="low = max(at + span.offset + 1, span.seen) if cron.fixed else at + span.offset + 1",
        new="low = at + span.offset + 1",
        red=[PURE + "test_changes_of_the_clock_are_counted_as_they_are_walked"],
    ),
    Mutation(
        name="forecast-gap-counted",
        mechanism="A match that a gap skips is counted at the gap's end.",
        file=DOMAIN,
        old="total += len(list(cron_seconds(cron, zone, at, at)))",
        new="total += 0",
        red=[PURE + "test_changes_of_the_clock_are_counted_as_they_are_walked"],
    ),
    Mutation(
        name="forecast-calendar-counted",
        mechanism="Only occurrences at which the calendar is open are fires.",
        file=QUERY,
        old="allowed = counts(gates.schedule, edges, gates.allowed) if gates.calendar is not None else wanted",
        new="allowed = wanted",
        red=[STORIES + "test_what_is_blocked_is_listed_with_its_rule_and_where_it_went"],
    ),
    Mutation(
        name="forecast-window-is-no-calendar",
        mechanism="What is outside of the daily window is neither a fire nor blocked.",
        file=QUERY,
        old="wanted = counts(gates.schedule, edges, gates.wanted)",
        new="wanted = counts(gates.schedule, edges)",
        red=[STORIES + "test_a_daily_window_is_no_calendar"],
    ),
    Mutation(
        name="forecast-moved-to-next-fire",
        mechanism="With advance a blocked occurrence gives way to the schedule's next fire.",
        file=GATES,
        old="if not following or (following[0] is not None and following[0] <= at):",
        new="if not following:",
        red=[STORIES + "test_what_is_blocked_is_listed_with_its_rule_and_where_it_went"],
    ),
    Mutation(
        name="forecast-moved-days-bounded",
        mechanism="Where a roll goes is looked for over 400 days at most.",
        file=DOMAIN,
        old="step * (MOST_DAYS_MOVED + 1)",
        new="step * 20_000",
        red=[PURE + "test_a_roll_that_never_ends_is_given_up_after_400_days"],
    ),
    Mutation(
        name="forecast-paused-apart",
        mechanism="Fires of paused jobs are counted apart.",
        file=QUERY,
        old="(self.paused if index < held_to else self.fires)[index] += number",
        new="self.fires[index] += number",
        red=[STORIES + "test_paused_jobs_are_flagged_and_do_not_count"],
    ),
    Mutation(
        name="forecast-broken-alone",
        mechanism="A broken trigger is listed and stops only itself.",
        file=QUERY,
        old="self.broken.append(BrokenTrigger(trigger.job.job_key, trigger.pk, refused.message))",
        new="raise refused",
        red=[STORIES + "test_a_broken_trigger_is_listed_and_stops_only_itself"],
    ),
    Mutation(
        name="forecast-met-once",
        mechanism="An instant that two triggers of a job give is one run.",
        file=QUERY,
        old="if len(tallies) > 1 and self._is_met(tallies):",
        new="if False:",
        red=[STORIES + "test_two_triggers_that_meet_are_one_run"],
    ),
    Mutation(
        name="forecast-walks-bounded",
        mechanism="No more than so many fires of a trigger are walked through.",
        file=QUERY,
        old="room = min(MOST_WALKED, MOST_WALKED_TOGETHER - self._walked)",
        new="room = 10**9",
        red=[STORIES + "test_too_many_to_walk_through_is_said"],
    ),
    Mutation(
        name="forecast-list-bounded",
        mechanism="All jobs together list at most so many.",
        file=QUERY,
        old="if len(instants) <= MOST_LISTED:",
        new="if True:",
        red=[STORIES + "test_what_all_together_list_is_bounded_and_the_rest_counted"],
    ),
    Mutation(
        name="forecast-triggers-bounded",
        mechanism="No more than so many triggers are looked at; the others are counted.",
        file=QUERY,
        old="triggers = list(rows[:most])",
        new="triggers = list(rows)",
        red=[STORIES + "test_what_all_together_list_is_bounded_and_the_rest_counted"],
    ),
    Mutation(
        name="forecast-tenant",
        mechanism="A key with a tenant sees its tenant's jobs only.",
        file=QUERY,
        old="rows = rows.filter(job__tenant=tenant)",
        new="pass",
        red=[STORIES + "test_another_tenants_jobs_are_not_told", STORIES + "test_who_may_ask"],
    ),
    Mutation(
        name="forecast-buckets-bounded",
        mechanism="No more than 1,000 buckets.",
        file="scheduler/api/views/forecast.py",
        old="if -(-window // bucket) > MOST_BUCKETS:",
        new="if False:",
        red=[STORIES + "test_nonsense_is_refused_by_the_parameters_name"],
    ),
    Mutation(
        name="states-missed-is-overdue",
        mechanism="A job whose fires nobody plans is overdue.",
        file="scheduler/queries/jobs.py",
        old="or job.pk in missed)",
        new="or False)",
        red=["tests/scheduler/api/test_job_states.py::test_a_job_whose_fires_nobody_planned_is_overdue"],
    ),
]
