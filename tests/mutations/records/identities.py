"""Late words, and the identities of runners told as stories."""

from tests.mutations.record import Mutation

LATE = "tests/scheduler/edge/test_late_words.py::"

RECORDS = [
    Mutation(
        name="late-acks-are-counted",
        mechanism="An ack of who no longer holds the run is audited.",
        file="scheduler/api/work/ack.py",
        old="late = [place for place in places if isinstance(answers[place], Conflict)]",
        new="late = []",
        red=[LATE + "test_the_words_of_an_owner_frozen_past_its_lease_count_for_nothing"],
    ),
    Mutation(
        name="late-renewals-are-counted",
        mechanism="A renewal of who no longer holds the run is audited.",
        file="scheduler/api/work/renew.py",
        old="        (unknown,) = note_late_words([word], now)",
        new="        unknown = None",
        red=[LATE + "test_the_words_of_an_owner_frozen_past_its_lease_count_for_nothing"],
    ),
    Mutation(
        name="late-lines-are-counted",
        mechanism="Lines of who no longer holds the run are audited.",
        file="scheduler/api/work/events.py",
        old='(unknown,) = note_late_words([LateWord(run_id, "events", runner_id or "", principal)], now)',
        new="unknown = None",
        red=[LATE + "test_the_words_of_an_owner_frozen_past_its_lease_count_for_nothing"],
    ),
    Mutation(
        name="lines-of-another-runner",
        mechanism="Lines that name another runner than the holder are refused.",
        file="scheduler/services/log.py",
        old="return runner_id in (None, entry.holder.runner.runner_id) and attempt",
        new="return attempt",
        red=[LATE + "test_the_words_of_an_owner_frozen_past_its_lease_count_for_nothing"],
    ),
    Mutation(
        name="newcomer-back-is-online",
        mechanism="A runner whose process was started anew is online from its first poll on, not from its second.",
        file="scheduler/services/identity.py",
        old=", last_poll_at=now)\n    events",
        new=")\n    events",
        red=[
            "tests/scheduler/edge/test_identity.py::"
            "test_a_runner_that_comes_back_as_another_process_is_online_from_its_first_poll_on"
        ],
    ),
]
