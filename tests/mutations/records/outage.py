"""Outages: nobody loses a run because nobody served."""

from tests.mutations.record import Edit, Mutation

HERE = "tests/scheduler/conformance/test_outage.py::"

OUTAGES = "runners/services/outages.py"
LOCKS = "scheduler/sql/locks.py"
MISSED = "scheduler/services/missed.py"
PLANNED = "tests/scheduler/planning/test_missed.py::"

RECORDS = [
    Mutation(
        name="outage-spares-leases",
        mechanism="Nothing is reaped before the end of an outage and one lease.",
        file="scheduler/services/release.py",
        old="lock_expired_leases(now, size, outage_ended_at)",
        new="lock_expired_leases(now, size)",
        red=[
            HERE + "test_a_database_that_was_away_for_ten_minutes_costs_nobody_his_run",
            HERE + "test_while_only_the_servers_are_away_the_reaper_waits_however_long_that_is",
        ],
    ),
    Mutation(
        name="outage-spares-deadlines",
        mechanism="Who was done in time during an outage may say so after it.",
        file="scheduler/services/finish.py",
        old="lock_passed_deadlines(now, size, outage_ended_at)",
        new="lock_passed_deadlines(now, size)",
        red=[HERE + "test_a_deadline_that_passed_in_the_outage_waits_for_the_ack_that_could_not_be_said"],
    ),
    Mutation(
        name="outage-spares-for-one-lease-each",
        mechanism="The time to come back is the run's own lease.",
        file=LOCKS,
        old="(claimed_at > %s OR lease_seconds <= %s)",
        new="(claimed_at > %s OR 60 <= %s)",
        red=[HERE + "test_each_run_has_a_lease_of_its_own_to_come_back"],
    ),
    Mutation(
        name="outage-concerns-earlier-claims",
        mechanism="Claims made after an outage are not spared for it.",
        file=LOCKS,
        old="(claimed_at > %s OR lease_seconds <= %s)",
        new="(claimed_at IS NOT NULL AND claimed_at > %s AND 1 = 0 OR lease_seconds <= %s)",
        red=[HERE + "test_a_claim_made_after_the_outage_has_its_own_lease_and_deadline"],
    ),
    Mutation(
        name="outage-lasts-until-it-is-over",
        mechanism="Whoever still misses the servers moves the end of the outage.",
        file=OUTAGES,
        old="elif outage.ended_at < now:",
        new="elif False:",
        red=[HERE + "test_while_only_the_servers_are_away_the_reaper_waits_however_long_that_is"],
    ),
    Mutation(
        name="outage-end-never-goes-back",
        mechanism="Of two who miss the servers the later one's instant counts.",
        edits=[
            Edit(OUTAGES, "elif outage.ended_at < now:", "else:"),
            Edit(OUTAGES, "filter(pk=outage.pk, ended_at__lt=now)", "filter(pk=outage.pk)"),
        ],
        red=[HERE + "test_a_clock_that_goes_back_makes_no_outage_and_ends_none_earlier"],
    ),
    Mutation(
        name="outage-after-five-seconds",
        mechanism="Five seconds without a heartbeat are no outage, more are.",
        file=OUTAGES,
        old="now - last > SILENCE",
        new="now - last >= SILENCE",
        red=[HERE + "test_a_heartbeat_of_any_server_within_five_seconds_is_no_outage"],
    ),
    Mutation(
        name="outage-is-of-servers",
        mechanism="Only a serve's sign of life tells that runners could renew.",
        file=OUTAGES,
        old='filter(kind="serve")',
        new="all()",
        red=[HERE + "test_a_heartbeat_of_any_server_within_five_seconds_is_no_outage"],
    ),
    Mutation(
        name="outage-ends-soon-after-it-is-over",
        mechanism="A server's heartbeat does not back off for as long as a worker's passes.",
        file="croniq_site/kernel/loop.py",
        old="pause = backoff_seconds(failures, most_backoff_seconds)",
        new="pause = backoff_seconds(failures)",
        red=["tests/kernel/test_loop_and_stop.py::test_who_must_be_back_soon_waits_less"],
    ),
    Mutation(
        name="server-notes-before-it-beats",
        mechanism="A server that is back writes the outage down before its heartbeat hides it.",
        file="scheduler/management/commands/serve.py",
        old="is_back = note_outage(now) == now",
        new="is_back = False",
        red=[HERE + "test_a_server_that_is_back_says_so_before_its_heartbeat_hides_it"],
    ),
    Mutation(
        name="server-notes-before-it-ends",
        mechanism="A server's last heartbeat hides no silence before it.",
        file="scheduler/management/commands/serve.py",
        old="                note_outage(now)\n                end_heartbeat",
        new="                end_heartbeat",
        red=[HERE + "test_a_server_that_is_back_says_so_before_its_heartbeat_hides_it"],
    ),
    Mutation(
        name="missed-tried-runs-go-on",
        mechanism="A run that was tried already is not missed.",
        edits=[
            Edit(MISSED, "        attempt=0,\n        available_at__gt", "        available_at__gt"),
            Edit(MISSED, "filter(run_id__in=run_ids, attempt=0, ", "filter(run_id__in=run_ids, "),
            Edit(
                "scheduler/sql/planned.py", 'fresh = "AND attempt = 0" if never_claimed', 'fresh = "" if never_claimed'
            ),
        ],
        red=[PLANNED + "test_held_runs_of_a_paused_job_and_tried_ones_are_left_alone"],
    ),
    *[
        Mutation(name=name, mechanism=mechanism, file=MISSED, old=old, new=new, red=[PLANNED + test])
        for name, mechanism, old, new, test in [
            (
                "missed-newest-counts-once",
                "Of planned and unplanned fires of one outage together the newest is caught up.",
                'policy = "none" if job.catch_up == "latest" and newer else job.catch_up',
                "policy = job.catch_up",
                "test_everything_stopped_from_eight_in_the_evening_to_two_past_eight",
            ),
            (
                "missed-together-no-more-than-wanted",
                "Planned and unplanned fires of one outage share max_catch_up.",
                "most = max(0, job.max_catch_up - newer)",
                "most = job.max_catch_up",
                "test_everything_stopped_from_eight_in_the_evening_to_two_past_eight",
            ),
            (
                "missed-caught-up-stay",
                "What the materializer caught up is not missed.",
                '        run__created_at__lte=F("run__scheduled_for"),\n',
                "",
                "test_everything_stopped_from_eight_in_the_evening_to_two_past_eight",
            ),
            (
                "missed-begins-with-the-outage",
                "Runs that waited before the outage are not missed.",
                "        available_at__gt=outage.began_at,\n",
                "",
                "test_runs_that_waited_before_it_began_or_that_no_runner_took_after_it_are_not_missed",
            ),
            (
                "missed-ends-with-the-outage",
                "Runs that no runner took after the outage are not missed.",
                "        available_at__lte=outage.ended_at,\n",
                "        available_at__lte=outage.ended_at + RECENT,\n",
                "test_runs_that_waited_before_it_began_or_that_no_runner_took_after_it_are_not_missed",
            ),
            (
                "missed-is-more-than-late",
                "A gap of less than a minute makes runs late, not missed.",
                "if not fires or not is_downtime(list(fires), outage.ended_at):",
                "if not fires:",
                "test_what_is_late_by_less_than_a_minute_is_merely_late",
            ),
        ]
    ],
]
