"""The admin: what it does to many rows, and that it reads no history whole."""

from __future__ import annotations

from tests.mutations.record import Mutation

ACTIONS = "tests/scheduler/test_admin_actions.py::"
PLANS = "tests/scheduler/test_admin_plans.py::"
SOURCE = "scheduler/admin/actions.py"

RECORDS = [
    Mutation(
        name="admin-tells-what-was-refused",
        mechanism="What a service refuses of an action of the admin is told as refused, row by row.",
        file=SOURCE,
        old="        for row, refusal in result.refused[:REFUSALS_TOLD]:",
        new="        for row, refusal in ():",
        red=[ACTIONS + "test_what_is_refused_is_told_and_is_no_success"],
    ),
    Mutation(
        name="admin-acts-on-the-row-that-was-ticked",
        mechanism="A deleted job's row does nothing to the job that has its key now.",
        file=SOURCE,
        old="    if job.deleted_at is not None:",
        new="    if False:",
        red=[ACTIONS + "test_what_is_refused_is_told_and_is_no_success"],
    ),
    Mutation(
        name="admin-runs-a-job-once-a-form",
        mechanism="A form of the admin that is sent twice makes one run.",
        file=SOURCE,
        old='        key = f"admin {token}" if token else None',
        new="        key = None",
        red=[ACTIONS + "test_a_form_that_is_sent_twice_runs_a_job_once"],
    ),
    Mutation(
        name="admin-acts-on-a-hundred-rows-at-most",
        mechanism="An action on all rows of a list does nothing where they are too many.",
        file=SOURCE,
        old="        if len(ticked) > MOST_AT_ONCE:",
        new="        if False:",
        red=[ACTIONS + "test_too_many_rows_are_none"],
    ),
    Mutation(
        name="admin-acts-for-who-may-act",
        mechanism="Who may only look has no action in the admin.",
        file=SOURCE,
        old="        return request.user.has_perm(ACT)",
        new="        return True",
        red=[ACTIONS + "test_who_only_looks_is_offered_nothing_and_does_nothing"],
    ),
    Mutation(
        name="admin-finds-troubles-by-their-index",
        mechanism="Dead runs among millions that completed are read out of the index of troubles.",
        file="scheduler/admin/filters.py",
        old="        return queryset.filter(problem=value) if value else queryset",
        new="        return queryset.filter(verdict=value) if value else queryset",
        database="sqlite",
        red=[PLANS + "test_no_list_filter_or_search_reads_a_big_table_whole"],
    ),
    Mutation(
        name="admin-searches-by-what-has-an-index",
        mechanism="A search of the runs is for one id or one job's key.",
        file="scheduler/admin/filters.py",
        old="        if not term or self.is_too_long(request, term):",
        new="        return super().get_search_results(request, queryset, term)\n"
        "        if not term or self.is_too_long(request, term):",
        database="sqlite",
        red=[PLANS + "test_no_list_filter_or_search_reads_a_big_table_whole"],
    ),
    Mutation(
        name="admin-tells-who-is-no-staff",
        mechanism="Who has a role and is no staff is told that, and not that he has no role.",
        file="croniq_site/admin.py",
        old="        return refused_page(request, Forbidden(NO_STAFF))",
        new='        return refused_page(request, Forbidden("Your account has not the role for it."))',
        red=[ACTIONS + "test_who_is_no_staff_is_told_what_is_lacking_and_not_that_he_has_no_role"],
    ),
    Mutation(
        name="admin-links-for-whoever-may-open-them",
        mechanism="A page leads to the admin those alone who may open what is there.",
        file="scheduler/templatetags/admin_pages.py",
        old='    if not where or not user.has_perm(f"{app}.view_{model}"):\n',
        new="    if not where:\n",
        red=["tests/scheduler/dashboard/test_admin_links.py::test_nobody_is_led_to_what_he_may_not_open"],
    ),
]
