"""Bulk operations: nothing more than was shown, each row once."""

from tests.mutations.record import Mutation

RUNS = "tests/scheduler/api/test_bulk_runs.py::"
JOBS = "tests/scheduler/api/test_bulk_jobs.py::"
RACES = "tests/scheduler/api/test_bulk_races.py::"

RECORDS = [
    Mutation(
        name="bulk-expected-count",
        mechanism="Where another number matches than the expected one, nothing is changed.",
        file="scheduler/api/bulk.py",
        old="        if asked.expected is not None and asked.expected != matched:\n",
        new="        if False:\n",
        red=[
            RUNS + "test_another_number_than_the_expected_changes_nothing",
            JOBS + "test_all_are_meant_only_where_all_is_said",
        ],
    ),
    Mutation(
        name="bulk-says-how-many",
        mechanism="Who names rows by filters alone must say how many are meant.",
        file="scheduler/api/bulk.py",
        old="    elif not dry_run and not is_named:\n",
        new="    elif False:\n",
        red=[RUNS + "test_filters_without_a_number_are_refused", JOBS + "test_all_are_meant_only_where_all_is_said"],
    ),
    Mutation(
        name="bulk-dry-run",
        mechanism="A dry run changes nothing.",
        file="scheduler/api/bulk.py",
        old="    if not asked.dry_run:\n",
        new="    if True:\n",
        red=[RUNS + "test_what_is_counted_is_cancelled_and_nothing_else"],
    ),
    Mutation(
        name="bulk-cancel-what-was-shown",
        mechanism="A run that was shown as waiting and was claimed since is not cancelled.",
        file="scheduler/services/cancel.py",
        old="if run_id in entries and entries[run_id].state in only]",
        new="if run_id in entries]",
        red=[RUNS + "test_a_run_that_is_claimed_between_the_look_and_the_lock_is_left_alone"],
    ),
    Mutation(
        name="bulk-cancel-of-the-tenant",
        mechanism="Filters match the runs of the key's tenant alone.",
        file="scheduler/api/views/bulk_runs.py",
        old="    return RunFilter(tenant=view.principal.tenant, planned=planned, **given)\n",
        new="    return RunFilter(tenant=None, planned=planned, **given)\n",
        red=[RUNS + "test_a_tenant_touches_its_own_alone"],
    ),
    Mutation(
        name="bulk-jobs-of-the-tenant",
        mechanism="A selection of jobs has those of the key's tenant alone.",
        file="scheduler/queries/bulk.py",
        old="    jobs = live_jobs(tenant).order_by",
        new="    jobs = live_jobs(None).order_by",
        red=[JOBS + "test_tags_are_given_and_taken_and_the_others_stay"],
    ),
    Mutation(
        name="bulk-bounded",
        mechanism="One request touches a bounded number of rows and says that there are more.",
        file="scheduler/queries/bulk.py",
        old='    found = list(rows.values_list("pk", flat=True)[: MOST + 1])\n',
        new='    found = list(rows.values_list("pk", flat=True))\n    return Matches(found, False)\n',
        red=[RUNS + "test_more_than_one_request_takes_are_said_and_done_in_turn"],
    ),
    Mutation(
        name="bulk-refusal-stops-one",
        mechanism="A row that a rule keeps from being changed is told, and the others are changed.",
        file="scheduler/services/bulk.py",
        old="            done.refused.append((each, refusal))\n",
        new="            raise refusal\n",
        red=[
            JOBS + "test_one_that_cannot_be_changed_says_why_and_the_others_are",
            RUNS + "test_letters_are_replayed_as_counted_and_one_that_is_too_old_says_why",
        ],
    ),
    Mutation(
        name="bulk-replay-once",
        mechanism="A run that is replayed already is not replayed again, also not by two at once.",
        file="scheduler/services/replays.py",
        old="        if Run.objects.filter(replay_of_id=run_id).exists():\n",
        new="        if False:\n",
        red=[RACES + "test_two_who_replay_the_same_runs_make_each_once"],
    ),
    Mutation(
        name="bulk-replay-not-shown-again",
        mechanism="What was replayed already is not counted among what can be.",
        file="scheduler/queries/bulk.py",
        old=".filter(~Exists(_AGAIN), job__deleted_at__isnull=True)\n",
        new=".filter(job__deleted_at__isnull=True)\n",
        red=[RUNS + "test_what_ended_is_done_once_more_and_only_once"],
    ),
    Mutation(
        name="bulk-tags-under-the-lock",
        mechanism="Tags are read under the job's lock: those that somebody else gives at this moment stay.",
        file="scheduler/services/bulk.py",
        old="        job = lock_job_of_key(job_key, principal)\n",
        new='        job = __import__("scheduler.models", fromlist=["Job"]).Job.objects.get(job_key=job_key)\n',
        red=[RACES + "test_two_who_tag_one_job_at_once_both_have_their_tag"],
        database="postgresql",
    ),
]
