"""Dead letters as work: what is a group, what an action on all of it may touch."""

from tests.mutations.record import Edit, Mutation

LETTERS = "tests/scheduler/dashboard/test_letters.py::"
FINGERPRINTS = "tests/scheduler/domain/test_fingerprints.py::"
GROUPS = "scheduler/queries/letter_groups.py"
SERVICE = "scheduler/services/letter_groups.py"

RECORDS = [
    Mutation(
        name="fingerprints-leave-numbers-out",
        mechanism="Errors that differ by a number alone have one fingerprint.",
        file="scheduler/domain/fingerprints.py",
        old="        text = pattern.sub(mark, text)\n",
        new="        text = pattern.sub(mark, text) if mark != '<n>' else text\n",
        red=[FINGERPRINTS + "test_what_differs_from_run_to_run_is_taken_out"],
    ),
    Mutation(
        name="fingerprints-of-a-traceback-its-end",
        mechanism="A traceback is grouped by its last line.",
        file="scheduler/domain/fingerprints.py",
        old="    if _TRACEBACK in error[:_MOST_READ]:\n",
        new="    if False:\n",
        red=[FINGERPRINTS + "test_what_differs_from_run_to_run_is_taken_out"],
    ),
    Mutation(
        name="fingerprints-short",
        mechanism="A fingerprint fits its column, whatever the error.",
        file="scheduler/domain/fingerprints.py",
        old='" ".join(text.split())[:MOST_CHARACTERS]',
        new='" ".join(text.split())',
        red=[FINGERPRINTS + "test_of_any_error_it_is_one_short_line"],
    ),
    Mutation(
        name="letters-have-their-fingerprint",
        mechanism="A letter is grouped by its error from its beginning.",
        file="scheduler/services/queue.py",
        old="        fingerprint=fingerprint_of(ending.error, ending.reason),\n",
        new='        fingerprint="",\n',
        red=[
            "tests/scheduler/planning/test_letter_groups.py::test_a_letter_says_what_its_error_has_in_common_with_others"
        ],
    ),
    Mutation(
        name="letters-to-do-are-those-not-replayed",
        mechanism="Of a group those are to do that were not replayed; the group with the most is first.",
        file=GROUPS,
        old='waiting=Count("pk", filter=Q(run__replays__isnull=True, job__deleted_at__isnull=True)),',
        new='waiting=Count("pk", filter=Q(job__deleted_at__isnull=True)),',
        red=[
            LETTERS + "test_equal_errors_are_one_group_over_all_jobs",
            LETTERS + "test_the_group_with_the_most_to_do_is_first",
        ],
    ),
    Mutation(
        name="letters-as-many-as-were-shown",
        mechanism="An action on all letters does nothing where there are others than were shown.",
        file=SERVICE,
        old="    if total != expected:\n",
        new="    if False:\n",
        red=[LETTERS + "test_nothing_is_done_where_there_are_other_letters_than_were_shown"],
    ),
    Mutation(
        name="letters-after-the-look-are-not-meant",
        mechanism="Letters that come after the page was looked at are not touched.",
        file=GROUPS,
        old="    if choice.until is not None:\n",
        new="    if False:\n",
        red=[LETTERS + "test_nothing_is_done_where_there_are_other_letters_than_were_shown"],
    ),
    Mutation(
        name="letters-stale-ones-by-force-alone",
        mechanism="Of a group those that are too old are replayed only if it is said.",
        file=SERVICE,
        old="if force or pk not in found.stale_ids]",
        new="if True]",
        edits=[Edit(SERVICE, "actor, force=force).is_new", "actor, force=True).is_new")],
        red=[LETTERS + "test_all_of_a_group_are_replayed_after_it_was_said_what_that_means"],
    ),
    Mutation(
        name="letters-replayed-in-parts",
        mechanism="One call replays so many letters at most, the oldest first, and says what is left.",
        file=SERVICE,
        old="    for letter_id in wanted[:MOST_REPLAYED]:\n",
        new="    for letter_id in wanted:\n",
        red=[LETTERS + "test_a_great_many_are_replayed_in_parts"],
    ),
    Mutation(
        name="letters-edited-metadata",
        mechanism="A replay with edited metadata runs with that.",
        file="scheduler/services/replays.py",
        old="metadata=public_metadata(original.metadata) or None if metadata is None else metadata,",
        new="metadata=original.metadata,",
        red=[LETTERS + "test_edited_metadata_takes_the_place_of_the_runs_own"],
    ),
    Mutation(
        name="letters-edited-metadata-is-checked",
        mechanism="Edited metadata is refused by the rules for metadata from anywhere.",
        file="scheduler/services/letters.py",
        old='own = None if metadata is None else metadata_of("metadata", metadata)',
        new="own = metadata",
        red=[LETTERS + "test_metadata_that_is_none_is_refused"],
    ),
    Mutation(
        name="letters-own-metadata-for-editors",
        mechanism="What a run had of its own is shown to those alone who may act.",
        file="templates/dashboard/letter.html",
        old='{% if may_act %}\n<div class="columns below">',
        new='{% if True %}\n<div class="columns below">',
        red=[
            "tests/scheduler/dashboard/test_work_access.py::"
            "test_what_a_run_had_of_its_own_is_shown_to_those_alone_who_may_edit_it"
        ],
    ),
    Mutation(
        name="letters-notes-audited",
        mechanism="A note on a letter is audited with what stood there before.",
        file="scheduler/services/letters.py",
        old='_event("dead_letter.noted", str(letter_id), actor, tenant, diff)',
        new="*[]",
        red=[LETTERS + "test_a_note_stays_on_the_letter"],
    ),
]
