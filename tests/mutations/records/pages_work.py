"""The pages for what was missed, for budgets and for the audit, the demonstration data, and what pages ask."""

from tests.mutations.record import Edit, Mutation

MISSED = "tests/scheduler/dashboard/test_missed.py::"
BUDGETS = "tests/scheduler/dashboard/test_budgets.py::"
AUDIT = "tests/scheduler/dashboard/test_audit.py::"
SEED = "tests/scheduler/test_seed_demo.py::"
ACCESS = "tests/scheduler/dashboard/test_work_access.py::"
BASELINE = "tests/scheduler/dashboard/test_baseline.py::"
WORK = "scheduler/services/missed_work.py"

RECORDS = [
    Mutation(
        name="banner-clock-set-back",
        mechanism="Signs of life from before the database's clock was set back hide no worker that stands still.",
        edits=[
            Edit(
                "scheduler/queries/trouble.py",
                "Q(ended_at__isnull=True, beat_at__lte=now + SILENT)",
                "Q(ended_at=None)",
            ),
            Edit("scheduler/queries/trouble.py", ", tick_at__lte=now + SILENT)", ")"),
        ],
        red=["tests/scheduler/dashboard/test_frame.py::test_signs_of_life_from_before_a_clock_was_set_back_are_none"],
    ),
    Mutation(
        name="missed-is-past",
        mechanism="What is to come is not missed, also if somebody took it out.",
        file="scheduler/queries/missed.py",
        old="scheduled_for__gt=now - window, scheduled_for__lte=now",
        new="scheduled_for__gt=now - window",
        red=[MISSED + "test_what_ran_is_to_come_is_long_ago_or_of_a_deleted_job_is_not_missed"],
    ),
    Mutation(
        name="missed-counts-gaps",
        mechanism="A gap counts as many fires as it has.",
        file="scheduler/queries/missed.py",
        old='"number": Sum("count")',
        new='"number": Count("pk")',
        red=[MISSED + "test_each_job_says_how_many_and_why"],
    ),
    Mutation(
        name="missed-dismissed-by-when-it-was-recorded",
        mechanism="What is recorded after the look at the page is shown again, however early it fell due.",
        file="scheduler/queries/missed.py",
        old='.filter(_unseen("finished_at"))',
        new='.filter(_unseen("scheduled_for"))',
        red=[MISSED + "test_what_somebody_dismissed_is_gone_and_what_is_recorded_later_is_not"],
    ),
    Mutation(
        name="missed-the-later-look-counts",
        mechanism="An earlier look never takes a later one back.",
        file=WORK,
        old="later = Q(missed_seen_at__isnull=True) | Q(missed_seen_at__lt=seen_at)",
        new="later = Q()",
        red=[MISSED + "test_an_earlier_look_never_takes_back_a_later_one"],
    ),
    Mutation(
        name="missed-not-ahead",
        mechanism="Nobody dismisses what will be missed.",
        file=WORK,
        old="    if seen_at > now:\n",
        new="    if False:\n",
        red=[MISSED + "test_nobody_has_seen_what_is_to_come"],
    ),
    Mutation(
        name="missed-as-many-as-promised",
        mechanism="Nothing is run where it would be another number of runs than was promised.",
        file=WORK,
        old="        if len(would.instants) != expected:\n",
        new="        if False:\n",
        red=[MISSED + "test_nothing_is_run_where_it_would_be_another_number"],
    ),
    Mutation(
        name="missed-stays-where-nothing-was-made",
        mechanism="What could not be made up for stays in the list.",
        file=WORK,
        old="    if done.instants or done.already_there:\n",
        new="    if True:\n",
        red=[MISSED + "test_what_no_schedule_fires_any_more_is_not_run_and_stays"],
    ),
    Mutation(
        name="missed-calendars-by-arithmetic",
        mechanism="What a calendar closed is the difference between what was wanted and what was let fire.",
        file="scheduler/queries/missed.py",
        old="    return wanted - allowed\n",
        new="    return wanted\n",
        red=[MISSED + "test_what_a_calendar_closed_is_told_by_number_and_needs_nothing"],
    ),
    Mutation(
        name="budgets-waiters-are-due",
        mechanism="A planned fire of a limited job waits for nobody.",
        file="scheduler/queries/budget_use.py",
        old="QueueEntry.objects.filter(state=State.GATED, available_at__lte=now)",
        new="QueueEntry.objects.filter(state=State.GATED)",
        red=[BUDGETS + "test_what_is_planned_or_of_no_limit_waits_for_nobody"],
    ),
    Mutation(
        name="budgets-who-blocks-whom",
        mechanism="A run that waits says which other limit is used up.",
        file="scheduler/queries/budget_use.py",
        old="if uses[budget.name].is_full)",
        new="if False)",
        red=[BUDGETS + "test_who_waits_for_another_limit_says_for_which"],
    ),
    Mutation(
        name="budgets-first-in-line",
        mechanism="Of what waits of a job the first runs are named.",
        file="scheduler/queries/budget_use.py",
        old='order_by=[F("available_at").asc(), F("run_id").asc()]',
        new='order_by=[F("available_at").desc(), F("run_id").asc()]',
        red=[
            BUDGETS + "test_of_many_runs_some_are_named_and_all_are_counted",
            BUDGETS + "test_a_group_shows_who_has_it_and_who_waits_for_them",
        ],
    ),
    Mutation(
        name="audit-page-changes-as-pairs",
        mechanism="A pair in a difference is shown as what was before and after.",
        file="scheduler/dashboard/audit.py",
        old="    if isinstance(value, list) and len(value) == 2:\n",
        new="    if False:\n",
        red=[AUDIT + "test_an_event_says_who_what_of_what_and_what_changed"],
    ),
    Mutation(
        name="audit-page-goes-on-with-the-filter",
        mechanism="The next page of the audit has the filter of the one before.",
        file="scheduler/dashboard/audit.py",
        old='address("audit", {**chosen, **times, "before"',
        new='address("audit", {"before"',
        red=[AUDIT + "test_older_events_follow_once_each_with_the_filter"],
    ),
    Mutation(
        name="seed-refuses-real-runs",
        mechanism="Demonstration data never comes into a database that has runs.",
        file="scheduler/services/seed.py",
        old="    if Run.objects.exists() or",
        new="    if",
        red=[SEED + "test_it_never_mixes_with_real_runs"],
    ),
    Mutation(
        name="seed-goes-on-from-now",
        mechanism="The materializer makes up for nothing of the made-up past.",
        file="scheduler/services/seed.py",
        old="            cursor_at=now,\n",
        new="            cursor_at=since,\n",
        red=[SEED + "test_the_materializer_goes_on_from_now_and_makes_up_for_nothing"],
    ),
    Mutation(
        name="pages-work-needs-the-permission",
        mechanism="Only the permission lets a person act on letters and missed fires.",
        file="scheduler/dashboard/pages.py",
        old="        def act() -> HttpResponse:\n            _let(request, needs)\n",
        new="        def act() -> HttpResponse:\n",
        red=[ACCESS + "test_an_action_needs_the_permission_a_post_and_a_form_of_ours"],
    ),
    Mutation(
        name="now-asks-once-for-runners",
        mechanism="Now asks at most fifteen queries: a page that asks one more is found.",
        file="scheduler/queries/situation.py",
        old="    seen = seen or pulse(now)\n",
        new="    seen = pulse(now)\n",
        red=[BASELINE + "test_each_page_asks_as_many_queries_as_the_baseline_says"],
    ),
]
