"""What is asked of one job or runner costs the same however many runs of others wait: SQLite's partial indexes."""

from tests.mutations.record import Mutation

READS = "tests/scheduler/test_queue_reads.py::"
TRIGGER = READS + "test_a_trigger_counts_what_its_own_job_has_waiting"
ONE = READS + "test_whoever_asks_of_one_reads_what_is_his"
ADMIT = READS + "test_places_of_a_limited_job_are_given_by_its_own_entries"

RECORDS = [
    Mutation(
        name="queue-states-stand-in-the-text",
        mechanism="The states that a query asks for stand in its text: of bound ones SQLite reads no partial index.",
        file="scheduler/models/queue.py",
        old='QueueEntry._meta.get_field("state").register_lookup(LiteralIn)\n',
        new="",
        red=[TRIGGER, ONE, ADMIT],
        database="sqlite",
        quick=True,
    ),
    Mutation(
        name="queue-depth-by-index",
        mechanism="A trigger counts the due runs of its job by the index of what waits.",
        file="scheduler/services/trigger_runs.py",
        old="        state__in=QueueEntry.WAITING,\n        available_at__lte",
        new="        available_at__lte",
        red=[TRIGGER],
        database="sqlite",
    ),
    Mutation(
        name="queue-depth-reads-nothing-for-later",
        mechanism="The runs that are asked for later are not read to count what is due.",
        file="scheduler/services/trigger_runs.py",
        old="        available_at__lte=now + LONGEST_TURN,\n",
        new="",
        red=[READS + "test_what_is_due_is_counted_without_a_look_at_what_is_asked_for_later"],
    ),
    Mutation(
        name="queue-depth-without-what-is-held",
        mechanism="What a pause holds does not fill the queue.",
        file="scheduler/services/trigger_runs.py",
        old=").exclude(state=QueueEntry.State.HELD)\n",
        new=")\n",
        red=[READS + "test_what_a_pause_holds_fills_no_queue"],
    ),
    Mutation(
        name="run-later-counted-by-index",
        mechanism="What is asked for later is counted by the index of what waits.",
        file="scheduler/services/trigger_runs.py",
        old="        state__in=QueueEntry.WAITING,\n        attempt=0,\n",
        new="        attempt=0,\n",
        red=[TRIGGER],
        database="sqlite",
    ),
    Mutation(
        name="late-runs-by-index",
        mechanism="Whether a run of a job is late is read from the job's own entries.",
        file="scheduler/queries/jobs.py",
        old="            state__in=WAITING,\n            state=",
        new="            state=",
        red=[ONE],
        database="sqlite",
    ),
    Mutation(
        name="admit-by-index",
        mechanism="Places of a limited job are given by its own entries.",
        file="scheduler/services/admit.py",
        old="(state__in=QueueEntry.WAITING, state=State.GATED, ",
        new="(state=State.GATED, ",
        red=[ADMIT],
        database="sqlite",
    ),
]
