"""Schedules and calendars: the walk through changes of the clock, the lattice, what a closure does, what is refused."""

from tests.mutations.record import Edit, Mutation

DOMAIN = "tests/scheduler/domain/"
OPENINGS = "tests/calendars/test_openings.py::"
SERVICES = "tests/calendars/test_services.py::"

RECORDS = [
    Mutation(
        name="cron-gap-runs-after-it",
        mechanism="A fixed-time match that a gap skips runs at the first real second after the gap.",
        file="scheduler/domain/walk.py",
        old="if cron.fixed and at == span.start and _skips_a_match(cron, span):",
        new="if False:",
        red=[DOMAIN + "test_cases.py::test_case"],
    ),
    Mutation(
        name="cron-fold-first-pass-only",
        mechanism="A fixed-time match that comes twice runs in its first pass only.",
        file="scheduler/domain/walk.py",
        old="low = max(low, span.seen)",
        new="low = max(low, span.first_wall)",
        red=[DOMAIN + "test_cases.py::test_case"],
    ),
    Mutation(
        name="cron-wildcard-every-instant",
        mechanism="With * in minute or hour every real instant counts, also in a repeated hour.",
        file="scheduler/domain/cron.py",
        old='fixed=not (minute.startswith("*") or hour.startswith("*")),',
        new="fixed=True,",
        red=[DOMAIN + "test_cron.py::test_fixed_time_is_decided_by_the_text_of_minute_and_hour"],
    ),
    Mutation(
        name="cron-day-fields-either",
        mechanism="Day-of-month or day-of-week: either, unless one of the texts begins with * or ?.",
        file="scheduler/domain/cron.py",
        old='both=month_day[0] in "*?" or weekday[0] in "*?",',
        new="both=True,",
        red=[DOMAIN + "test_cron.py::test_days_of_the_month"],
    ),
    Mutation(
        name="cron-never-is-refused",
        mechanism="A date that no year has is refused when the expression is parsed.",
        file="scheduler/domain/cron.py",
        old="    _refuse_impossible(cron)\n    return cron",
        new="    return cron",
        red=[DOMAIN + "test_cron.py::test_what_is_not_cron_or_never_matches_is_refused_with_the_field_named"],
    ),
    Mutation(
        name="cron-text-bounded",
        mechanism="No text longer than 255 characters is parsed.",
        file="scheduler/domain/cron.py",
        old="if len(text) > LONGEST_TEXT:",
        new="if len(text) > 10**9:",
        red=[DOMAIN + "test_cron.py::test_a_long_text_is_refused_by_its_length"],
    ),
    Mutation(
        name="zones-pinned",
        mechanism="A zone is one that the pinned tzdata lists.",
        file="calendars/domain/zones.py",
        old=" or name not in zone_names():",
        new=":",
        red=["tests/calendars/test_zones.py::test_any_other_name_is_refused_with_a_suggestion"],
    ),
    Mutation(
        name="zones-every-change",
        mechanism="No change of a clock is passed over.",
        file="calendars/domain/zones.py",
        old="_PROBE_STEP = 5 * DAY",
        new="_PROBE_STEP = 300 * DAY",
        red=["tests/calendars/test_zones.py::test_the_spans_of_a_year_are_whole_and_constant_and_end_at_every_change"],
    ),
    Mutation(
        name="interval-from-the-anchor",
        mechanism="An interval's fires lie on anchor + k·every whenever it is asked.",
        file="scheduler/domain/occurrences.py",
        old="    at = anchor + k * schedule.every\n",
        new="    at = max(anchor, start - TICK + schedule.every)\n",
        red=[
            DOMAIN + "test_schedules.py::test_an_interval_lies_on_its_lattice_whenever_it_is_asked",
            DOMAIN + "test_schedules.py::test_an_interval_does_not_drift_over_ten_years_of_microseconds",
        ],
    ),
    Mutation(
        name="interval-nothing-before-the-anchor",
        mechanism="An interval has no fire before its anchor.",
        file="scheduler/domain/occurrences.py",
        old="k = max(0, -((anchor - start) // schedule.every))",
        new="k = -((anchor - start) // schedule.every)",
        red=[DOMAIN + "test_schedules.py::test_the_anchor_is_the_first_fire_and_nothing_is_before_it"],
    ),
    Mutation(
        name="fires-strictly-after",
        mechanism="A fire is strictly later than the instant asked from.",
        file="scheduler/domain/schedules.py",
        old="return (Fire(at, at) for at in occurrences_from(schedule, start + TICK, until))",
        new="return (Fire(at, at) for at in occurrences_from(schedule, start, until))",
        red=[
            DOMAIN + "test_schedules.py::test_until_is_inclusive_and_after_is_not",
            DOMAIN + "test_walk.py::test_asking_on_from_any_fire_or_between_two_gives_the_same_fires",
        ],
    ),
    Mutation(
        name="advance-passes-no-closed-instant",
        mechanism="Under advance no fire is at an instant at which the calendar is closed.",
        file="scheduler/domain/blocked.py",
        old="            if opening.start > second:\n                start: int",
        new="            if False:\n                start: int",
        red=[
            DOMAIN + "test_schedules.py::test_advance_gives_every_occurrence_at_which_it_is_open_and_no_other",
        ],
    ),
    Mutation(
        name="defer-remembers-the-closure",
        mechanism="What a closure blocked before the question still fires at the closure's end.",
        file="scheduler/domain/blocked.py",
        old="    if opening.start > second:\n        # `after` lies",
        new="    if False:\n        # `after` lies",
        red=[
            DOMAIN + "test_schedules.py::test_what_a_closure_blocked_before_the_question_still_fires_at_its_end",
            DOMAIN + "test_schedules.py::test_defer_gives_each_occurrence_at_the_first_open_instant_each_instant_once",
        ],
    ),
    Mutation(
        name="since-bounds-the-occurrences",
        mechanism="Occurrences at or before the trigger's creation do not count, also where they would be deferred.",
        file="scheduler/domain/blocked.py",
        old="        start = max(start, since + TICK)\n",
        new="        pass\n",
        red=[DOMAIN + "test_schedules.py::test_occurrences_before_since_do_not_count"],
    ),
    Mutation(
        name="calendar-jumps-over-ranges",
        mechanism="A closed date range is jumped over, not looked at day by day.",
        file="calendars/domain/openings.py",
        old="            if start <= ordinal <= end:\n                return end + 1 - _EPOCH_DAY",
        new="            if False:\n                return end + 1 - _EPOCH_DAY",
        red=[DOMAIN + "test_schedules.py::test_bare_date_ranges_are_jumped_over"],
    ),
    Mutation(
        name="calendar-exclude-wins",
        mechanism="An exclude rule that matches closes, whatever is included.",
        edits=[
            Edit(
                "calendars/domain/openings.py",
                "return without(opened, _union(excluded)) if excluded else opened",
                "return opened",
            ),
        ],
        red=[
            OPENINGS + "test_any_include_opens_and_any_exclude_closes_and_the_rule_that_decides_is_named",
            OPENINGS + "test_every_half_hour_is_as_the_rules_say_and_the_search_agrees",
        ],
    ),
    Mutation(
        name="calendar-window-over-midnight",
        mechanism="A window over midnight belongs to the day on which it begins.",
        file="calendars/domain/openings.py",
        old="if self._high and self._matches(ordinal - 1) else ()",
        new="if self._high and self._matches(ordinal) else ()",
        red=[OPENINGS + "test_a_window_over_midnight_belongs_to_the_day_on_which_it_begins"],
    ),
    Mutation(
        name="calendar-own-zone",
        mechanism="A calendar's days are those of its own zone.",
        file="calendars/domain/openings.py",
        old="self.zone = load_zone(spec.timezone)",
        new='self.zone = load_zone("UTC")',
        red=[OPENINGS + "test_days_are_those_of_the_calendars_own_zone", DOMAIN + "test_cases.py::test_case"],
    ),
    Mutation(
        name="holidays-observed-over-the-year",
        mechanism="A holiday of the next year that is observed in this one closes this year's day.",
        file="calendars/domain/holiday_days.py",
        old="for of_year in (year - 1, year, year + 1)",
        new="for of_year in (year - 1, year + 1)",
        red=[OPENINGS + "test_public_holidays"],
    ),
    Mutation(
        name="cases-a-bad-line-is-answered",
        mechanism="A line that is no JSON is answered, and the next one too.",
        file="scheduler/domain/cases.py",
        old="except (ValueError, RecursionError, OverflowError) as broken:",
        new="except OverflowError as broken:",
        red=["tests/scheduler/test_next_fires.py::test_a_bad_line_does_not_end_the_conversation"],
    ),
    Mutation(
        name="calendar-save-writes-no-bad-rule",
        mechanism="A rule is checked before anything is written.",
        file="calendars/services/edit.py",
        old='        checked["rules"] = _checked_rules(values["rules"])',
        new='        checked["rules"] = []',
        red=[SERVICES + "test_a_refusal_names_the_field_and_nothing_is_written"],
    ),
    Mutation(
        name="calendar-in-use-stays",
        mechanism="A calendar in use is not deleted; the jobs are named.",
        file="calendars/services/edit.py",
        old="    if users:\n",
        new="    if False:\n",
        red=[
            SERVICES + "test_a_used_calendar_is_not_deleted_and_an_unused_one_goes_with_its_rules",
            "tests/scheduler/test_calendar_edits.py::test_deleting_a_calendar_in_use_names_the_jobs",
        ],
    ),
    Mutation(
        name="calendar-edit-plans-again",
        mechanism="An edit of a calendar plans the jobs that use it again.",
        file="scheduler/services/calendars.py",
        old="            replan_calendar(saved.calendar.pk, now)",
        new="            pass",
        red=[
            "tests/scheduler/test_calendar_edits.py"
            "::test_closing_takes_the_planned_runs_away_and_opening_brings_them_back"
        ],
    ),
    Mutation(
        name="calendar-save-unchanged-writes-nothing",
        mechanism="Saving what is there already changes nothing and plans nothing.",
        file="calendars/services/edit.py",
        old="    if not diff:\n",
        new="    if False:\n",
        red=[SERVICES + "test_saving_what_is_there_already_writes_nothing"],
    ),
]
