"""Lists of the API: what a query may say, how pages are found, how much an answer may weigh."""

from tests.mutations.record import Mutation

PARAMETERS = "tests/scheduler/api/test_unknown_parameters.py::"
KEYSET = "tests/scheduler/api/test_keyset.py::"
LOGS = "tests/scheduler/api/test_log_answers.py::"
RUNS = "tests/scheduler/api/test_run_filters.py::"
DIAGNOSTICS = "tests/scheduler/api/test_diagnostics.py::"

RECORDS = [
    Mutation(
        name="query-unknown-parameter",
        mechanism="A query parameter that the method does not describe is refused by its name.",
        file="runners/api/views.py",
        old="        if known is not None and not self.takes_any_query:\n",
        new="        if False:\n",
        red=[PARAMETERS + "test_an_unknown_parameter_is_400_and_named"],
    ),
    Mutation(
        name="public-method-not-there",
        mechanism="A method that a public path has not is 405, not a refusal of a key that nobody is asked for.",
        file="runners/api/views.py",
        old="        if handler is None and not self.authentication_classes:\n",
        new="        if False:\n",
        red=[PARAMETERS + "test_where_no_key_is_asked_for_a_method_that_is_not_there_is_405"],
    ),
    Mutation(
        name="query-parameter-twice",
        mechanism="A query parameter that stands there twice is refused: nobody guesses which of the two counts.",
        file="runners/api/parameters.py",
        old="        elif len(values) > 1:\n",
        new="        elif False:\n",
        red=[PARAMETERS + "test_what_is_wrong_with_a_query_is_named"],
    ),
    Mutation(
        name="query-limit-with-pages",
        mechanism="limit beside page_size or cursor is refused, not ignored.",
        file="scheduler/api/paging.py",
        old="    if limit is not None:\n",
        new="    if False:\n",
        red=[PARAMETERS + "test_what_is_wrong_with_a_query_is_named"],
    ),
    Mutation(
        name="query-work-protocol-is-lenient",
        mechanism="The work protocol ignores parameters that it does not know, as an SDK may send them.",
        file="scheduler/api/views/work.py",
        old="    takes_any_query = True\n",
        new="",
        red=[PARAMETERS + "test_the_work_protocol_ignores_them"],
    ),
    Mutation(
        name="cursor-with-half-a-pair",
        mechanism="A cursor with a lone surrogate is refused before a database sees it.",
        file="runners/api/parameters.py",
        old="any(not isinstance(text, str) or _UNSTORABLE.search(text) for text in texts)",
        new='any(not isinstance(text, str) or "\\x00" in text for text in texts)',
        red=[KEYSET + "test_a_hostile_cursor_is_400_and_named"],
    ),
    Mutation(
        name="cursor-of-calendars-in-bounds",
        mechanism="A position of a calendar that no row can have is refused.",
        file="scheduler/api/views/calendars.py",
        old="key_parts=(str, pk_part)",
        new="key_parts=(str, int)",
        red=[KEYSET + "test_a_number_that_no_row_can_have_is_no_position"],
    ),
    Mutation(
        name="pages-begin-in-the-index",
        mechanism="A page deep in history begins at its position in the index.",
        file="scheduler/queries/runs.py",
        old="        rows = rows.filter(scheduled_for__lte=at).filter(Q(scheduled_for__lt=at) | Q(id__lt=run_id))\n",
        new="        rows = rows.filter(Q(scheduled_for__lt=at) | Q(scheduled_for=at, id__lt=run_id))\n",
        red=[KEYSET + "test_a_page_deep_in_history_reads_its_rows_alone"],
        database="postgresql",
    ),
    Mutation(
        name="log-answer-has-a-megabyte",
        mechanism="Where nobody said how many lines, an answer ends at a megabyte.",
        file="scheduler/api/views/executions.py",
        old="            if answer and room < 0:\n",
        new="            if False:\n",
        red=[LOGS + "test_a_megabyte_at_most_and_the_rest_by_the_link"],
    ),
    Mutation(
        name="log-message-is-cut-in-lists",
        mechanism="A message of megabytes is cut in a list, with a mark.",
        file="scheduler/queries/logs.py",
        old="    return head if len(head) <= LIST_MESSAGE_CHARACTERS else head[:LIST_MESSAGE_CHARACTERS] + CUT_MARK\n",
        new="    return head\n",
        red=[LOGS + "test_a_megabyte_at_most_and_the_rest_by_the_link"],
    ),
    Mutation(
        name="log-line-of-its-run",
        mechanism="A line is found under its own run alone.",
        file="scheduler/queries/logs.py",
        old="RunLog.objects.filter(run_id=run_id, id=line_id)",
        new="RunLog.objects.filter(id=line_id)",
        red=[LOGS + "test_a_line_is_its_runs_and_its_tenants"],
    ),
    Mutation(
        name="api-runs-look-has-an-end",
        mechanism="Filters without an index look through so many runs at a time, in the API as on the page.",
        file="scheduler/api/views/executions.py",
        old="            reached = reach(filters, self.now, limit, before)\n",
        new="            reached = None\n",
        red=[RUNS + "test_a_filter_without_an_index_looks_back_in_steps_and_loses_nothing"],
    ),
    Mutation(
        name="api-runs-look-goes-on",
        mechanism="Where a look ended early the answer says from where it goes on.",
        file="scheduler/api/views/executions.py",
        old="else Look(rows, (reached, BELOW_ALL))",
        new="else rows",
        red=[RUNS + "test_a_filter_without_an_index_looks_back_in_steps_and_loses_nothing"],
    ),
    Mutation(
        name="api-runs-of-the-tenant",
        mechanism="A key of a tenant sees that tenant's runs alone, whichever tenant it asks for.",
        file="scheduler/api/run_filters.py",
        old="        tenant=tenant,\n",
        new="",
        red=[RUNS + "test_a_key_of_a_tenant_sees_that_ones_runs_whatever_it_asks_for"],
    ),
    Mutation(
        name="diagnostics-are-of-all-tenants",
        mechanism="A key of one tenant does not see what is wrong with those of all.",
        file="scheduler/api/views/diagnostics.py",
        old="        if self.principal.tenant is not None:\n",
        new="        if False:\n",
        red=[DIAGNOSTICS + "test_a_key_of_one_tenant_does_not_see_what_is_of_all"],
    ),
    Mutation(
        name="post-leaves-what-is-missing",
        mechanism="A POST of a job that is there changes what it names and nothing else: it cannot lose an action.",
        file="scheduler/services/jobs.py",
        old="                is_edit = keeps and job is not None\n",
        new="                is_edit = False\n",
        red=[
            "tests/scheduler/api/test_partial_updates.py"
            "::test_a_post_of_a_job_that_is_there_leaves_what_it_does_not_name"
        ],
    ),
]
