"""Budgets: slots given all or none, handed on, taken back; fires that find their job busy."""

from __future__ import annotations

from tests.mutations.record import Edit, Mutation

ADMIT = "scheduler/services/admit.py"
WAITING = "scheduler/services/waiting.py"
DOMAIN = "scheduler/domain/budgets.py"
JOBS = "scheduler/services/jobs.py"
GROUPS = "scheduler/services/groups.py"
STORIES = "tests/scheduler/budgets/"
OF_ADMIT = STORIES + "test_admit.py::"
EDITS = STORIES + "test_edits.py::"
RACES = STORIES + "test_races.py::"
POLICIES = STORIES + "test_policies.py::"
UNCLAIMED = STORIES + "test_unclaimed.py::"
EDGE = STORIES + "test_edge.py::"

RECORDS = [
    Mutation(
        name="slot-is-unique",
        mechanism="The database refuses a slot that is taken.",
        edits=[
            Edit(
                "scheduler/migrations/0001_initial.py",
                "models.UniqueConstraint(fields=('budget', 'n'), name='slot_one_run_per_number')",
                "models.CheckConstraint(condition=models.Q(n__gte=0), name='slot_one_run_per_number')",
            ),
            Edit(
                "scheduler/models/queue.py",
                'models.UniqueConstraint(fields=["budget", "n"], name="slot_one_run_per_number")',
                'models.CheckConstraint(condition=Q(n__gte=0), name="slot_one_run_per_number")',
            ),
        ],
        red=[RACES + "test_the_database_refuses_the_same_slot_twice"],
    ),
    Mutation(
        name="budgets-are-kept",
        mechanism="No run is admitted where a budget is used up: all slots or none.",
        file=DOMAIN,
        old="    return all(len(used.get(budget.name, ())) < budget.limit for budget in budgets)\n",
        new="    return True\n",
        red=[
            OF_ADMIT + "test_as_many_are_admitted_as_the_limit_allows_the_oldest_first",
            OF_ADMIT + "test_a_run_gets_all_its_slots_or_none",
            STORIES + "test_properties.py::test_any_sequence_of_events_keeps_the_budgets",
        ],
    ),
    Mutation(
        name="budgets-all-or-none",
        mechanism="A run is admitted only where each of its budgets has a slot left.",
        file=DOMAIN,
        old="    return all(len(used",
        new="    return any(len(used",
        red=[OF_ADMIT + "test_a_run_gets_all_its_slots_or_none"],
    ),
    Mutation(
        name="slots-are-counted",
        mechanism="After a limit was lowered all slots in use count, not only those below it.",
        file=DOMAIN,
        old="    return all(len(used.get(budget.name, ())) < budget.limit for budget in budgets)\n",
        new="    return all(lowest_free(used.get(budget.name, ())) < budget.limit for budget in budgets)\n",
        red=[OF_ADMIT + "test_a_limit_that_was_lowered_is_kept_by_counting_all_that_runs"],
    ),
    Mutation(
        name="admit-only-what-is-due",
        mechanism="No future run holds a slot.",
        file=ADMIT,
        old="(state__in=QueueEntry.WAITING, state=State.GATED, available_at__lte=now)",
        new="(state__in=QueueEntry.WAITING, state=State.GATED)",
        red=[EDITS + "test_nothing_is_admitted_ahead_of_its_time_beside_one_that_is_due"],
    ),
    Mutation(
        name="admit-by-priority",
        mechanism="Within a group the higher priority goes first.",
        file=ADMIT,
        old="key=lambda line: (-line.job.priority, line.head.available_at",
        new="key=lambda line: (line.head.available_at",
        red=[OF_ADMIT + "test_in_a_group_priority_goes_before_age_and_age_before_id"],
    ),
    Mutation(
        name="admit-the-oldest",
        mechanism="The run that waits longest is looked at first: who needs most does not starve.",
        file=ADMIT,
        old="key=lambda line: (-line.job.priority, line.head.available_at, line.head.run_id))",
        new="key=lambda line: (-line.job.priority, -line.head.available_at.timestamp()))",
        red=[OF_ADMIT + "test_the_run_that_needs_most_is_passed_by_only_while_its_own_budgets_are_full"],
    ),
    Mutation(
        name="slots-handed-on",
        mechanism="What gives slots back hands them on in the same transaction.",
        file="scheduler/services/queue.py",
        old="        settle_later((domain_of(entry.job) for entry in limited), now)\n",
        new="",
        red=[OF_ADMIT + "test_the_slot_is_handed_on_in_the_transaction_that_frees_it"],
    ),
    Mutation(
        name="slots-handed-on-by-an-ack",
        mechanism="A completion hands its slots on in the same transaction.",
        edits=[
            Edit(
                "scheduler/services/finish.py",
                "        settle_jobs_later({one.job_id for one in found if one.is_limited and one.is_closed}, now)\n",
                "",
            ),
            Edit(
                "scheduler/services/finish.py",
                "            settle_jobs_later({one.job_id for one in more if one.is_limited}, now)\n",
                "",
            ),
        ],
        red=[OF_ADMIT + "test_finishing_many_hands_on_as_many"],
    ),
    Mutation(
        name="domain-is-locked",
        mechanism="Slots of a domain are given under its lock; a sweep and an ack do not miss each other.",
        file="scheduler/sql/domains.py",
        old="    if not is_postgresql():\n        return\n",
        new="    return\n",
        red=[
            RACES + "test_two_who_admit_at_once_give_the_last_slot_once",
            RACES + "test_an_ack_while_a_sweep_admits_leaves_no_free_slot_behind",
        ],
        database="postgresql",
    ),
    Mutation(
        name="admit-waits-for-nobody",
        mechanism="Under the lock of a domain no row is waited for.",
        edits=[
            Edit(
                ADMIT,
                "        found = list(page.select_for_update(skip_locked=True)",
                "        found = list(page.select_for_update()",
            ),
        ],
        red=[RACES + "test_what_is_being_cancelled_is_left_alone_and_nobody_waits_in_a_circle"],
        database="postgresql",
    ),
    Mutation(
        name="limits-are-set-after-the-claims-in-hand",
        mechanism="An edit of limits waits for whoever has an entry of the job in hand.",
        file=JOBS,
        old='    list(entries.select_for_update().order_by("run_id").values_list("run_id", flat=True))\n',
        new="",
        red=[RACES + "test_an_attempt_that_fails_while_its_job_is_limited_goes_to_wait_for_a_slot"],
        database="postgresql",
    ),
    Mutation(
        name="what-runs-is-counted",
        mechanism="A limit that is set counts what runs already.",
        file=ADMIT,
        old="            if (run_id, name) not in have:\n",
        new="            if False:\n",
        red=[
            EDITS + "test_a_limit_that_is_set_counts_what_runs_already",
            RACES + "test_an_edit_that_limits_a_job_waits_for_the_claim_in_hand_and_counts_it",
        ],
    ),
    Mutation(
        name="limits-re-gate",
        mechanism="An edit of limits takes the slots of what nobody claimed; they are given by the new ones.",
        file=JOBS,
        old="        _bring_limits_to_waiting(job, domain_before, now)\n",
        new="        pass\n",
        red=[
            EDITS
            + "test_a_limit_that_is_raised_admits_more_at_once_and_one_that_is_lowered_takes_back_what_nobody_claimed",
            EDITS + "test_a_limit_that_is_removed_lets_all_go_also_what_is_planned",
            EDITS + "test_a_job_that_changes_its_group_frees_the_old_one_and_is_counted_in_the_new_one",
        ],
    ),
    Mutation(
        name="old-domain-is-settled",
        mechanism="A job that leaves a group frees its slots there.",
        file=JOBS,
        old="    settle_later({domain_before, domain_of(job)}, now, changed_job=job.pk)\n",
        new="    settle_later({domain_of(job)}, now, changed_job=job.pk)\n",
        red=[EDITS + "test_a_job_that_changes_its_group_frees_the_old_one_and_is_counted_in_the_new_one"],
    ),
    Mutation(
        name="group-fails-closed",
        mechanism="A job of a group that nobody made is refused.",
        file=GROUPS,
        old='raise InvalidInput.of("concurrency_group", NO_GROUP)',
        new="return ConcurrencyGroup.objects.create(tenant=tenant, name=name, max_concurrent=10_000)",
        red=[
            EDITS + "test_a_group_that_nobody_made_is_refused_and_no_job_is_made",
            "tests/scheduler/api/test_groups.py::test_a_job_of_a_group_that_nobody_made_is_refused",
        ],
    ),
    Mutation(
        name="group-limit-re-gates",
        mechanism="An edit of a group's limit reaches what is admitted and what waits.",
        file=GROUPS,
        old="            _gate_again(group, now)\n",
        new="            pass\n",
        red=[EDITS + "test_an_edit_of_a_groups_limit_reaches_all_its_jobs"],
    ),
    Mutation(
        name="group-limit-waits-for-admit",
        mechanism="A group's limit that falls reaches what is being admitted in this moment.",
        file=GROUPS,
        old="state__in=[QueueEntry.State.READY, QueueEntry.State.GATED]\n",
        new="state__in=[QueueEntry.State.READY]\n",
        red=[RACES + "test_a_groups_limit_falls_while_its_last_slot_is_given"],
        database="postgresql",
    ),
    Mutation(
        name="pause-gives-slots-back",
        mechanism="A run that is held has no slot.",
        file="scheduler/services/pause.py",
        old="            Slot.objects.filter(run__entry__job=job, run__entry__state=QueueEntry.State.HELD).delete()\n",
        new="",
        red=[EDITS + "test_a_pause_gives_the_slots_of_what_did_not_begin_to_others_and_a_resume_lets_it_queue_again"],
    ),
    Mutation(
        name="delete-gives-slots-back",
        mechanism="The runs of a deleted job that wait give their slots back.",
        file=JOBS,
        old="                Slot.objects.filter(run_id__in=gone).delete()\n",
        new="                pass\n",
        red=[EDITS + "test_a_pause_gives_the_slots_of_what_did_not_begin_to_others_and_a_resume_lets_it_queue_again"],
    ),
    Mutation(
        name="unclaimed-is-passed-over",
        mechanism="A run that was admitted for a runner that is not there does not block its group.",
        file=WAITING,
        old="                passed += _pass_over(entries, name, now)\n",
        new="                passed += 0\n",
        red=[
            UNCLAIMED + "test_after_thirty_seconds_unclaimed_it_stands_behind_those_that_waited",
            UNCLAIMED + "test_the_group_works_on_although_a_run_of_it_can_be_taken_by_nobody",
        ],
    ),
    Mutation(
        name="passed-over-stands-behind",
        mechanism="Who was passed over comes after all that waited then, of any priority, and before the later.",
        file=ADMIT,
        old="            open_lines = [line for line in open_lines if line.head.available_at <= late.passed_over_at]\n",
        new="            open_lines = []\n",
        red=[UNCLAIMED + "test_after_thirty_seconds_unclaimed_it_stands_behind_those_that_waited"],
    ),
    Mutation(
        name="passed-over-has-its-turn-again",
        mechanism="Who fell due after a run was passed over does not go before it.",
        file=ADMIT,
        old="            open_lines = [line for line in open_lines if line.head.available_at <= late.passed_over_at]\n",
        new="            pass\n",
        red=[UNCLAIMED + "test_after_thirty_seconds_unclaimed_it_stands_behind_those_that_waited"],
    ),
    Mutation(
        name="unclaimed-only-while-others-wait",
        mechanism="Nobody loses a slot that nobody else wants.",
        file=WAITING,
        old="            if others_wait(name, now):\n",
        new="            if True:\n",
        red=[UNCLAIMED + "test_nothing_is_taken_while_nobody_waits"],
    ),
    Mutation(
        name="stray-slots-are-dropped",
        mechanism="A slot without an unfinished run is found and handed on.",
        file=WAITING,
        old="        Slot.objects.filter(pk__in=ids).delete()\n",
        new="",
        red=[OF_ADMIT + "test_a_slot_that_nobody_uses_is_found_and_handed_on"],
    ),
    Mutation(
        name="gate-timer",
        mechanism="A limited run starts on time: the claim's timer knows when it falls due.",
        file="scheduler/sql/upcoming.py",
        old="gated = _EARLIEST.format(1, ",
        new="gated = _EARLIEST.format(9, ",
        database="postgresql",  # on SQLite heartbeats and polls change the file, and every change wakes
        red=[EDGE + "test_a_limited_run_that_falls_due_starts_without_any_signal_or_sweep"],
    ),
    Mutation(
        name="gate-at-the-first-poll",
        mechanism="What was due before the server began is admitted by its first claim.",
        file="scheduler/api/work/claiming.py",
        old="        _admit(now, tenants)\n",
        new="        pass\n",
        red=[EDGE + "test_what_was_due_before_the_server_began_is_admitted_by_the_first_poll"],
    ),
    Mutation(
        name="gate-is-remembered",
        mechanism="A look for due limited runs is not paid with each poll.",
        file="scheduler/api/work/gates.py",
        old="        return time.monotonic() >= self._at.get(lanes, 0.0)\n",
        new="        return True\n",
        red=[
            EDGE + "test_a_runner_that_polls_often_does_not_pay_for_limits_with_each_poll",
            EDGE + "test_what_is_known_of_the_next_instant_is_never_forgotten_for_a_later_one",
        ],
    ),
    Mutation(
        name="overlap-skips",
        mechanism="A fire that finds its job busy is skipped by the job's policy, and recorded.",
        file=DOMAIN,
        old="            return OVERLAP\n",
        new='            return ""\n',
        red=[
            POLICIES + "test_a_minutely_job_that_needs_nine_and_a_half_minutes",
            POLICIES + "test_the_fate_of_a_fire",
        ],
    ),
    Mutation(
        name="queue-one-lets-one-wait",
        mechanism="Under queue_one one fire waits.",
        file=DOMAIN,
        old="        may_wait = 1 if limits.overlap == QUEUE_ONE else 0\n",
        new="        may_wait = 0\n",
        red=[POLICIES + "test_a_minutely_job_that_needs_nine_and_a_half_minutes"],
    ),
    Mutation(
        name="fires-are-decided-once",
        mechanism="A fire that was let wait is never skipped later.",
        file=ADMIT,
        old="        due.filter(state=State.GATED, waits_since=None)\n",
        new="        due.filter(state=State.GATED)\n",
        red=[POLICIES + "test_a_fire_that_was_let_wait_is_never_skipped_later"],
    ),
    Mutation(
        name="full-queue-skips",
        mechanism="A fire of a limited job that finds the queue full is skipped.",
        file=DOMAIN,
        old='    return QUEUE_FULL if unclaimed >= most_unclaimed else ""\n',
        new='    return ""\n',
        red=[POLICIES + "test_a_fire_that_finds_the_queue_full_is_skipped_when_it_falls_due"],
    ),
    Mutation(
        name="full-queue-skips-of-unlimited-jobs",
        mechanism="So is one of a job without limits, but nothing that was caught up, triggered or tried.",
        file=WAITING,
        old='                    run__created_at__lt=F("run__scheduled_for"),\n',
        new="",
        red=[POLICIES + "test_of_an_unlimited_job_too_but_nothing_that_was_caught_up_or_triggered_or_tried"],
    ),
    Mutation(
        name="queue-ttl",
        mechanism="A run that nobody claimed within its time in the queue is cancelled.",
        file=WAITING,
        old="            and entry.available_at <= now - timedelta(seconds=entry.job.queue_ttl_seconds)\n",
        new="            and False\n",
        red=[POLICIES + "test_a_run_that_waits_beyond_its_time_in_the_queue_is_cancelled"],
    ),
    Mutation(
        name="coalesce",
        mechanism="A trigger of a job that coalesces is answered with the run that waits.",
        file="scheduler/services/trigger_runs.py",
        old="        coalesced = _waiting_run(job, now) if job.coalesce and wish.run_at is None else None\n",
        new="        coalesced = None\n",
        red=[POLICIES + "test_a_coalescing_job_answers_with_the_run_that_waits_already"],
    ),
    Mutation(
        name="tenant-limit-reaches-what-was-claimable",
        mechanism="What was claimable when tenants were first limited waits for slots.",
        file=WAITING,
        old="    if settings.CRONIQ_TENANT_MAX_CONCURRENT is None:\n",
        new="    if True:\n",
        red=[OF_ADMIT + "test_runs_that_were_claimable_when_tenants_were_first_limited_wait_for_slots"],
    ),
]
