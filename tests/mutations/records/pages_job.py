"""A job's own page, what Now counts, what Next says of pauses, and what nobody can take."""

from tests.mutations.record import Mutation

YEAR_SQL = "scheduler/sql/year.py"
YEAR = "scheduler/queries/job_year.py"
TREND = "scheduler/queries/job_trend.py"
AHEAD = "scheduler/queries/job_ahead.py"
FORECAST = "scheduler/queries/forecast.py"
TAKERS = "scheduler/queries/takers.py"
LETTERS = "scheduler/queries/waiting_letters.py"
LANES = "scheduler/dashboard/day_lanes.py"
JOB = "tests/scheduler/dashboard/test_job_page.py::"
NOW = "tests/scheduler/dashboard/test_now.py::"
NEXT = "tests/scheduler/dashboard/test_upcoming.py::"
OVERLAP = "tests/scheduler/dashboard/test_overlap.py::"
STORIES = "tests/scheduler/api/test_forecast.py::"
EXPLAIN = "tests/scheduler/api/test_explain.py::"
SUGGESTED = "tests/scheduler/api/test_suggestions.py::"


def one(name: str, mechanism: str, file: str, old: str, new: str, *red: str) -> Mutation:
    return Mutation(name=name, mechanism=mechanism, file=file, old=old, new=new, red=list(red))


