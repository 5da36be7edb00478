"""What a breaker broke: fires that meet in one statement, and locks that were taken in a circle."""

from tests.mutations.record import Edit, Mutation

_GROUPS = "tests/scheduler/budgets/test_group_races.py::"
_REPLANS = "tests/scheduler/planning/test_replan_races.py::test_planned_runs_"
_MEETING = "tests/scheduler/planning/test_meeting_triggers.py::"

RECORDS = [
    Mutation(
        name="locks-meeting-fires-once-a-statement",
        mechanism="A fire at which two triggers of a job meet stands once in the statement that plans it.",
        file="scheduler/sql/planned.py",
        old="return runs if len(found) == len(runs) else list(found.values())",
        new="return runs",
        red=[
            _MEETING + "test_a_batch_in_which_two_triggers_of_a_job_meet_is_planned_as_a_batch",
            _MEETING + "test_the_statement_takes_a_fire_that_is_named_twice_once",
        ],
    ),
    Mutation(
        name="locks-meeting-fires-earliest-occurrence",
        mechanism="Of the fires that meet the earliest occurrence is kept, whatever statement it would stand in.",
        file="scheduler/services/planning.py",
        old="rows = each_once([run for plan in plans if plan.fires for run in _planned_runs(plan)])",
        new="rows = [run for plan in plans if plan.fires for run in _planned_runs(plan)]",
        red=[_MEETING + "test_where_they_meet_the_earliest_occurrence_is_kept_whatever_statement_it_stands_in"],
    ),
    Mutation(
        name="locks-takeover-in-the-order-of-ids",
        mechanism="A takeover, or a release, locks all that its instances hold in the order of acks before it begins.",
        file="scheduler/services/release.py",
        old="    queue.lock_entries(run_id for holding in holdings.values() "
        "for run_id in (*holding.claims, *holding.stopping))\n",
        new="",
        red=[
            "tests/scheduler/edge/test_takeover_deadlock.py::"
            "test_an_array_of_acks_and_a_takeover_do_not_wait_for_each_other_in_a_circle"
        ],
        database="postgresql",
    ),
    Mutation(
        name="locks-group-stays-for-its-new-job",
        mechanism="A group into which a job is put stays as it is until that is committed.",
        file="scheduler/services/groups.py",
        old="if group is None or not share_group(group.pk):",
        new="if group is None:",
        red=[
            _GROUPS + "test_a_group_into_which_a_job_is_being_put_is_in_use",
            _GROUPS + "test_a_job_is_put_into_a_group_while_its_limit_is_edited_and_nobody_waits_in_a_circle",
        ],
        database="postgresql",
    ),
    Mutation(
        name="locks-group-that-is-gone-is-refused",
        mechanism="Who waited for a group's deletion is told that there is none of that name.",
        edits=[
            Edit(
                "scheduler/services/groups.py",
                "if group is None or not share_group(group.pk):",
                "if group is None or (share_group(group.pk) and False):",
            ),
            Edit("scheduler/services/jobs.py", "    columns = dict(columns)\n", ""),
        ],
        red=[_GROUPS + "test_a_group_that_is_deleted_while_a_job_is_put_into_it_is_refused_by_name"],
        database="postgresql",
    ),
    Mutation(
        name="locks-deleted-group-was-asked-under-its-lock",
        mechanism="Whether jobs use a group is asked once whoever puts one into it has committed.",
        file="scheduler/services/groups.py",
        old="return ConcurrencyGroup.objects.select_for_update()",
        new="return ConcurrencyGroup.objects.select_for_update(no_key=True)",
        red=[_GROUPS + "test_a_group_into_which_a_job_is_being_put_is_in_use"],
        database="postgresql",
    ),
    Mutation(
        name="locks-group-asked-anew-by-each-try",
        mechanism="Who loses the race for a job's key reads what it said anew: for the winner's job, and its tenant.",
        file="scheduler/services/jobs.py",
        old="    columns = dict(columns)\n",
        new="",
        red=[_GROUPS + "test_the_loser_of_two_that_make_a_job_edits_the_winners_by_the_groups_of_its_tenant"],
        database="postgresql",
    ),
    Mutation(
        name="locks-what-goes-in-the-order-of-ids",
        mechanism="What is taken out of the queue is locked in the order of ids, as acks and cancels lock, not as met.",
        file="scheduler/sql/planned.py",
        old='        _run_ids(f"WITH {listed} SELECT run_id {found} ORDER BY run_id FOR UPDATE", params)\n',
        new="        pass\n",
        red=[_REPLANS + "are_cancelled_while_an_edit_of_their_job_reaches_them"],
        database="postgresql",
    ),
    Mutation(
        name="locks-retries-in-the-order-of-ids",
        mechanism="An edit of retries or losses locks the entries it reaches in the order of ids.",
        file="scheduler/services/jobs.py",
        old='"timeout_seconds", "max_retries", "max_losses"}',
        new='"timeout_seconds"}',
        red=[_REPLANS + "are_cancelled_while_an_edit_of_their_job_reaches_them"],
        database="postgresql",
    ),
    Mutation(
        name="locks-calendars-jobs-at-once",
        mechanism="What an edited calendar takes from several jobs is taken in one order of ids, not job by job.",
        file="scheduler/services/replan.py",
        old="removed = _remove(chain.from_iterable(unwanted))",
        new="removed = sum(map(_remove, unwanted))",
        red=[_REPLANS + "of_two_jobs_are_cancelled_while_the_calendar_of_both_is_closed"],
        database="postgresql",
    ),
    Mutation(
        name="locks-clock-back-jobs-at-once",
        mechanism="What a clock that went back takes from several jobs is taken in one order of ids, not job by job.",
        file="scheduler/services/replan.py",
        old="return _remove([run_id for job in jobs for run_id in planned_of(job, after)])",
        new="return sum(_remove(planned_of(job, after)) for job in jobs)",
        red=[_REPLANS + "of_two_jobs_are_cancelled_while_a_clock_that_went_back_takes_both_back"],
        database="postgresql",
    ),
]
