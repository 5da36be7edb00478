"""What earlier looks had left: letters that were replayed."""

from tests.mutations.record import Edit, Mutation

DIGEST = "scheduler/services/alerts/digest.py"
LOOKS = "scheduler/queries/alert_conditions.py"
CONDITIONS = "tests/scheduler/alerts/test_conditions.py::"
WHOSE = "tests/scheduler/alerts/test_whose.py::"

RECORDS = [
    Mutation(
        name="left-replayed-letters-do-not-wait",
        mechanism="Neither the digest nor the rule of letters counts one that was replayed.",
        edits=[
            Edit("scheduler/queries/waiting_letters.py", "filter(~Exists(again), ", "filter("),
        ],
        red=[
            WHOSE + "test_a_week_is_of_one_tenant",
            CONDITIONS + "test_letters_are_told_from_their_threshold_on_and_once_while_they_are_that_many",
        ],
    ),
]