RECORDS = [
    one(
        "year-tells-missed-from-skipped",
        "A day of the year tells what nobody wanted to be left out from what somebody did.",
        YEAR_SQL,
        "WHERE seen.reason IN ({missed})",
        "WHERE seen.reason NOT IN ({missed})",
        JOB + "test_each_day_of_a_year_says_what_became_of_its_fires",
    ),
    one(
        "year-open-runs-did-not-run",
        "What is due and has not ended is no run of that day yet.",
        YEAR,
        " - row.skipped - unfinished)",
        " - row.skipped)",
        JOB + "test_each_day_of_a_year_says_what_became_of_its_fires",
    ),
    one(
        "year-days-of-the-jobs-zone",
        "The days of a job's year are those of its zone.",
        YEAR,
        'load_zone(zone or "UTC")',
        'load_zone("UTC")',
        JOB + "test_days_are_those_of_the_jobs_zone",
    ),
    one(
        "year-long-gaps-mark-their-days",
        "Each day of a gap of several days is marked as missed.",
        YEAR,
        "elif row.reason in MISSED:",
        "elif False:",
        JOB + "test_a_gap_of_several_days_marks_each_of_them_and_is_counted_to_none",
    ),
    one(
        "year-looks-at-few-reasons",
        "So many skipped runs of a day are asked why, and no more.",
        YEAR_SQL,
        "r.problem = 'skipped' LIMIT {looked_at}",
        "r.problem = 'skipped'",
        JOB + "test_of_a_day_with_very_many_skipped_runs_some_are_asked_why_and_that_is_said",
    ),
    one(
        "trend-of-what-completed",
        "How long a job takes is said of runs that completed.",
        TREND,
        "if run.verdict == Run.Verdict.COMPLETED and run.duration_ms",
        "if run.duration_ms",
        JOB + "test_the_trend_is_of_neighbours_that_completed",
    ),
    one(
        "ahead-counts-what-is-blocked",
        "What a calendar blocks between two fires is one row with all of it counted.",
        AHEAD,
        "count=number,",
        "count=1,",
        JOB + "test_between_the_next_fires_stands_what_is_blocked_by_which_rule_and_where_it_goes",
    ),
    one(
        "ahead-says-where-blocked-fires-go",
        "A blocked fire says where its policy lets it go.",
        AHEAD,
        "moved_to=goes_to(at),",
        "moved_to=None,",
        JOB + "test_where_a_blocked_fire_goes_is_its_policys_word",
    ),
    one(
        "pause-holds-up-to-its-end",
        "A pause with an end holds the fires up to it, and that included.",
        FORECAST,
        "or at <= job.paused_until)",
        "or at < job.paused_until)",
        STORIES + "test_a_pause_with_an_end_holds_what_comes_before_it_and_no_more",
        JOB + "test_fires_within_a_pause_say_that_they_will_be_skipped",
    ),
    one(
        "forecast-counts-to-the-end-of-a-pause",
        "Fires are counted apart before and after the end of a pause, wherever in a bucket it is.",
        FORECAST,
        "_Reading(_with_pause_ends(edges, triggers), edges, per_job, skipped)",
        "_Reading(edges, edges, per_job, skipped)",
        STORIES + "test_a_pause_with_an_end_holds_what_comes_before_it_and_no_more",
    ),
    one(
        "next-counts-jobs-that-come-later",
        "Jobs that come later than all that Next lists are counted.",
        "scheduler/dashboard/upcoming.py",
        "unlisted = [job for job in found.jobs if job.fires and not job.coming]",
        "unlisted = []",
        NEXT + "test_fires_and_jobs_that_come_later_than_all_that_is_listed_are_counted",
    ),
    one(
        "letters-that-were-replayed-are-no-work",
        "A letter that was replayed is no work any more.",
        LETTERS,
        "DeadLetter.objects.filter(~Exists(again), job__deleted_at",
        "DeadLetter.objects.filter(job__deleted_at",
        NOW + "test_letters_that_were_replayed_or_whose_job_is_gone_are_no_work",
        JOB + "test_letters_that_wait_are_named_and_those_that_were_replayed_are_not",
    ),
    one(
        "letters-of-deleted-jobs-are-no-work",
        "A letter whose job is gone is no work any more.",
        LETTERS,
        "(~Exists(again), job__deleted_at__isnull=True)",
        "(~Exists(again))",
        NOW + "test_letters_that_were_replayed_or_whose_job_is_gone_are_no_work",
    ),
    one(
        "now-counts-what-the-list-has",
        "What waits for its next attempt is among what waits, as in the list that the number leads to.",
        "scheduler/sql/gauges.py",
        "(available_at <= %s OR attempt > 0)",
        "available_at <= %s",
        NOW + "test_each_number_leads_to_a_list_of_as_many",
    ),
    one(
        "now-tells-how-far-clocks-are-apart",
        "Clocks that are far apart need a look.",
        "scheduler/dashboard/now.py",
        '"is_quiet": found.is_quiet and abs(ahead) <= MOST_APART,',
        '"is_quiet": found.is_quiet,',
        NOW + "test_how_far_the_clocks_are_apart",
    ),
    one(
        "jobs-that-are-failing-are-a-choice",
        "The failing jobs are a list of their own.",
        "scheduler/queries/job_choice.py",
        'if choice.status == "failing":',
        "if False:",
        NOW + "test_what_is_wrong_with_jobs_leads_to_the_list_of_those",
    ),
    one(
        "explain-says-that-nobody-has-handlers",
        "A run of a handler, with none but runners of commands online, says why it waits.",
        "scheduler/queries/waits.py",
        "if why := lack(require, prefer, runners):",
        "if why := None:",
        EXPLAIN + "test_a_run_that_nobody_who_is_there_can_execute_says_so",
        EXPLAIN + "test_a_capability_that_no_runner_has_is_named_with_the_pin",
    ),
    one(
        "now-and-doctor-say-what-nobody-takes",
        "Jobs that no runner takes are told of by Now and by the doctor.",
        TAKERS,
        "        if reasons[needs]:\n",
        "        if False:\n",
        NOW + "test_jobs_that_no_runner_takes_though_somebody_has_each_capability",
        "tests/scheduler/test_doctor.py::test_jobs_whose_handler_nobody_has_are_named",
    ),
    one(
        "jobs-file-warns-of-what-nobody-has",
        "A jobs file's plan warns of a capability, or a pin, that no runner has.",
        "scheduler/services/jobs_file_plan.py",
        "            *lacking_capabilities(checked, offered),\n",
        "",
        "tests/scheduler/jobs_file/test_plan.py::test_a_capability_or_a_pin_that_nobody_has_is_warned_of_once",
    ),
    one(
        "overlap-short-runs-are-no-overlap",
        "A short run is not drawn into the one after it.",
        LANES,
        "return max(width, min(least, room), LEAST_SEEN)",
        "return max(width, least)",
        OVERLAP + "test_short_runs_in_a_row_are_not_drawn_as_if_they_overlapped",
    ),
    one(
        "pause-is-told-by-get-and-not-set-by-put",
        "What a job says of its pause may be written back, and only as it is.",
        "scheduler/api/views/jobs.py",
        '_READ_ONLY = ("paused_at", "paused_until", "paused_reason", "created_at", "updated_at")',
        '_READ_ONLY = ("created_at", "updated_at")',
        "tests/scheduler/api/test_jobs.py::"
        "test_a_pause_is_told_with_its_reason_and_its_end_and_stays_when_written_back",
    ),
    one(
        "refused-scopes-name-what-may-be-meant",
        "A scope that there is not is refused with the one that may be meant.",
        "runners/services/clients.py",
        '.{hints}")',
        '.")',
        SUGGESTED + "test_a_scope_that_is_misspelled",
    ),
    one(
        "refused-countries-know-other-codes",
        "A country that is said by another code, or by its name, is refused with the code.",
        "calendars/domain/holiday_days.py",
        "    if code:\n",
        "    if False:\n",
        SUGGESTED + "test_a_country_that_is_said_otherwise",
    ),
    one(
        "refused-calendars-name-what-may-be-meant",
        "A calendar that the tenant has not is refused with the one of its own that may be meant.",
        "scheduler/services/triggers.py",
        "NO_CALENDAR + did_you_mean(name, known[:MOST_CALENDARS])",
        "NO_CALENDAR",
        SUGGESTED + "test_a_calendar_of_a_schedule_that_is_misspelled",
    ),
    Mutation(
        name="now-a-drained-runner-is-online",
        mechanism="A runner that somebody drained is not taken for one that is gone.",
        file="scheduler/queries/situation.py",
        old="lambda: (len(present), len(taking)), broken)",
        new="lambda: (len(taking), len(taking)), broken)",
        red=["tests/scheduler/dashboard/test_now.py::test_runs_that_wait_while_no_runner_is_there"],
    ),
]
