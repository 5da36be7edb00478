"""Django tasks on Croniq."""

from tests.mutations.record import Mutation

STORY, ENVELOPE = "tests/clients/test_django_tasks.py::", "tests/clients/test_envelope.py::"
CLIENT = "clients/django-tasks/croniq_tasks/"

RECORDS = [
    Mutation(
        name="tasks-only-of-installed-apps",
        mechanism="A worker imports nothing outside of the installed apps.",
        file=CLIENT + "envelope.py",
        old='        if not any(self.path.startswith(f"{config.name}.") for config in apps.get_app_configs()):\n',
        new="        if False:\n",
        realtime=[STORY + "test_a_lost_answer_makes_no_second_run_and_only_declared_tasks_of_installed_apps_are_run"],
        database="postgresql",
    ),
    Mutation(
        name="tasks-asked-for-again-are-one",
        mechanism="An enqueue whose answer was lost makes no second run.",
        file=CLIENT + "api.py",
        old='"metadata": metadata, "idempotency_key": str(uuid.uuid4())}',
        new='"metadata": metadata}',
        realtime=[STORY + "test_a_lost_answer_makes_no_second_run_and_only_declared_tasks_of_installed_apps_are_run"],
        database="postgresql",
    ),
    Mutation(
        name="tasks-make-their-job",
        mechanism="The first enqueue of a task makes its job.",
        file=CLIENT + "backend.py",
        old="            if refusal.status != 404:\n",
        new="            if refusal.status:\n",
        realtime=[STORY + "test_tasks_of_a_django_project_are_run_and_scheduled_by_croniq"],
        database="postgresql",
    ),
    Mutation(
        name="tasks-hold-their-run-to-the-end",
        mechanism="A cancelled run is its worker's until the thread has ended.",
        file=CLIENT + "worker.py",
        old="            cancelled = True\n",
        new="            raise\n",
        realtime=[STORY + "test_a_cancelled_run_is_its_tasks_until_its_thread_has_ended"],
        database="postgresql",
    ),
    Mutation(
        name="tasks-log-into-their-run",
        mechanism="What a task logs is in its run's log.",
        file=CLIENT + "worker.py",
        old="        if sink is None:\n",
        new="        if sink is None or run:\n",
        realtime=[STORY + "test_tasks_of_a_django_project_are_run_and_scheduled_by_croniq"],
        database="postgresql",
    ),
    Mutation(
        name="tasks-results-fit-a-line",
        mechanism="A result that a log line cannot hold is an error, not a cut text.",
        file=CLIENT + "envelope.py",
        old="    if len(text) > MOST_RESULT_CHARACTERS:\n",
        new="    if False:\n",
        red=[ENVELOPE + "test_a_result_that_a_line_does_not_hold_is_an_error_and_no_cut_text"],
    ),
    Mutation(
        name="log-newest-lines-in-order",
        mechanism="The newest lines of a log come in their order.",
        file="scheduler/queries/logs.py",
        old='order_by("-id")[:count])[::-1]',
        new='order_by("-id")[:count])',
        red=["tests/scheduler/api/test_executions.py::test_logs_come_whole_in_order_and_from_where_one_stopped"],
    ),
]
