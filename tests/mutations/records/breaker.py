"""What a breaker broke: races of first starts, of registrations, and what a failed or late statement leaves behind."""

from tests.mutations.record import Mutation

RECORDS = [
    Mutation(
        name="breaker-registration-never-edits-the-apis-job",
        mechanism="A registration that loses the race for a key leaves the winner's job as it is, action included.",
        file="scheduler/services/registration.py",
        old="job, is_new = make_job_unless_there(fields, now, actor, principal, RUNNER)",
        new='job, is_new = save_job(fields, now, actor, principal, partial=False, managed_by="runner")',
        red=["tests/scheduler/planning/test_register_race.py::test_the_definition_of_the_api_stays"],
        database="postgresql",
    ),
    Mutation(
        name="breaker-deleted-jobs-run-never-begins",
        mechanism="A claim that goes back after its job was deleted ends there instead of being handed out again.",
        file="scheduler/services/release.py",
        old="kept = [entry for entry in held if entry.job.deleted_at is None]",
        new="kept, held = list(held), []",
        red=[
            "tests/scheduler/edge/test_deleted_job.py::"
            "test_a_claim_that_goes_back_after_its_job_was_deleted_starts_nothing"
        ],
    ),
    Mutation(
        name="breaker-first-batch-is-handed-out",
        mechanism="What a claim's first transactions committed is handed out though a later one fails.",
        file="scheduler/services/claim.py",
        old="            if not outcomes and not kept:\n                raise",
        new="            raise",
        red=[
            "tests/scheduler/conformance/test_claim_second_batch.py::"
            "test_what_was_claimed_before_a_later_statement_failed_is_handed_out"
        ],
    ),
    Mutation(
        name="breaker-wrong-statement-is-no-outage",
        mechanism="SQLite's answer to a wrong statement is not taken for a database that is away.",
        file="croniq_site/kernel/database.py",
        old="if isinstance(cause, sqlite3.Error) and",
        new="if False and",
        red=["tests/kernel/test_database.py::test_a_statement_that_is_wrong_is_no_outage"],
        database="sqlite",
    ),
    Mutation(
        name="breaker-what-fails-when-committed-undoes-nothing",
        mechanism="What is done after a commit has a name by which Django can log that it failed.",
        file="croniq_site/kernel/database.py",
        old="    @wraps(work)\n    def done() -> None:\n        work(*args)\n",
        new="    from functools import partial\n\n    done = partial(work, *args)\n",
        red=[
            "tests/kernel/test_database.py::test_what_fails_when_it_is_committed_is_logged_and_the_rest_is_done",
            "tests/scheduler/metrics/test_traces.py::"
            "test_a_run_is_made_and_handed_out_though_nobody_can_say_whether_it_is_recorded",
        ],
    ),
    Mutation(
        name="breaker-first-starts-one-at-a-time",
        mechanism="Hosts that start at once on one PostgreSQL set it up one after the other.",
        file="croniq_site/kernel/database.py",
        old='cursor.execute("SELECT pg_advisory_xact_lock(%s)", [number])',
        new="pass",
        red=[
            "tests/scheduler/test_first_start.py::"
            "test_first_starts_of_one_database_on_several_hosts_make_the_demo_jobs_once"
        ],
        database="postgresql",
    ),
    Mutation(
        name="breaker-calendars-of-the-new-tenant",
        mechanism="A job that moves to another tenant takes that tenant's calendars or stays.",
        file="scheduler/services/jobs.py",
        old='if "tenant" in changes:\n        _take_calendars_along(job)',
        new='if "tenant" in changes:\n        pass',
        red=["tests/scheduler/api/test_moved_job.py::test_no_schedule_follows_a_calendar_of_another_tenant"],
    ),
    Mutation(
        name="breaker-long-lists-in-parts",
        mechanism="Polls that list all they may cost the one beside them nothing: ids go to SQLite in parts.",
        file="scheduler/services/claim.py",
        old="chunks(sorted(run_ids), IDS_PER_QUERY)",
        new="chunks(sorted(run_ids), 10**9)",
        red=[
            "tests/scheduler/conformance/test_many_listed.py::"
            "test_polls_that_list_all_they_may_take_nothing_from_the_one_beside_them"
        ],
        database="sqlite",
    ),
    Mutation(
        name="pause-made-longer-goes-on",
        mechanism="A pause's end is looked at again under the job's lock before it is carried out.",
        file="scheduler/services/pause.py",
        old="job = over.select_for_update(no_key=True).filter(pk=job_id).first()",
        new="job = Job.objects.select_for_update(no_key=True).filter(pk=job_id).first()",
        red=[
            "tests/scheduler/planning/test_ends_of_pauses.py::"
            "test_a_pause_that_is_made_longer_in_the_moment_of_its_end_goes_on"
        ],
        database="postgresql",
    ),
    Mutation(
        name="breaker-old-routes-keep-nobody-out",
        mechanism="Only routes that a job or a waiting run uses count against a tenant's bound.",
        file="scheduler/services/lanes.py",
        old=" >= LANES_PER_TENANT <= _lanes_in_use(tenant):",
        new=" >= LANES_PER_TENANT:",
        red=[
            "tests/scheduler/planning/test_old_routes.py::"
            "test_pins_to_machines_that_are_long_gone_do_not_keep_new_jobs_out"
        ],
    ),
    Mutation(
        name="breaker-metadata-fits-together",
        mechanism="The metadata of a job and of a trigger fit a command's environment together.",
        file="scheduler/services/trigger_runs.py",
        old='metadata_of("metadata", {**job.metadata, **wish.metadata})',
        new="pass",
        red=["tests/scheduler/planning/test_old_routes.py::test_metadata_of_job_and_trigger_are_bounded_together"],
    ),
    Mutation(
        name="quickstart-runner-waits-for-the-server",
        mechanism="A supervised child waits for its turn, so that a runner does not begin with failed polls.",
        file="croniq_site/kernel/supervisor.py",
        old="while waiting and waiting[0].start_when():",
        new="while waiting:",
        red=["tests/kernel/test_supervisor.py::test_a_child_waits_for_its_turn_and_holds_up_those_behind_it"],
    ),
]
