"""Dead letters: replay, force, deletion; death and letter together."""

from tests.mutations.record import Mutation

LETTERS = "tests/scheduler/planning/test_letters.py::"
SERVICE = "scheduler/services/letters.py"

RECORDS = [
    Mutation(
        name="replay-one-per-letter",
        mechanism="A letter is replayed once: who asks again gets the run that there is.",
        file=SERVICE,
        old="        if earlier is not None:\n",
        new="        if False:\n",
        red=[LETTERS + "test_who_asks_again_gets_the_run_that_there_is_even_when_it_is_over_or_the_letter_too_old"],
    ),
    Mutation(
        name="replays-take-turns",
        mechanism="Replays of one job take turns by its lock: of five at once one makes the run.",
        file=SERVICE,
        old="        job = lock_job(job_id)\n",
        new="        job = Run.job.get_queryset().filter(pk=job_id, deleted_at=None).first()\n",
        red=[LETTERS + "test_five_replays_at_once_are_one_run"],
        database="postgresql",
    ),
    Mutation(
        name="replay-not-of-stale-letters",
        mechanism="A letter older than the job's dead_letter_replay_max_age is replayed only by force.",
        file=SERVICE,
        old="if most is not None and not force and now",
        new="if False and most is not None and now",
        red=[LETTERS + "test_a_letter_that_is_too_old_is_replayed_only_by_force"],
    ),
    Mutation(
        name="replay-forced",
        mechanism="Force replays a letter of any age.",
        file=SERVICE,
        old="if most is not None and not force and now",
        new="if most is not None and now",
        red=[LETTERS + "test_a_letter_that_is_too_old_is_replayed_only_by_force"],
    ),
    Mutation(
        name="replay-not-of-deleted-jobs",
        mechanism="Nothing of a deleted job begins again.",
        file=SERVICE,
        old="        if job is None:\n",
        new="        job = job or original.job\n        if job is None:\n",
        red=[LETTERS + "test_nothing_of_a_deleted_job_is_replayed"],
    ),
    Mutation(
        name="replay-keeps-the-instant",
        mechanism="A replay has the instant of the run that died.",
        file="scheduler/services/replays.py",
        old="        scheduled_for=original.scheduled_for,\n",
        new="        scheduled_for=now,\n",
        red=[
            LETTERS
            + "test_a_replay_is_a_new_run_of_the_same_instant_with_fresh_attempts_and_what_the_run_had_of_its_own"
        ],
    ),
    Mutation(
        name="letters-of-the-tenant",
        mechanism="A key of a tenant sees, replays and deletes only its tenant's letters.",
        file=SERVICE,
        old="    return letters if principal is None or principal.tenant is None else",
        new="    return letters if principal is None or True else",
        red=[LETTERS + "test_letters_of_other_tenants_and_unknown_ones_are_none"],
    ),
    Mutation(
        name="letters-deleted-in-batches",
        mechanism="A bulk deletion takes at most 500 letters a transaction.",
        file=SERVICE,
        old="batch = list(oldest[:WRITE_BATCH_ROWS])",
        new="batch = list(oldest)",
        red=[LETTERS + "test_twelve_hundred_go_in_batches_and_one_that_comes_later_stays"],
    ),
    Mutation(
        name="letters-that-come-later-stay",
        mechanism="A deletion of all letters means those that there were when it began.",
        file=SERVICE,
        old="letters.filter(created_at__lte=now), now, actor)) > 0",
        new="letters, now, actor)) > 0",
        red=[LETTERS + "test_twelve_hundred_go_in_batches_and_one_that_comes_later_stays"],
    ),
    Mutation(
        name="death-and-letter-in-one-transaction",
        mechanism="A failure's end and its letter are one transaction: killed between them there is neither.",
        file="scheduler/services/finish.py",
        old="        with write_transaction():\n            given, ended = _finish_others(others, now, rng)\n",
        new="        given, ended = _finish_others(others, now, rng)\n",
        red=[LETTERS + "test_between_death_and_letter_there_is_nothing"],
        realtime=[
            "tests/scheduler/conformance/test_killed_acks.py::test_between_death_and_letter_nobody_dies",
            "tests/scheduler/conformance/test_killed_acks.py::test_a_retry_is_stored_whole_or_not_at_all",
        ],
        database="sqlite",
    ),
    Mutation(
        name="letters-are-thrown-away-once",
        mechanism="Letters are locked before they go: of two who throw away the same ones one tells of them.",
        file="scheduler/services/letters.py",
        old='.select_for_update(of=("self",)).order_by("created_at", "pk")',
        new='.order_by("created_at", "pk")',
        red=["tests/scheduler/planning/test_letters_race.py::test_two_who_throw_away_all_letters_count_each_once"],
        database="postgresql",
    ),
]
