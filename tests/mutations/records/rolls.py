"""Searches that end, rolls to other days, and what is computed once for many."""

from tests.mutations.record import Mutation

DOMAIN = "tests/scheduler/domain/"
ROLLS = DOMAIN + "test_rolls.py::"
SCHEDULES = DOMAIN + "test_schedules.py::"
WINDOW = DOMAIN + "test_window.py::"
BY_THE_DAY = ROLLS + "test_a_blocked_occurrence_of_cron_goes_to_its_local_time_on_the_next_or_previous_open_day"

RECORDS = [
    Mutation(
        name="rolls-interval-begins-later",
        mechanism="Nothing rolls back before an interval by more than a closure: the years before are not walked.",
        file="scheduler/domain/rolls.py",
        old="wall = max(wall, self.days.first_reached_back(wall // DAY, begins) * DAY)",
        new="pass",
        red=[
            "tests/scheduler/domain/test_rolls.py::"
            "test_what_rolls_back_before_an_interval_begins_is_found_without_a_walk_through_the_years"
        ],
    ),
    Mutation(
        name="rolls-interval-reaches-back",
        mechanism="From before an interval begins is looked at what rolls back at any time of day.",
        file="scheduler/domain/cron_days.py",
        old="if without(parts, opened):",
        new="if False:",
        red=[
            "tests/scheduler/domain/test_rolls.py::"
            "test_what_rolls_back_before_an_interval_begins_is_found_without_a_walk_through_the_years"
        ],
    ),
    Mutation(
        name="openings-closure-kept",
        mechanism="Who asks again within a closure of months does not walk through it again.",
        file="calendars/domain/openings.py",
        old="known, end = self._closed",
        new="known, end = 0, 0",
        red=["tests/calendars/test_openings.py::test_a_long_closure_is_walked_through_once"],
    ),
    Mutation(
        name="search-goes-by-days",
        mechanism="A search that meets many blocked occurrences in a row goes on by days and ends when none can fire.",
        file="scheduler/domain/blocked.py",
        old="if blocked % MOST_BLOCKED == 0 and isinstance(schedule, CronSchedule):",
        new="if False:",
        red=[SCHEDULES + "test_the_search_for_a_fire_that_never_comes_is_bounded"],
    ),
    Mutation(
        name="search-ends-after-forty-years",
        mechanism="A row of blocked occurrences is followed for forty years and no longer.",
        file="scheduler/domain/blocked.py",
        old="                    limit = openings.search_limit(second)\n                blocked += 1",
        new="                    limit = None\n                blocked += 1",
        red=[DOMAIN + "test_neighbours.py::test_calendars"],
    ),
    Mutation(
        name="search-limit-is-of-one-row",
        mechanism="A fire ends the row of blocked occurrences, and with it the limit of the search.",
        file="scheduler/domain/blocked.py",
        old="        blocked, limit = 0, None\n        yield",
        new="        blocked = 0\n        yield",
        red=[SCHEDULES + "test_only_an_unbroken_row_of_blocked_occurrences_ends_the_search"],
    ),
    Mutation(
        name="search-looks-at-a-kind-of-year-once",
        mechanism="Years that begin alike and that no rule names are open alike: one of them is looked at.",
        file="scheduler/domain/cron_days.py",
        old="            if is_known:\n                continue",
        new="            if False:\n                continue",
        red=[SCHEDULES + "test_years_that_begin_alike_are_looked_at_once"],
    ),
    Mutation(
        name="defer-a-moment-before-the-opening",
        mechanism="An instant a microsecond before an opening lies in the closure: what that blocked is not lost.",
        file="scheduler/domain/blocked.py",
        old="    second = to_seconds(after)  # what lies",
        new="    second = to_seconds(start)  # what lies",
        red=[SCHEDULES + "test_what_a_closure_blocked_before_the_question_still_fires_at_its_end"],
    ),
    Mutation(
        name="roll-preceding-looks-ahead",
        mechanism="A preceding fire is found from its own window, though its occurrence lies days later.",
        file="scheduler/domain/rolls.py",
        old="source += 1 if self.back else -1",
        new="source += -1",
        red=[ROLLS + "test_preceding_of_a_blocked_first_lands_on_the_last_open_day_before_it", BY_THE_DAY],
    ),
    Mutation(
        name="roll-to-open-instants-only",
        mechanism="A roll ends where the calendar is open at that instant.",
        file="scheduler/domain/rolls.py",
        old="parts = self.days.open_parts(day, low, high) if low < high else ()",
        new="parts = ((low, high),) if low < high else ()",
        red=[BY_THE_DAY],
    ),
    Mutation(
        name="roll-keeps-the-named-time",
        mechanism="What a gap moved rolls at the time that its schedule names.",
        file="scheduler/domain/rolls.py",
        old="                yield time * _SECOND, to_instant(at)",
        new="                yield (at + self.days.zone.offset_at(at) - day * DAY) * _SECOND, to_instant(at)",
        red=[ROLLS + "test_a_gap_moves_what_rolls_into_it_to_its_end_and_a_fold_gives_the_first_pass"],
    ),
    Mutation(
        name="roll-not-from-before-the-creation",
        mechanism="Occurrences at or before the trigger's creation do not roll.",
        file="scheduler/domain/rolls.py",
        old="if is_alive and at > self.since and not",
        new="if is_alive and not",
        red=[ROLLS + "test_what_was_due_before_the_creation_does_not_roll"],
    ),
    Mutation(
        name="roll-search-ends",
        mechanism="A search for a roll that never comes ends after weeks, not after forty years.",
        file="scheduler/domain/rolls.py",
        old="if idle % MOST_IDLE == MOST_IDLE - 1 and self._is_never(begin):",
        new="if False:",
        red=[ROLLS + "test_what_is_open_at_no_day_never_fires_and_the_search_ends"],
    ),
    Mutation(
        name="window-computes-equal-ones-once",
        mechanism="Equal schedules in one window are computed once.",
        file="scheduler/domain/window.py",
        old="_remembered = lru_cache(maxsize=512)",
        new="_remembered = lru_cache(maxsize=0)",
        red=[WINDOW + "test_equal_schedules_are_computed_once_in_a_window"],
    ),
    Mutation(
        name="window-walks-a-long-gap-once",
        mechanism="A long gap that many schedules missed is walked once.",
        file="scheduler/domain/window.py",
        old="lru_cache(maxsize=4)",
        new="lru_cache(maxsize=0)",
        red=[WINDOW + "test_a_long_gap_that_many_missed_is_walked_once"],
    ),
    Mutation(
        name="window-forgets-no-fire",
        mechanism="A window with more fires than are remembered has all of them.",
        file="scheduler/domain/window.py",
        old="if len(known) < MOST or most == count:",
        new="if True:",
        red=[WINDOW + "test_a_window_with_more_than_is_remembered_has_all_its_fires"],
    ),
    Mutation(
        name="cron-key-only-where-h-is",
        mechanism="Schedules of different jobs are equal unless they have an H.",
        file="scheduler/domain/occurrences.py",
        old='object.__setattr__(self, "hash_key", "")',
        new="pass",
        red=[
            WINDOW + "test_equal_schedules_are_computed_once_in_a_window",
            WINDOW + "test_what_h_stands_for_keeps_schedules_apart",
        ],
    ),
]
