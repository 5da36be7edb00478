"""Maintenance: nothing is handed out while it is on, and what its end does."""

from tests.mutations.record import Edit, Mutation

TESTS = "tests/scheduler/test_maintenance.py::"
SERVICE = "scheduler/services/maintenance.py"

RECORDS = [
    Mutation(
        name="maintenance-in-the-claim",
        mechanism="A claim's own statement looks whether maintenance is on, and then hands nothing out.",
        edits=[
            Edit(
                "scheduler/sql/postgresql.py",
                " AND NOT EXISTS (SELECT 1 FROM scheduler_maintenance WHERE is_on)",
                "",
            ),
            Edit(
                "scheduler/sql/sqlite.py",
                '        "AND NOT EXISTS (SELECT 1 FROM scheduler_maintenance WHERE is_on)",\n',
                '        "",\n',
            ),
        ],
        red=[
            TESTS + "test_while_it_is_on_nothing_is_handed_out_and_what_is_claimed_goes_on",
            TESTS + "test_a_claim_under_way_is_the_old_claim_and_the_next_one_finds_the_maintenance",
            TESTS + "test_until_it_is_committed_claims_go_on_and_from_then_on_none_does",
            "tests/scheduler/edge/test_producers.py::"
            "test_while_maintenance_is_on_polls_get_nothing_and_after_it_what_waits",
        ],
    ),
    Mutation(
        name="maintenance-on-until-settled",
        mechanism="It stays on after its end until what fell due in it is skipped: no claim starts that.",
        file=SERVICE,
        old="        if len(gone) < SKIPPED_PER_TRANSACTION:\n            changes |=",
        new="        if True:\n            changes |=",
        red=[TESTS + "test_what_fell_due_is_skipped_in_batches_and_only_the_last_lets_claims_go"],
    ),
    Mutation(
        name="maintenance-skips-what-fell-due-in-it",
        mechanism="Scheduled runs that waited before it began are not skipped for it.",
        file=SERVICE,
        old="        run__scheduled_for__gt=after,\n",
        new="",
        red=[TESTS + "test_at_its_end_what_fell_due_in_it_is_skipped_and_the_rest_goes_on_with_the_same_ids"],
    ),
    Mutation(
        name="maintenance-skips-scheduled-runs-only",
        mechanism="Manual runs and replays wait for its end and then run.",
        file=SERVICE,
        old="        run__kind=Run.Kind.SCHEDULED,\n",
        new="",
        red=[TESTS + "test_at_its_end_what_fell_due_in_it_is_skipped_and_the_rest_goes_on_with_the_same_ids"],
    ),
    Mutation(
        name="maintenance-gives-slots-back",
        mechanism="A run that is skipped at its end gives its slots back.",
        file=SERVICE,
        old="        slots.delete()\n",
        new="",
        red=[TESTS + "test_a_skipped_run_gives_its_slot_back"],
    ),
    Mutation(
        name="maintenance-ends-at-its-instant",
        mechanism="The reaper ends it when its end has come and not before.",
        file=SERVICE,
        old="if row is None or (only_if_over and (row.until is None or row.until > now)):",
        new="if row is None or (only_if_over and row.until is None):",
        red=[TESTS + "test_it_ends_by_itself_and_never_starts_what_it_skips"],
    ),
    Mutation(
        name="maintenance-ended-once",
        mechanism="Of many who end it at once one does: they take turns by the lock of its row.",
        file=SERVICE,
        old=".select_for_update().filter(is_on=True).first()\n        if row is None or",
        new=".filter(is_on=True).first()\n        if row is None or",
        red=[TESTS + "test_many_who_begin_and_end_it_at_once_make_one_of_it"],
        database="postgresql",
    ),
    Mutation(
        name="maintenance-end-wakes-polls",
        mechanism="Its end wakes the polls that wait, on every server.",
        file=SERVICE,
        old="            wake()\n",
        new="",
        red=[TESTS + "test_its_end_is_told_to_every_server"],
    ),
    Mutation(
        name="maintenance-of-all-tenants",
        mechanism="A key of one tenant does not hold the dispatch of the others.",
        file="scheduler/api/views/job_control.py",
        old="    if view.principal.tenant is not None:\n",
        new="    if False:\n",
        red=["tests/scheduler/api/test_job_control.py::test_a_key_of_one_tenant_does_not_hold_the_others"],
    ),
]
