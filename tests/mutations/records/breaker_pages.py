"""Guards of pages, keys and lists that no test had taken away."""

from tests.mutations.record import Mutation

KEYS = "scheduler/api/work/auth.py"
PAUSES = "tests/scheduler/planning/test_pause_races.py::"
TIMER = ["tests/scheduler/edge/test_keys_timer.py::test_it_rings_for_the_first_that_ends_and_for_none_twice"]
ADMIN = "tests/scheduler/test_admin_actions.py::"

RECORDS = [
    Mutation(
        name="bulk-pause-of-what-is-paused",
        mechanism="Of two who pause many jobs at once the second changes no reason, and is told that it was so before.",
        file="scheduler/services/bulk.py",
        old="        if lock_job_of_key(job_key, principal).paused_at is not None:\n            return False\n",
        new="",
        red=[PAUSES + "test_of_two_who_pause_a_job_among_many_the_second_changes_nothing"],
    ),
    Mutation(
        name="bulk-resume-of-what-goes-on",
        mechanism="Who resumes many jobs is told of those whose pause he ended.",
        file="scheduler/services/bulk.py",
        old="        if lock_job_of_key(job_key, principal).paused_at is None:\n            return False\n",
        new="",
        red=[PAUSES + "test_of_two_who_pause_a_job_among_many_the_second_changes_nothing"],
    ),
    Mutation(
        name="keys-timer-of-the-first-end",
        mechanism="A key that ends later does not put off the look at the one that ends first.",
        file=KEYS,
        old="            if self._first_end.when() <= ends_at:\n                return\n",
        new="",
        red=TIMER,
    ),
    Mutation(
        name="keys-timer-is-one",
        mechanism="A timer whose place another takes rings no more.",
        file=KEYS,
        old="            self._first_end.cancel()\n",
        new="",
        red=TIMER,
    ),
    Mutation(
        name="keys-timer-not-at-once-again",
        mechanism="Where two clocks disagree about a key's end it is not looked at again and again without a pause.",
        file=KEYS,
        old="max((principal.expires_at - now).total_seconds() + 0.001, SOONEST_SECONDS)",
        new="((principal.expires_at - now).total_seconds() + 0.001)",
        red=TIMER,
    ),
    Mutation(
        name="runs-reach-of-the-farther-index",
        mechanism="Of two indexes that lead to what a filter asks for the one that leads farther is taken.",
        file="scheduler/queries/run_reach.py",
        old="else min(reached)",
        new="else max(reached)",
        red=[
            "tests/scheduler/dashboard/test_run_filters.py::test_of_two_indexes_the_one_that_leads_farther_is_taken",
        ],
    ),
    Mutation(
        name="runs-filter-is-cleaned",
        mechanism="A filter of the list of runs with a NUL in it is a text that matches nothing.",
        file="scheduler/dashboard/run_choice.py",
        old='cleaned(values.get(name, "").strip(), TEXT_MOST_BYTES) for name in names',
        new='values.get(name, "").strip() for name in names',
        red=["tests/scheduler/dashboard/test_run_filters.py::test_odd_bytes_match_nothing_and_break_nothing"],
        database="postgresql",
    ),
    Mutation(
        name="bulk-ids-count-once",
        mechanism="Who names one twice has ticked one: what a page says of the others stays true.",
        file="scheduler/dashboard/bulk.py",
        old="tuple(dict.fromkeys(map(bulk.id_of, texts)))",
        new="tuple(map(bulk.id_of, texts))",
        red=["tests/scheduler/dashboard/test_runs_bulk.py::test_of_ticked_ones_the_page_says_which_cannot"],
    ),
    Mutation(
        name="jobs-bulk-token-is-cut",
        mechanism="A form with a long token runs its jobs: a key of idempotency has 255 characters at most.",
        file="scheduler/dashboard/bulk_jobs.py",
        old='form.get("token", "")[:100]',
        new='form.get("token", "")',
        red=[
            "tests/scheduler/dashboard/test_job_list.py::"
            "test_run_now_makes_one_run_each_however_often_the_form_is_sent",
        ],
    ),
    Mutation(
        name="admin-token-is-cut",
        mechanism="The same of the admin's form.",
        file="scheduler/admin/actions.py",
        old='request.POST.get("token", "")[:100]',
        new='request.POST.get("token", "")',
        red=[ADMIN + "test_a_form_that_is_sent_twice_runs_a_job_once"],
    ),
    Mutation(
        name="admin-switch-of-what-is-so",
        mechanism="A trigger that is on already is not switched on once more, and nothing is audited.",
        file="scheduler/admin/jobs.py",
        old="    if trigger.enabled == is_on:\n        return False\n",
        new="",
        red=[ADMIN + "test_triggers_are_switched_and_their_jobs_dealt_with_once"],
    ),
    Mutation(
        name="users-password-is-ours",
        mechanism="A password that somebody chose for another is refused by name, not left out without a word.",
        file="scheduler/api/views/users.py",
        old="        refuse_unknown(self.body, set())\n",
        new="",
        red=["tests/scheduler/api/test_users.py::test_another_password_ends_his_sessions"],
    ),
    Mutation(
        name="time-zone-of-nobody",
        mechanism="Somebody who was deleted in this moment chooses no zone, and that is no fault of ours.",
        file="scheduler/services/preferences.py",
        old='        if user is None:\n            raise NotFound("There is no such user.")\n',
        new="",
        red=["tests/scheduler/dashboard/test_time_zone.py::test_who_is_deleted_in_this_moment_chooses_nothing"],
    ),
    Mutation(
        name="tails-say-no-place-twice",
        mechanism="A stream that has nothing new to say sends no event.",
        file="scheduler/dashboard/tails.py",
        old='event_of(elements, page.last) if is_news else ""',
        new="event_of(elements, page.last)",
        red=[
            "tests/scheduler/dashboard/test_log.py::test_where_a_stream_goes_on_is_told_to_the_server_alone_and_by_get",
        ],
    ),
]
