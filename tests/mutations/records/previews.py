"""Calendars day by day, what an edit would change, what comes next: reasons, bounds, and that telling saves nothing."""

from tests.mutations.record import Mutation

DAYS = "tests/calendars/test_preview.py::"
API = "tests/scheduler/api/test_calendar_preview.py::"
ADMIN = "tests/scheduler/test_calendar_admin.py::"
CALENDARS = "tests/scheduler/dashboard/test_calendars.py::"
NEXT = "tests/scheduler/dashboard/test_upcoming.py::"

DOMAIN = "calendars/domain/preview.py"
WHAT_IF = "scheduler/queries/what_if.py"
FORM = "scheduler/admin/calendars.py"

RECORDS = [
    Mutation(
        name="calendars-subdivisions-unloaded",
        mechanism="A country's subdivisions are known without loading the country, and all others with it.",
        file="calendars/domain/subdivisions.py",
        old='if _name_of(statement) == "subdivisions":',
        new="if False:",
        red=["tests/calendars/test_rules.py::test_an_unknown_subdivision_is_refused_without_loading_any_country"],
    ),
    Mutation(
        name="previews-days-bounded",
        mechanism="A preview is of 400 days at most.",
        file="calendars/queries/preview.py",
        old="if (last - first).days >= MOST_DAYS:",
        new="if False:",
        red=[DAYS + "test_the_range_is_bounded_and_refused_by_field"],
    ),
    Mutation(
        name="previews-closed-reason",
        mechanism="A closed day names the rule or the holiday that closes it.",
        file=DOMAIN,
        old="_because(gate, day, [middle]) or NEVER_OPEN",
        new="NEVER_OPEN",
        red=[DAYS + "test_each_day_names_the_rule_or_the_holiday_that_decides"],
    ),
    Mutation(
        name="previews-own-zone",
        mechanism="A day begins when it does in the calendar's own zone.",
        file=DOMAIN,
        old="return gate.zone.to_utc(wall), gate.zone.to_utc(wall + DAY)",
        new="return wall, wall + DAY",
        red=[DAYS + "test_days_are_those_of_the_calendars_own_zone_also_when_the_clock_changes"],
    ),
    Mutation(
        name="previews-holiday-language",
        mechanism="The names of holidays do not follow the language of the process's environment.",
        file="calendars/domain/holiday_days.py",
        old="            language=_language(country),\n",
        new="",
        red=[DAYS + "test_the_names_of_holidays_are_the_same_whatever_language_the_machine_speaks"],
    ),
    Mutation(
        name="previews-broken-calendar",
        mechanism="The days of a calendar whose rows are nonsense are a conflict, no fault of the question.",
        file="scheduler/api/views/calendar_preview.py",
        old='raise Conflict(broken.message, code="calendar_broken") from None',
        new="raise broken",
        red=[API + "test_a_calendar_whose_rows_are_nonsense_is_a_conflict_that_says_so"],
    ),
    Mutation(
        name="previews-what-if-bounded",
        mechanism="What an edit would change is worked out for so many schedules only.",
        file=WHAT_IF,
        old="if len(known) >= MOST_WORKED_OUT:",
        new="if False:",
        red=[API + "test_each_schedule_is_worked_out_once_and_their_number_is_bounded"],
    ),
    Mutation(
        name="previews-what-if-once",
        mechanism="Triggers with equal schedules are worked out once.",
        file=WHAT_IF,
        old="if key not in known:",
        new="if True:",
        red=[API + "test_each_schedule_is_worked_out_once_and_their_number_is_bounded"],
    ),
    Mutation(
        name="previews-what-if-live",
        mechanism="What does not fire anyway is not told of.",
        file=WHAT_IF,
        old="calendar=calendar, enabled=True, job__is_active=True, job__deleted_at__isnull=True",
        new="calendar=calendar",
        red=[API + "test_what_does_not_fire_is_not_told_of"],
    ),
    Mutation(
        name="previews-save-nothing",
        mechanism="The admin's preview of a change saves nothing.",
        file=FORM,
        old="return super().is_valid() and PREVIEW not in self.data",
        new="return super().is_valid()",
        red=[ADMIN + "test_a_preview_tells_which_fires_change_and_saves_nothing"],
    ),
    Mutation(
        name="previews-stored-calendar",
        mechanism="A preview compares with what is stored, not with the form's own values.",
        file=FORM,
        old="stored = calendar_detail(form.instance.pk)",
        new="stored = form.instance",
        red=[ADMIN + "test_a_change_of_the_zone_is_compared_with_the_stored_one"],
    ),
    Mutation(
        name="previews-users-named",
        mechanism="A calendar in use is protected in the admin, and the jobs are named.",
        file=FORM,
        old="        if keys:\n",
        new="        if False:\n",
        red=[ADMIN + "test_a_calendar_in_use_is_not_deleted_and_the_jobs_are_named"],
    ),
    Mutation(
        name="previews-midnight",
        mechanism="A fire at midnight belongs to the day that begins.",
        file="scheduler/queries/calendar_days.py",
        old="[0]) - TICK for preview in previews]",
        new="[0]) for preview in previews]",
        red=[CALENDARS + "test_a_fire_at_midnight_belongs_to_the_day_that_begins"],
    ),
    Mutation(
        name="previews-broken-page",
        mechanism="A calendar that cannot be read is a page that says why.",
        file="scheduler/dashboard/calendars.py",
        old='        calendar_spec(calendar)\n        error = ""\n',
        new='        error = ""\n',
        red=[CALENDARS + "test_a_calendar_whose_rows_are_nonsense_is_a_page_that_says_so"],
    ),
    Mutation(
        name="previews-fires-bounded",
        mechanism="The days of a calendar count the fires of so many triggers only.",
        file="scheduler/queries/forecast.py",
        old="edges, per_job, MOST_OF_A_CALENDAR)",
        new="edges, per_job, MOST_TRIGGERS)",
        red=[CALENDARS + "test_schedules_beyond_the_bound_are_left_out_and_counted"],
    ),
    Mutation(
        name="next-lanes-bounded",
        mechanism="So many lanes are drawn and no more.",
        file="scheduler/dashboard/lanes.py",
        old="for job in jobs[:most]]",
        new="for job in jobs]",
        red=[NEXT + "test_lanes_and_rows_are_bounded"],
    ),
    Mutation(
        name="next-marks-say-what-holds-them",
        mechanism="A fire that a pause holds back says so where it is drawn.",
        file="scheduler/dashboard/lane_marks.py",
        old="self._skipped if item.is_skipped else self._held if item.is_paused else",
        new="self._skipped if item.is_skipped else",
        red=[NEXT + "test_heaps_and_marks_say_when_and_what"],
    ),
    Mutation(
        name="next-rows-bounded",
        mechanism="So many rows are listed and no more.",
        file="scheduler/dashboard/upcoming.py",
        old='"rows": rows[:MOST_ROWS],',
        new='"rows": rows,',
        red=[NEXT + "test_lanes_and_rows_are_bounded"],
    ),
    Mutation(
        name="next-closure-one-row",
        mechanism="What one closure blocks of a job is one row.",
        file="scheduler/dashboard/upcoming.py",
        old="key=lambda item: (item.trigger_id, item.rule, item.moved_to)",
        new="key=lambda item: item.at",
        red=[NEXT + "test_a_closure_of_many_occurrences_is_one_row"],
    ),
    Mutation(
        name="previews-year-in-the-form",
        mechanism="A calendar's form in the admin shows the coming year as it is saved, not as it is edited.",
        file="scheduler/admin/calendars.py",
        old='calendar_detail(context["original"].pk)\n        if',
        new='context["adminform"].form.instance\n        if',
        red=["tests/scheduler/test_calendar_admin.py::test_beside_a_change_it_shows_what_is_saved"],
    ),
]
