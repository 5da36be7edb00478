"""The list of runs, what is done to many of them, one run, and doing it once more."""

from tests.mutations.record import Mutation

RACE = "tests/scheduler/planning/test_replay_race.py::"

RECORDS = [
    Mutation(
        name="replay-keeps-its-original",
        mechanism="A run that is done once more is kept from retention, and one that retention has in hand is gone.",
        file="scheduler/services/replays.py",
        old="    return Run.objects.select_for_update(no_key=True).filter(pk=run_id).first()\n",
        new="    return Run.objects.filter(pk=run_id).first()\n",
        database="postgresql",
        red=[
            RACE + "test_a_run_that_retention_has_in_hand_is_gone_for_who_replays_it",
            RACE + "test_of_many_the_one_that_retention_has_in_hand_is_refused_and_the_others_are_made",
            RACE + "test_a_run_whose_letter_goes_with_it_is_gone_for_who_replays_the_letter",
            RACE + "test_a_run_that_somebody_replays_in_this_moment_is_left_to_the_next_pass",
        ],
    ),
]
