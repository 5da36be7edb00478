"""Zero-downtime upgrades: what a migration may take from the processes of the version before."""

from tests.mutations.record import Mutation

HERE = "tests/schema/test_additive.py::"
RULES = "tests/schema/additive.py"

RECORDS = [
    Mutation(
        name="additive-new-columns-have-a-value",
        mechanism="The database gives a new column a value where the version before writes none.",
        file="runners/migrations/0007_drained_runners.py",
        old="                db_default=False,\n",
        new="",
        red=[HERE + "test_what_the_first_version_of_a_table_writes_is_still_taken"],
    ),
    Mutation(
        name="additive-the-database-says-what-the-code-says",
        mechanism="The value that the database gives is the one that the code gives.",
        file="scheduler/migrations/0011_alert_conditions_and_exemptions.py",
        old="models.BooleanField(db_default=True, ",
        new="models.BooleanField(db_default=False, ",
        red=[HERE + "test_what_the_first_version_of_a_table_writes_is_still_taken"],
    ),
    Mutation(
        name="additive-nothing-is-taken-away",
        mechanism="A migration after the first release that removes or renames is refused.",
        file=RULES,
        old="    if isinstance(operation, TAKES_AWAY):\n",
        new="    if False:\n",
        red=[
            HERE + "test_what_the_version_before_could_not_live_with_is_refused",
            HERE + "test_before_the_first_release_it_was_not_so_and_is_found",
        ],
    ),
    Mutation(
        name="additive-no-column-without-a-value",
        mechanism="A migration after the first release that adds a column which the database cannot fill is refused.",
        file=RULES,
        old="isinstance(operation, operations.AddField) and not _has_a_value(operation.field)",
        new="False",
        red=[HERE + "test_what_the_version_before_could_not_live_with_is_refused"],
    ),
    Mutation(
        name="additive-what-comes-in-is-a-migrations-own",
        mechanism="A table that a migration makes itself it may do anything with.",
        file=RULES,
        old="None if _model(part) in new else _refusal(",
        new="_refusal(",
        red=[HERE + "test_what_the_same_migration_makes_is_its_own"],
    ),
    Mutation(
        name="additive-big-tables-are-not-locked",
        mechanism="A later migration that lets writers wait while an index of a big table is built is refused.",
        file=RULES,
        old="        return not isinstance(operation, AddIndexConcurrently) or migration.atomic\n",
        new="        return False\n",
        red=[HERE + "test_an_index_of_a_big_table_is_built_beside_those_who_write_it"],
    ),
]
