"""Retention: what may go, what may not, how much at a time."""

from tests.mutations.record import Mutation

HERE = "tests/scheduler/workers/test_retention.py::"
RACE = "tests/scheduler/planning/test_replay_race.py::"
FILE = "scheduler/services/retention.py"


def _record(name: str, mechanism: str, old: str, new: str, *red: str) -> Mutation:
    return Mutation(name=name, mechanism=mechanism, file=FILE, old=old, new=new, red=[HERE + test for test in red])


RECORDS = [
    _record(
        "retention-keeps-what-is-queued",
        "A run with an entry is not deleted.",
        '        ~Exists(QueueEntry.objects.filter(run=OuterRef("pk"))),\n',
        "",
        "test_runs_that_somebody_still_needs_stay",
    ),
    _record(
        "retention-keeps-lettered-runs",
        "A run whose letter is kept stays.",
        '        ~Exists(DeadLetter.objects.filter(run=OuterRef("pk"))),\n',
        "",
        "test_runs_that_somebody_still_needs_stay",
    ),
    _record(
        "retention-keeps-replayed-runs",
        "What a kept run repeats stays.",
        '        ~Exists(Run.objects.filter(replay_of=OuterRef("pk"))),\n',
        "",
        "test_runs_that_somebody_still_needs_stay",
    ),
    _record(
        "retention-counts-from-the-end",
        "A run that was due long ago and ended just now is kept.",
        "        finished_at__lt=until,\n",
        "",
        "test_runs_that_somebody_still_needs_stay",
    ),
    _record(
        "retention-deletes-lines-first",
        "The lines of runs go in batches of their own.",
        "    if len(lines) == limit:\n        return limit\n",
        "",
        "test_the_oldest_runs_go_first_and_no_transaction_deletes_more_lines_than_a_batch",
    ),
    _record(
        "retention-spares-young-lines",
        "Only lines older than their retention go.",
        "for pk, at in first[:limit] if at < until",
        "for pk, at in first[:limit]",
        "test_lines_go_before_their_run",
    ),
    _record(
        "retention-nought-is-for-ever",
        "A retention of 0 keeps for ever.",
        "if seconds > 0 else None",
        "if seconds >= 0 else None",
        "test_for_ever_is_for_ever",
    ),
    _record(
        "retention-remembers-the-deposed",
        "A deposed instance is known for seven days.",
        "DEPOSED_KEPT = timedelta(days=7)",
        "DEPOSED_KEPT = timedelta(days=6)",
        "test_a_deposed_process_is_known_for_seven_days",
    ),
    _record(
        "retention-spares-holders",
        "A runner that holds something is not forgotten.",
        '        ~Exists(QueueEntry.objects.filter(holder__runner=OuterRef("pk"), state__in=_HELD)),\n',
        "",
        "test_a_runner_that_is_long_dead_leaves_the_list_and_not_the_history_of_its_runs",
    ),
    _record(
        "retention-full-batch-looks-full",
        "A full batch of runners makes the reaper go on at once.",
        "return limit if len(found) == max(1, limit // 3) else len(found)",
        "return len(found)",
        "test_thousands_of_one_day_runners_go_batch_by_batch",
    ),
    _record(
        "retention-keeps-the-last-sign",
        "The last heartbeat of a kind is kept: it tells when an outage began.",
        "Exists(later), beat_at__lt",
        "beat_at__lt",
        "test_the_last_sign_of_each_kind_is_kept",
    ),
    Mutation(
        name="retention-asks-again-once-it-has-the-lock",
        mechanism="A replay that is committed between retention's look at a run and its lock keeps the run.",
        file=FILE,
        old='list(rows.filter(pk__in=_taken(rows, limit)).values_list("pk", flat=True))',
        new="_taken(rows, limit)",
        database="postgresql",
        red=[RACE + "test_a_replay_that_is_committed_while_retention_looks_keeps_its_original"],
    ),
]
