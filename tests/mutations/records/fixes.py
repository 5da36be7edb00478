"""What was wrong once and was found by somebody who used it."""

from tests.mutations.record import Mutation

EDGE = "tests/scheduler/edge/"
POLL, MACHINERY = EDGE + "test_poll.py::", EDGE + "test_machinery.py::"
WORK = "scheduler/api/work/"

RECORDS = [
    Mutation(
        name="poll-is-asked-for-before-its-end",
        mechanism="A poll whose time is up is not sent away before a claim has looked for it.",
        file=WORK + "waiting.py",
        old="        if self.was_asked_for:\n",
        new="        if True:\n",
        red=[POLL + "test_a_poll_whose_time_is_up_before_it_was_asked_for_is_asked_for_all_the_same"],
    ),
    Mutation(
        name="own-ack-outlives-older-looks",
        mechanism="A look that began before the ack does not make the run one that is held again.",
        file=WORK + "own_acks.py",
        old="            if self._acked.get((client_id, runner_id, run_id), inf) < read_at:",
        new="            if (client_id, runner_id, run_id) in self._acked:",
        red=[POLL + "test_a_look_that_is_older_than_the_ack_does_not_make_it_a_cancel"],
    ),
    Mutation(
        name="own-ack-ends-with-the-next-claim",
        mechanism="What is claimed anew after its runner's own ack may be cancelled like any other.",
        file=WORK + "desk.py",
        old="        self._own_acks.hold_again(*visit.key[:2], is_held, read_at)\n",
        new="",
        red=[POLL + "test_the_cancel_of_a_run_claimed_anew_after_its_own_ack_is_news"],
    ),
    Mutation(
        name="own-acks-are-bounded",
        mechanism="Acks are remembered for a while only, and no more of them than 50,000.",
        file=WORK + "own_acks.py",
        old="            if self._acked[key] > oldest and len(self._acked) <= MOST:",
        new="            if True:",
        red=[MACHINERY + "test_own_acks_are_forgotten_in_time_and_in_number"],
    ),
    Mutation(
        name="workers-need-migrations",
        mechanism="Workers and commands say in a sentence that the database lacks migrations.",
        file="croniq_site/kernel/migrated.py",
        old="    if pending:\n",
        new="    if False:\n",
        red=[
            "tests/scheduler/workers/test_workers.py::test_a_database_that_lacks_migrations_is_said_in_one_sentence",
            EDGE + "test_serve.py::test_a_database_that_lacks_migrations_is_not_served",
        ],
    ),
    Mutation(
        name="workers-wait-for-the-database",
        mechanism="A worker that is started while the database is away waits for it.",
        file="croniq_site/kernel/migrated.py",
        old="        if waits and is_outage(error):\n",
        new="        if False:\n",
        red=[
            "tests/scheduler/workers/test_workers.py::"
            "test_a_database_that_is_away_is_waited_for_by_workers_and_said_by_commands"
        ],
    ),
]
