"""Why a run waits, what became of runs, and the audit as the API shows it."""

from __future__ import annotations

from tests.mutations.record import Edit, Mutation

EXPLAIN = "scheduler/queries/explain.py"
STATISTICS = "scheduler/queries/statistics.py"
BUCKETS = "scheduler/sql/buckets.py"
TEST_EXPLAIN = "tests/scheduler/api/test_explain.py"
TEST_INSIGHTS = "tests/scheduler/api/test_insights.py"

RECORDS = [
    Mutation(
        name="explain-names-the-holders-of-slots",
        mechanism="A run that waits for a slot is told which budget is full, and which runs have its slots.",
        file="scheduler/queries/waits.py",
        old="if number >= budget.limit:",
        new="if number > budget.limit:",
        red=[f"{TEST_EXPLAIN}::test_a_limit_names_the_runs_that_have_its_slots"],
    ),
    Mutation(
        name="explain-counts-only-what-goes-first",
        mechanism="Before a run are those of higher priority and those that are earlier, of its tenant and due.",
        file=EXPLAIN,
        old="tenant = Lane.objects.filter(tenant=entry.lane.tenant, priority__gte=entry.lane.priority)",
        new="tenant = Lane.objects.all()",
        red=[f"{TEST_EXPLAIN}::test_the_queue_before_a_run"],
    ),
    Mutation(
        name="explain-knows-who-a-pin-is-for",
        mechanism="A pin is had by the runner that it names, not by who lists it among its capabilities.",
        file="scheduler/queries/takers.py",
        old="| {PIN_PREFIX + runner_id}",
        new="| frozenset()",
        red=[f"{TEST_EXPLAIN}::test_a_capability_that_no_runner_has_is_named_with_the_pin"],
    ),
    Mutation(
        name="explain-counts-runners-that-are-there",
        mechanism="Runners that are gone, or of another tenant's clients, are none.",
        edits=[
            Edit(
                "scheduler/queries/waits.py", ".filter(last_poll_at__gte=now - timedelta(seconds=ONLINE_SECONDS))", ""
            ),
            Edit(
                "scheduler/queries/waits.py",
                "[taker.has for taker in takers if taker.tenant in (None, tenant) and not taker.is_drained]",
                "[taker.has for taker in takers if not taker.is_drained]",
            ),
        ],
        red=[f"{TEST_EXPLAIN}::test_runners_that_are_gone_or_of_another_tenant_are_none"],
    ),
    Mutation(
        name="statistics-are-confined-to-the-tenant",
        mechanism="Throughput and failures count the caller's tenant alone.",
        edits=[
            Edit(STATISTICS, "return runs if tenant is None else runs.filter(job__tenant=tenant)", "return runs"),
            Edit(BUCKETS, " AND r.job_id IN (SELECT id FROM scheduler_job WHERE tenant = %s)", " AND '' <> %s"),
        ],
        red=[f"{TEST_INSIGHTS}::test_a_tenant_sees_nothing_of_others"],
    ),
    Mutation(
        name="failures-are-of-the-callers-days",
        mechanism="Failures are counted by the weekday and hour of the zone that is asked for.",
        file=STATISTICS,
        old="local = hour.astimezone(zone)",
        new="local = hour",
        red=[f"{TEST_INSIGHTS}::test_failures_by_the_weekday_and_hour_of_a_zone"],
    ),
    Mutation(
        name="throughput-has-every-bucket",
        mechanism="A run belongs to the bucket in which its instant lies, counted from the window's first.",
        file=BUCKETS,
        old="r.scheduled_for >= d.begins AND r.scheduled_for < d.ends",
        new="r.scheduled_for > d.begins AND r.scheduled_for <= d.ends",
        red=[f"{TEST_INSIGHTS}::test_throughput_has_every_bucket_of_its_window"],
    ),
    Mutation(
        name="throughput-counts-what-has-ended",
        mechanism="What still waits or runs, or is to be tried again, has not completed.",
        file=BUCKETS,
        old=" AND r.verdict IS NULL",
        new=" AND FALSE",
        red=[f"{TEST_INSIGHTS}::test_throughput_has_every_bucket_of_its_window"],
    ),
    Mutation(
        name="throughput-knows-what-waits-for-its-next-attempt",
        mechanism="A run that waits for its next attempt has not ended, although it is due later.",
        file=BUCKETS,
        old="(q.available_at <= %s OR q.attempt > 0)",
        new="q.available_at <= %s",
        red=[f"{TEST_INSIGHTS}::test_throughput_has_every_bucket_of_its_window"],
    ),
    Mutation(
        name="audit-is-confined-to-the-tenant",
        mechanism="A key with a tenant sees the events of its tenant alone.",
        file="runners/queries/audit.py",
        old='for column in ("tenant", "actor_type"',
        new='for column in ("actor_type"',
        red=[f"{TEST_INSIGHTS}::test_the_audit_is_filtered_and_confined"],
    ),
    Mutation(
        name="audit-pages-by-position",
        mechanism="A page of the audit begins after the last event seen, also among those of one instant.",
        file="runners/queries/audit.py",
        old="Q(created_at__lt=at) | Q(pk__lt=pk)",
        new="Q(created_at__lt=at)",
        red=[f"{TEST_INSIGHTS}::test_pages_of_the_audit_lose_and_repeat_none_of_one_instant"],
    ),
    Mutation(
        name="run-page-says-why-a-run-waits",
        mechanism="The page of a run that waits follows the reasons, and shows none for one that has started.",
        file="scheduler/dashboard/run_page.py",
        old='if run.state == "queued" else None',
        new="if False else None",
        red=["tests/scheduler/dashboard/test_run.py::test_a_run_that_waits_says_why"],
    ),
    Mutation(
        name="run-page-follows-its-reasons",
        mechanism="The live head of a run is new when only its reasons are.",
        file="scheduler/dashboard/run_page.py",
        old='"dashboard/_run.html", context, shown)',
        new='"dashboard/_run.html", context, detail)',
        red=["tests/scheduler/dashboard/test_run.py::test_a_reason_that_goes_away_goes_from_the_page"],
    ),
    Mutation(
        name="explain-counts-only-who-can-be-taken",
        mechanism="Runs that no runner can take stand in nobody's way.",
        file=EXPLAIN,
        old="if any(may_take(has, frozenset(require), frozenset(prefer)) for has in runners)",
        new="if True",
        red=[f"{TEST_EXPLAIN}::test_the_queue_before_a_run"],
    ),
    Mutation(
        name="doctor-tells-of-runs-without-runners",
        mechanism="Runs that are due for over a minute while no runner is online are trouble.",
        file="scheduler/queries/trouble.py",
        old="        if not online:",
        new="        if False:",
        red=[
            "tests/scheduler/test_doctor.py::test_what_waits_for_nobody_is_wrong_and_what_is_held_is_said",
            "tests/scheduler/dashboard/test_now.py::test_runs_that_wait_while_no_runner_is_there",
        ],
    ),
    Mutation(
        name="doctor-tells-of-runs-while-all-are-drained",
        mechanism="Runs that are due for over a minute while every runner that is online is drained are trouble.",
        file="scheduler/queries/trouble.py",
        old="elif not taking:",
        new="elif False:",
        red=[
            "tests/scheduler/test_doctor.py::test_what_waits_while_all_who_are_online_are_drained_is_wrong",
            "tests/scheduler/dashboard/test_now.py::test_runs_that_wait_while_no_runner_is_there",
            "tests/scheduler/api/test_diagnostics.py::test_the_api_and_the_doctor_tell_the_same",
        ],
    ),
    Mutation(
        name="doctor-tells-of-lacking-capabilities",
        mechanism="A capability that jobs require and no online runner has makes the doctor fail.",
        file="scheduler/queries/takers.py",
        old="having_it.items() if not n]",
        new="having_it.items() if False]",
        red=["tests/scheduler/test_doctor.py::test_what_waits_for_nobody_is_wrong_and_what_is_held_is_said"],
    ),
]
