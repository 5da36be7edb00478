"""The pages tell the reason: what is overdue and why, what a run waits for, what was done again, what is left out."""

from tests.mutations.record import Mutation

NOW = "tests/scheduler/dashboard/test_now.py::"
EXPLAIN = "tests/scheduler/api/test_explain.py::"
SITUATION = "scheduler/queries/situation.py"
WAITS = "scheduler/queries/waits.py"
ROWS = "tests/scheduler/dashboard/test_run_reasons.py::"
ZONES = "tests/scheduler/dashboard/test_zones.py::"


def one(name: str, mechanism: str, file: str, old: str, new: str, *red: str) -> Mutation:
    return Mutation(name=name, mechanism=mechanism, file=file, old=old, new=new, red=list(red))


RECORDS = [
    one(
        "now-waiting-is-not-held",
        "Runs that a pause holds are counted apart from those that wait.",
        "scheduler/sql/gauges.py",
        "count(CASE WHEN state <> 2 THEN 1 END)",
        "count(*)",
        NOW + "test_each_number_leads_to_a_list_of_as_many",
    ),
    one(
        "now-overdue-by-the-lane-of-the-run",
        "Why nobody takes an overdue run goes by what that run requires, which may be its schedule's own.",
        SITUATION,
        "    others = {job.lane_id for job in first} - lanes.keys() - {None}\n",
        "    own = {job.job_key: job.lane_id for job in jobs}\n"
        "    first = [job._replace(lane_id=job.lane_id and own[job.job_key]) for job in first]\n"
        "    others = set()\n",
        NOW + "test_what_is_overdue_says_why",
    ),
    one(
        "now-the-planner-is-silent",
        "Of a fire that is no run the page says whether a materializer is there at all.",
        SITUATION,
        "if beat is None or now - beat > SILENT:",
        "if False:",
        NOW + "test_a_fire_that_is_no_run_says_whether_the_materializer_is_there",
    ),
    one(
        "now-lacking-of-the-own-tenant",
        "A capability is lacking for jobs whose tenant no runner serves that has it, not for those of others.",
        SITUATION,
        "had[job.tenant] = frozenset().union(*working_for(job.tenant, takers))",
        "had[job.tenant] = frozenset()",
        NOW + "test_a_capability_that_nobody_has_names_the_jobs_that_wait_for_it",
    ),
    one(
        "instants-in-sentences-are-times",
        "An instant in a sentence that a service said is shown as all instants are.",
        "scheduler/templatetags/texts.py",
        "for found in INSTANT.finditer(sentence):",
        "for found in ():",
        NOW + "test_runs_that_wait_while_no_runner_is_there",
    ),
    one(
        "explain-runners-without-room",
        "A due run waits where each runner that may take it has no place free, and only then.",
        WAITS,
        "    if not all(taker.is_full for taker in able):\n",
        "    if not any(taker.is_full for taker in able):\n",
        EXPLAIN + "test_runners_with_no_place_free_are_why_a_due_run_waits",
    ),
    one(
        "rows-say-why-a-run-waits",
        "A list says of a queued run why it waits: what its job, group and tenant have in use is counted apart.",
        WAITS,
        'used = {"job": run.job_slots, "group": run.group_slots, "tenant": run.tenant_slots}',
        'used = {"job": 0, "group": 0, "tenant": 0}',
        ROWS + "test_a_run_that_waits_says_why_in_the_list_and_on_the_page_of_its_job",
        ROWS + "test_a_limit_of_the_tenant",
    ),
    one(
        "rows-say-what-holds-a-planned-run",
        "Of a run that is not due yet a list says first what else would keep it.",
        WAITS,
        'if reason.code != "not_due"), next(iter(reasons), None))',
        "), None)",
        ROWS + "test_what_is_planned_says_what_holds_it_besides_its_time",
    ),
    one(
        "rows-follow-why-a-run-waits",
        "The list of runs is told anew when what keeps a run from starting changes.",
        "scheduler/dashboard/runs.py",
        'shown = (context["runs"], context["notes"], context["more"], context["reached"])',
        'shown = (context["runs"], context["more"], context["reached"])',
        ROWS + "test_the_list_follows_what_keeps_a_run_from_starting",
    ),
    one(
        "rows-mark-what-was-done-once-more",
        "A run that was done once more leads to the one that did it.",
        WAITS,
        "notes[run.pk] = Note(run.pk in waiting, why, run.replayed_as)",
        "notes[run.pk] = Note(run.pk in waiting, why, None)",
        ROWS + "test_what_was_done_once_more_is_marked_and_leads_to_the_run_that_did_it",
    ),
    one(
        "bulk-names-what-is-left-out",
        "Before all matches are done once more the page says how many are not, and why; each for one reason.",
        "scheduler/queries/bulk.py",
        "gone = sum(deleted_at is not None and not is_done for is_done, deleted_at in told)",
        "gone = sum(deleted_at is not None for _, deleted_at in told)",
        ROWS + "test_all_that_match_says_what_it_leaves_out_and_why",
    ),
    one(
        "runs-held-are-listed-apart",
        "What a pause holds is a list of its own, as it is a number of its own.",
        "scheduler/queries/runs.py",
        "Q(entry__state__in=_WAITING) & Q(entry__state__in=ENTRY_STATES[filters.state])",
        "Q(entry__state__in=_WAITING)",
        NOW + "test_each_number_leads_to_a_list_of_as_many",
    ),
    one(
        "letters-of-deleted-jobs-are-marked",
        "Letters of deleted jobs are listed and marked, and counted to what is to do on no page.",
        "scheduler/queries/letter_groups.py",
        'waiting=Count("pk", filter=Q(run__replays__isnull=True, job__deleted_at__isnull=True)),',
        'waiting=Count("pk", filter=Q(run__replays__isnull=True)),',
        "tests/scheduler/dashboard/test_letters.py::"
        "test_what_is_to_do_is_the_same_on_every_page_and_letters_of_deleted_jobs_are_marked",
    ),
    one(
        "next-says-the-zone-of-a-schedule",
        "What is to come says on hover when that is in its schedule's zone.",
        "scheduler/queries/forecast.py",
        "job, zone = trigger.job, zone_of(trigger)",
        'job, zone = trigger.job, ""',
        ZONES + "test_instants_of_a_job_say_its_zone_and_utc_on_hover",
    ),
]
