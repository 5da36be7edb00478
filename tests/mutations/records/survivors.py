"""Mechanisms that nobody had taken away: of planning, retention and the counts of rare events."""

from tests.mutations.record import Edit, Mutation

PLANNING = "scheduler/services/planning.py"
ADMIT_FILE = "scheduler/services/admit.py"
CAPS_FILE = "scheduler/services/caps.py"
MISSED_FILE = "scheduler/services/missed.py"
SITUATION = "scheduler/queries/situation.py"
RETENTION = "scheduler/services/retention.py"
TALLY = "scheduler/services/tally.py"

ADMITTED = "tests/scheduler/budgets/test_admit.py::"
PLANS = "tests/scheduler/planning/test_materialize.py::"
CAPS = "tests/scheduler/planning/test_caps.py::"
MISSED = "tests/scheduler/planning/test_missed.py::"
KEPT = "tests/scheduler/workers/test_retention.py::"
FOLDED = "tests/scheduler/metrics/test_tally.py::"
WAKES = "tests/scheduler/planning/test_wakes_of_edits.py::"

RECORDS = [
    Mutation(
        name="planned-runs-wake",
        mechanism="What a materializer plans is said to the polls that wait for it.",
        file=PLANNING,
        old="        wake(sorted({run.lane_id for run in inserted}))\n",
        new="",
        red=[WAKES + "test_what_a_materializer_plans_is_said_to_those_who_wait_for_it"],
    ),
    Mutation(
        name="late-fires-are-admitted-with-their-runs",
        mechanism="A fire of a limited job that is planned late gets the slot that is free with its run.",
        file=PLANNING,
        old="        settle_jobs_later({run.job_id for run in inserted if run.state == gated and "
        "run.scheduled_for <= at}, now)\n",
        new="",
        red=[WAKES + "test_a_fire_that_is_caught_up_gets_the_slot_that_is_free_with_its_run"],
    ),
    Mutation(
        name="resumed-runs-wake",
        mechanism="What a resume lets go is said to the polls that wait for it.",
        file="scheduler/services/pause.py",
        old="    wake([job.lane_id])\n",
        new="",
        red=[WAKES + "test_what_a_resume_lets_go_is_said_to_those_who_wait_for_it"],
    ),
    Mutation(
        name="resumed-runs-are-admitted",
        mechanism="A tried run of a limited job that a resume lets go gets the slot that is free.",
        file="scheduler/services/pause.py",
        old="    if is_limited(job):\n        settle_later([domain_of(job)], now)\n    wake(",
        new="    wake(",
        red=[WAKES + "test_a_tried_run_that_a_resume_lets_go_gets_the_slot_that_is_free"],
    ),
    Mutation(
        name="plan-no-cursor-goes-back",
        mechanism="A share of what may be planned that shrinks takes no cursor back.",
        edits=[
            Edit(PLANNING, "    cursor = max(cursor, end)\n", "    cursor = end\n"),
            Edit("scheduler/services/plain.py", "        cursor = max(cursor, end)\n", "        cursor = end\n"),
        ],
        red=[
            CAPS + "test_a_share_that_shrinks_takes_no_cursor_back[plain]",
            CAPS + "test_a_share_that_shrinks_takes_no_cursor_back[whole]",
        ],
    ),
    Mutation(
        name="skipped-ahead-is-kept-until-its-time",
        mechanism="A run that was skipped long before its instant stays until then: forgotten, it would come again.",
        file=RETENTION,
        old="        scheduled_for__lt=until,\n",
        new="",
        red=[KEPT + "test_a_fire_that_was_skipped_before_its_time_is_remembered_until_then"],
    ),
    Mutation(
        name="revived-while-looked-for-is-kept",
        mechanism="An old run is asked again, locked, before it is deleted: a backfill may have revived it.",
        file=RETENTION,
        old="taken_still(old.filter(pk__in=batch)",
        new="taken_still(Run.objects.filter(pk__in=batch)",
        red=[KEPT + "test_a_skipped_run_that_is_revived_while_it_is_looked_for_stays"],
    ),
    Mutation(
        name="tallies-fold-by-job",
        mechanism="Rare events of one job are not folded into those of another.",
        file=TALLY,
        old="filter(kind=kind, label=label, job_id=job_id)",
        new="filter(kind=kind, label=label)",
        red=[FOLDED + "test_what_is_folded_is_of_one_label_and_one_job"],
    ),
    Mutation(
        name="tallies-fold-by-label",
        mechanism="Rare events of one kind are not folded into those of another label.",
        file=TALLY,
        old="filter(kind=kind, label=label, job_id=job_id)",
        new="filter(kind=kind, job_id=job_id)",
        red=[FOLDED + "test_what_is_folded_is_of_one_label_and_one_job"],
    ),
    Mutation(
        name="outage-breaks-no-trigger",
        mechanism="A database that is away while a trigger is planned is no fault of the trigger, which would rest.",
        file=PLANNING,
        old="    except DatabaseError:\n        raise\n",
        new="",
        red=[PLANS + "test_a_database_that_is_away_breaks_no_trigger[batch]"],
    ),
    Mutation(
        name="outage-breaks-no-trigger-alone",
        mechanism="Nor is it where each trigger is tried alone.",
        file="scheduler/services/materialize.py",
        old="            if is_outage(error):\n                raise\n            reason =",
        new="            reason =",
        red=[PLANS + "test_a_database_that_is_away_breaks_no_trigger[alone]"],
    ),
    Mutation(
        name="plan-counts-what-is-planned",
        mechanism="A share is one of the triggers that are planned, not of those that are switched off or done.",
        file=CAPS_FILE,
        old=".filter(enabled=True, next_materialize_at__isnull=False)",
        new="",
        red=[CAPS + "test_the_share_is_of_those_that_are_planned_and_is_counted_again_when_the_clock_went_back"],
    ),
    Mutation(
        name="plan-counts-again-when-the-clock-went-back",
        mechanism="A count of triggers that was made later than now is none.",
        file=CAPS_FILE,
        old="not _counted[0] <= now < _counted[0] + COUNT_EVERY",
        new="not now < _counted[0] + COUNT_EVERY",
        red=[CAPS + "test_the_share_is_of_those_that_are_planned_and_is_counted_again_when_the_clock_went_back"],
    ),
    Mutation(
        name="plan-nothing-that-is-off",
        mechanism="A trigger that is switched off is not planned, whatever its next instant says.",
        file="scheduler/sql/due.py",
        old='_LIVE = "t.enabled AND ',
        new='_LIVE = "',
        red=[PLANS + "test_whatever_is_switched_off_is_not_planned_though_it_was_due"],
    ),
    Mutation(
        name="caught-up-fires-are-decided",
        mechanism="Fires that are caught up were decided by the catch-up: no overlap policy skips them once more.",
        file="scheduler/sql/planned.py",
        old="CASE WHEN scheduled_for <= %s THEN scheduled_for END",
        new="CASE WHEN scheduled_for <= %s THEN NULL END",
        red=["tests/scheduler/budgets/test_policies.py::test_fires_that_are_caught_up_are_not_decided_about_once_more"],
    ),
    Mutation(
        name="undecided-fires-get-no-slot",
        mechanism="A fire about which no policy has decided yet is not admitted.",
        file=ADMIT_FILE,
        old="passed_over_at=None, waits_since__isnull=False",
        new="passed_over_at=None",
        red=[ADMITTED + "test_a_fire_about_which_nothing_is_decided_yet_gets_no_slot"],
    ),
    Mutation(
        name="admitted-runs-wake",
        mechanism="A run that is admitted is said to the polls that wait for it.",
        file=ADMIT_FILE,
        old="    wake({entry.lane_id for entry, _ in chosen})\n",
        new="",
        red=[WAKES + "test_an_admitted_run_is_said_to_those_who_wait_for_it"],
    ),
    Mutation(
        name="domain-of-the-job-ends-with-its-group",
        mechanism="The runs of a job in a group are admitted under the lock of the group alone.",
        file=ADMIT_FILE,
        old="Q(pk=key, concurrency_group=None) if",
        new="Q(pk=key) if",
        red=[ADMITTED + "test_what_moved_to_another_domain_is_not_admitted_under_the_lock_of_its_old_one"],
    ),
    Mutation(
        name="domains-end-with-the-tenants-limit",
        mechanism="While tenants are limited, runs are admitted under the lock of their tenant alone; and never else.",
        file=ADMIT_FILE,
        old='    if (kind == "tenant") != (cap is not None):\n        return Job.objects.none()\n',
        new="",
        red=[ADMITTED + "test_what_moved_to_another_domain_is_not_admitted_under_the_lock_of_its_old_one"],
    ),
    Mutation(
        name="what-winds-down-is-counted",
        mechanism="A handler that is still going down has its place under a limit that is new.",
        file=ADMIT_FILE,
        old="running = [State.CLAIMED, State.STOPPING]",
        new="running = [State.CLAIMED]",
        red=[
            "tests/scheduler/budgets/test_edits.py::"
            "test_a_handler_that_is_still_going_down_keeps_its_place_under_a_new_limit"
        ],
    ),
    Mutation(
        name="now-tells-of-no-deleted-job",
        mechanism="A job that was deleted while it failed, or was paused, is not told of for ever.",
        edits=[
            Edit(SITUATION, "newest = live_jobs().annotate", "newest = Job.objects.annotate"),
            Edit(SITUATION, 'rows = live_jobs().order_by("job_key")', 'rows = Job.objects.order_by("job_key")'),
            Edit(SITUATION, "import Lane, Maintenance, Run", "import Job, Lane, Maintenance, Run"),
        ],
        red=["tests/scheduler/dashboard/test_now.py::test_of_a_deleted_job_nothing_is_told"],
    ),
    Mutation(
        name="metrics-a-capability-is-that-of-the-poorest",
        mechanism="A capability that several tenants require has as many runners as the tenant that has the fewest.",
        file="scheduler/queries/gauges.py",
        old="min(count, found.get(name, count))",
        new="count",
        red=[
            "tests/scheduler/metrics/test_gauges.py::"
            "test_a_capability_that_a_job_requires_is_there_with_the_runners_that_have_it"
        ],
    ),
    Mutation(
        name="missed-is-never-what-somebody-asked-for",
        mechanism="A run that somebody asked for while nobody served runs, whatever the job's catch-up policy.",
        file=MISSED_FILE,
        old="        run__kind=Run.Kind.SCHEDULED,\n",
        new="",
        red=[MISSED + "test_what_somebody_asked_for_while_nobody_served_runs"],
    ),
    Mutation(
        name="missed-of-limited-jobs-too",
        mechanism="The catch-up policy also decides about the missed runs of a limited job, which wait for slots.",
        file=MISSED_FILE,
        old="        state__in=[QueueEntry.State.READY, QueueEntry.State.GATED],\n        attempt=0",
        new="        state__in=[QueueEntry.State.READY],\n        attempt=0",
        red=[MISSED + "test_a_limited_job_keeps_what_its_policy_wants_and_the_slot_goes_to_that"],
    ),
    Mutation(
        name="missed-gives-slots-back",
        mechanism="A missed run that is skipped gives its slots back.",
        file=MISSED_FILE,
        old="    Slot.objects.filter(run_id__in=[entry.run_id for entry in entries]).delete()\n",
        new="",
        red=[MISSED + "test_a_limited_job_keeps_what_its_policy_wants_and_the_slot_goes_to_that"],
    ),
    Mutation(
        name="missed-hands-slots-on",
        mechanism="What a missed run had goes to the one that its policy keeps.",
        file=MISSED_FILE,
        old="    settle_jobs_later({job.pk}, now)\n",
        new="",
        red=[MISSED + "test_a_limited_job_keeps_what_its_policy_wants_and_the_slot_goes_to_that"],
    ),
    Mutation(
        name="missed-is-asked-again-under-its-lock",
        mechanism="A run that was claimed since it was found missed keeps its slot: what runs is counted.",
        file=MISSED_FILE,
        old="(run_id__in=run_ids, attempt=0, state__in=[QueueEntry.State.READY, QueueEntry.State.GATED])",
        new="(run_id__in=run_ids)",
        red=[MISSED + "test_a_claim_that_comes_after_the_look_keeps_its_run_and_its_slot"],
    ),
    Mutation(
        name="missed-gives-way-to-live-triggers-only",
        mechanism="No missed run gives way to the newer fires of a trigger that is switched off or broken.",
        file=MISSED_FILE,
        old='enabled=True, config_error="", cursor_at__lt=now',
        new="cursor_at__lt=now",
        red=[
            MISSED + "test_no_run_gives_way_to_a_newer_fire_that_does_not_come[disabled]",
            MISSED + "test_no_run_gives_way_to_a_newer_fire_that_does_not_come[broken]",
        ],
    ),
    Mutation(
        name="missed-gives-way-to-no-skipped-run",
        mechanism="Nor does one give way to a newer run that was skipped.",
        file=MISSED_FILE,
        old=".exclude(verdict=Run.Verdict.SKIPPED)",
        new="",
        red=[MISSED + "test_no_run_gives_way_to_a_newer_fire_that_does_not_come[skipped]"],
    ),
    Mutation(
        name="revoked-keys-are-not-rotated",
        mechanism="A key that was revoked makes no new one.",
        file="runners/services/clients.py",
        old="if old.revoked_at is not None or (old.expires_at",
        new="if (old.expires_at",
        red=["tests/scheduler/api/test_api_clients.py::test_a_revoked_key_makes_no_new_one"],
    ),
    Mutation(
        name="timeouts-tell-the-holder",
        mechanism="The runner whose attempt timed out is told at once, also while its poll is held.",
        file="scheduler/services/finish.py",
        old="            tell({entry.holder_id for entry in entries})\n",
        new="",
        red=[WAKES + "test_a_runner_whose_attempt_is_over_is_told_though_it_says_nothing[timed out]"],
    ),
    Mutation(
        name="keys-are-asked-again-before-they-go",
        mechanism="A key that was taken for a new run since it was found expired stands for that run.",
        file=RETENTION,
        old="IdempotencyKey.objects.filter(pk__in=ids, expires_at__lte=now)",
        new="IdempotencyKey.objects.filter(pk__in=ids)",
        red=[KEPT + "test_a_key_that_is_taken_for_a_new_run_in_the_moment_of_its_end_stands_for_that"],
        database="postgresql",
    ),
    Mutation(
        name="retries-wake",
        mechanism="A failed run is said to the polls that wait for it.",
        file="scheduler/services/finish.py",
        old="    wake({failure.entry.lane_id for failure in retried})\n",
        new="",
        red=[WAKES + "test_a_run_that_waits_again_is_said_to_those_who_wait_at_its_lane[failed]"],
    ),
    Mutation(
        name="lost-runs-wake",
        mechanism="A run that was lost is said to the polls that wait for it.",
        file="scheduler/services/release.py",
        old="    wake({entry.lane_id for entry in held if entry.run_id not in used_up})\n",
        new="",
        red=[WAKES + "test_a_run_that_waits_again_is_said_to_those_who_wait_at_its_lane[lost]"],
    ),
    Mutation(
        name="unheard-runs-wake",
        mechanism="A run whose claim nobody heard of is said to the polls that wait for it.",
        file="scheduler/services/release.py",
        old="    wake({entry.lane_id for entry in kept})\n",
        new="",
        red=[WAKES + "test_a_run_that_waits_again_is_said_to_those_who_wait_at_its_lane[unheard]"],
    ),
    Mutation(
        name="coalesce-with-nothing-that-begins",
        mechanism="A request does not coalesce with a run that a claim has in hand.",
        file="scheduler/services/trigger_runs.py",
        old='        .select_for_update(skip_locked=True)\n        .order_by("available_at", "run_id")\n',
        new='        .order_by("available_at", "run_id")\n',
        red=[
            "tests/scheduler/planning/test_trigger_runs.py::"
            "test_a_request_does_not_coalesce_with_a_run_that_a_claim_has_in_hand"
        ],
        database="postgresql",
    ),
    Mutation(
        name="only-what-waits-is-taken-out",
        mechanism="Of runs that are to be cancelled or skipped only those that wait are taken out of the queue.",
        file="scheduler/sql/planned.py",
        old=" AND state IN {_WAITING} {fresh}",
        new=" {fresh}",
        red=[
            "tests/scheduler/conformance/test_planned.py::"
            "test_what_a_runner_has_is_taken_out_of_the_queue_by_nobody_else"
        ],
    ),
]
