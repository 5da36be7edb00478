"""What the database itself refuses, and the indexes it answers from."""

from tests.mutations.record import Edit, Mutation

RECORDS = [
    Mutation(
        name="claim-index-has-the-order",
        mechanism="Many runs due at one instant are read in order from the index, not sorted at every claim.",
        edits=[
            Edit(
                "scheduler/models/queue.py",
                'fields=["lane", "available_at", "run"], condition=Q(state=0)',
                'fields=["lane", "available_at"], condition=Q(state=0)',
            ),
            Edit(
                "scheduler/migrations/0001_initial.py",
                "fields=['lane', 'available_at', 'run'], name='queue_entry_claimable'",
                "fields=['lane', 'available_at'], name='queue_entry_claimable'",
            ),
        ],
        red=["tests/schema/test_indexes.py::test_the_query_of_an_index_uses_it[queue_entry_claimable]"],
    ),
    Mutation(
        name="schema-one-run-per-occurrence",
        mechanism="The database lets one run of an occurrence in, however many schedulers tick.",
        edits=[
            Edit(
                "scheduler/models/run.py",
                'fields=["job", "scheduled_for"],\n                condition=Q(kind="scheduled"),',
                'fields=["job", "scheduled_for", "id"],\n                condition=Q(kind="scheduled"),',
            ),
            Edit(
                "scheduler/migrations/0001_initial.py",
                "fields=('job', 'scheduled_for'), name='run_one_per_occurrence'",
                "fields=('job', 'scheduled_for', 'id'), name='run_one_per_occurrence'",
            ),
        ],
        red=["tests/schema/test_constraints.py::test_a_constraint_refuses"],
    ),
    Mutation(
        name="schema-verdict-check-knows-null",
        mechanism="The check of a run's verdict is false, not unknown, where a column is null.",
        edits=[
            Edit("scheduler/models/run.py", "                    problem__isnull=False,\n", ""),
            Edit(
                "scheduler/migrations/0001_initial.py",
                "('problem', models.F('verdict')), ('problem__isnull', False), ",
                "('problem', models.F('verdict')), ",
            ),
        ],
        red=["tests/schema/test_constraints.py::test_a_constraint_refuses"],
    ),
]
