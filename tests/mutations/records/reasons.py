"""The pages tell the reason: what is overdue and why, what a run waits for, what was done again, what is left out."""

from tests.mutations.record import Mutation

NOW = "tests/scheduler/dashboard/test_now.py::"
EXPLAIN = "tests/scheduler/api/test_explain.py::"
SITUATION = "scheduler/queries/situation.py"
WAITS = "scheduler/queries/waits.py"


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
]
