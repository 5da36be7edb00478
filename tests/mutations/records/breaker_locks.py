"""What a breaker broke: fires that meet in one statement, and locks that were taken in a circle."""

from tests.mutations.record import Mutation

_MEETING = "tests/scheduler/planning/test_meeting_triggers.py::"

RECORDS = [
    Mutation(
        name="locks-meeting-fires-once-a-statement",
        mechanism="A fire at which two triggers of a job meet stands once in the statement that plans it.",
        file="scheduler/sql/planned.py",
        old="return runs if len(found) == len(runs) else list(found.values())",
        new="return runs",
        red=[
            _MEETING + "test_a_batch_in_which_two_triggers_of_a_job_meet_is_planned_as_a_batch",
            _MEETING + "test_the_statement_takes_a_fire_that_is_named_twice_once",
        ],
    ),
    Mutation(
        name="locks-meeting-fires-earliest-occurrence",
        mechanism="Of the fires that meet the earliest occurrence is kept, whatever statement it would stand in.",
        file="scheduler/services/planning.py",
        old="rows = each_once([run for plan in plans if plan.fires for run in _planned_runs(plan)])",
        new="rows = [run for plan in plans if plan.fires for run in _planned_runs(plan)]",
        red=[_MEETING + "test_where_they_meet_the_earliest_occurrence_is_kept_whatever_statement_it_stands_in"],
    ),
    Mutation(
        name="locks-takeover-in-the-order-of-ids",
        mechanism="A takeover, or a release, locks all that its instances hold in the order of acks before it begins.",
        file="scheduler/services/release.py",
        old="    queue.lock_entries(run_id for holding in holdings.values() "
        "for run_id in (*holding.claims, *holding.stopping))\n",
        new="",
        red=[
            "tests/scheduler/edge/test_takeover_deadlock.py::"
            "test_an_array_of_acks_and_a_takeover_do_not_wait_for_each_other_in_a_circle"
        ],
        database="postgresql",
    ),
]
