"""Runs that somebody asked for at an instant to come."""

from tests.mutations.record import Mutation

LATER = "tests/scheduler/planning/test_run_later.py::"
TRIGGER = "scheduler/services/trigger_runs.py"
PLANNED = LATER + "test_a_run_for_later_is_planned_until_its_instant_and_due_from_then_on"
BOUNDED = LATER + "test_runs_for_later_do_not_fill_the_queue_and_are_bounded_by_themselves"
NO_FIRE = LATER + "test_it_is_no_fire_of_a_schedule"

RECORDS = [
    Mutation(
        name="run-later-bound-counts-no-fires",
        mechanism="Fires that are planned already leave the places of what is asked for later.",
        file=TRIGGER,
        old='        waits_since__lt=F("available_at"),\n',
        new="",
        red=[BOUNDED],
    ),
    Mutation(
        name="run-later-bound-counts-no-retries",
        mechanism="A run that backs off was not asked for later.",
        file=TRIGGER,
        old="        attempt=0,\n        available_at__gt=now,\n",
        new="        available_at__gt=now,\n",
        red=[BOUNDED],
    ),
    Mutation(
        name="later-waits-for-its-instant",
        mechanism="A run that is asked for later is due at its instant and not before.",
        file=TRIGGER,
        old="            available_at=wish.run_at,\n",
        new="",
        red=[PLANNED],
    ),
    Mutation(
        name="later-is-never-skipped",
        mechanism="The rules about fires that fall due skip no run that somebody asked for.",
        file=TRIGGER,
        old="        waits_since=now,\n",
        new="        waits_since=None if available_at else now,\n",
        red=[LATER + "test_where_the_job_is_busy_a_run_for_later_waits_and_is_never_skipped"],
    ),
    Mutation(
        name="later-fills-no-queue",
        mechanism="What is asked for later is not due until then: it does not fill the queue.",
        file=TRIGGER,
        old='waits_since__gte=F("available_at")',
        new="waits_since__isnull=False",
        red=[PLANNED, BOUNDED],
    ),
    Mutation(
        name="later-is-bounded",
        mechanism="No more runs of a job than its queue holds are kept for later.",
        file=TRIGGER,
        old="(waiting if wish.run_at is None else _asked_for_later(job, now))",
        new="(waiting if wish.run_at is None else 0)",
        red=[BOUNDED],
    ),
    Mutation(
        name="later-is-a-run-of-its-own",
        mechanism="A run for later is none that waits already.",
        file=TRIGGER,
        old="if job.coalesce and wish.run_at is None else None",
        new="if job.coalesce else None",
        red=[LATER + "test_a_run_for_later_is_one_of_its_own_and_a_key_is_for_both"],
    ),
    Mutation(
        name="later-has-an-end",
        mechanism="Nothing is kept for longer than ten years.",
        file=TRIGGER,
        old="    if at is not None and at > now + LONGEST:\n",
        new="    if False:\n",
        red=[LATER + "test_no_instant_is_refused_by_name"],
    ),
    Mutation(
        name="later-is-no-fire",
        mechanism="A run for later is not the next fire of a schedule, nor hides it that nobody plans.",
        file="scheduler/queries/jobs.py",
        old="attempt=0, waits_since__isnull=True)",
        new="attempt=0)",
        red=[NO_FIRE],
    ),
    Mutation(
        name="later-is-no-fire-of-a-gauge",
        mechanism="The gauge of a job's next fire knows its schedules alone.",
        file="scheduler/sql/gauges.py",
        old="            AND q.waits_since IS NULL\n",
        new="",
        red=[NO_FIRE],
    ),
]
