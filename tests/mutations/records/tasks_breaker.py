"""Django tasks on Croniq: what a second look found."""

from tests.mutations.record import Mutation

BACKEND, EXECUTE = "tests/clients/test_backend.py::", "tests/clients/test_execute.py::"
SYNC, LOG = "tests/clients/test_sync.py::", "tests/clients/test_run_log.py::"
CLIENT = "clients/django-tasks/croniq_tasks/"


def record(name: str, mechanism: str, file: str, old: str, new: str, *red: str) -> Mutation:
    """All of these are seen by a fast test on SQLite: the client knows HTTP alone."""
    return Mutation(
        name=f"tasks-{name}",
        mechanism=mechanism,
        file=CLIENT + file,
        old=old,
        new=new,
        red=list(red),
        database="sqlite",
    )


RECORDS = [
    record(
        "senders-log-beside-the-run",
        "What sends a task's lines may log that it does without waiting for itself.",
        "worker.py",
        "process != os.getpid() or thread == threading.get_ident()",
        "process != os.getpid()",
        LOG + "test_lines_come_in_order_and_what_sends_them_may_log_that_it_does",
    ),
    record(
        "forks-log-for-themselves",
        "A process that a task forks does not wait for a loop that nobody runs.",
        "worker.py",
        "process != os.getpid() or thread == threading.get_ident()",
        "thread == threading.get_ident()",
        LOG + "test_a_process_that_a_task_forks_logs_for_itself",
    ),
    record(
        "log-without-a-lock",
        "The loop may log while a task waits for the loop.",
        "worker.py",
        "    def handle(self, record: logging.LogRecord) -> bool:\n",
        "    def handle_(self, record: logging.LogRecord) -> bool:\n",
        LOG + "test_the_loop_may_log_while_a_task_waits_for_it",
    ),
    record(
        "logs-leave-room-for-results",
        "A task that logs without end leaves the log of its run room for the result.",
        "worker.py",
        "            if sink.is_full:\n                return\n",
        "",
        LOG + "test_a_log_without_end_leaves_its_run_room_for_the_result",
    ),
    record(
        "results-that-are-not-kept-are-no-success",
        "A result that the log of the run did not take is no success without a value.",
        "worker.py",
        '{FIELD: "result"}) and value is not None:',
        '{FIELD: "result"}) is None:',
        EXECUTE + "test_a_result_for_which_the_log_has_no_room_is_no_success",
    ),
    record(
        "imports-in-threads",
        "A module is imported in the thread of its task, not in the loop that renews the leases.",
        "worker.py",
        "await self._in_thread(call.task, self._backend.alias, *place)",
        "call.task(self._backend.alias, *place)",
        EXECUTE + "test_a_module_is_imported_in_the_thread_of_its_task",
    ),
    record(
        "modules-may-leave",
        "A module that leaves when it is imported does not take the worker with it.",
        "envelope.py",
        "        except (Exception, SystemExit) as error:\n",
        "        except ZeroDivisionError as error:\n",
        EXECUTE + "test_a_module_that_fails_or_leaves_is_not_the_end_of_the_worker",
    ),
    record(
        "receivers-find-the-exception",
        "Who hears of a failure finds its exception in sys.exc_info(), as with Django's own backends.",
        "worker.py",
        "        _finish(sender, result, TaskResultStatus.FAILED)  #",
        "        pass  #",
        EXECUTE + "test_who_hears_that_a_task_failed_finds_its_exception",
    ),
    record(
        "errors-have-an-end",
        "What an exception says is cut before it is sent and printed.",
        "envelope.py",
        '{text}")[:MOST_RESULT_CHARACTERS]',
        '{text}")',
        EXECUTE + "test_what_is_hard_to_tell_is_told",
    ),
    record(
        "names-of-one-client",
        "A worker does not begin with the name of another client's.",
        "identity.py",
        '{prefix}\\0{url}\\0{key}".encode()',
        '{prefix}".encode()',
        EXECUTE + "test_another_server_or_client_knows_nothing_of_a_name",
    ),
    record(
        "broken-names-are-made-anew",
        "A kept name that was broken is made anew.",
        "identity.py",
        'if not (name.startswith(f"{prefix}-") and name.isprintable()):',
        "if not name:",
        EXECUTE + "test_a_name_that_was_broken_is_made_anew",
    ),
    record(
        "nobody-needs-a-home",
        "A worker of a user without a home begins.",
        "identity.py",
        "    except (OSError, RuntimeError) as error:",
        "    except OSError as error:",
        EXECUTE + "test_who_has_no_home_has_a_name_for_now",
    ),
    record(
        "one-client-a-process",
        "Backends of all threads and contexts share their connections.",
        "api.py",
        "@cache\ndef _connected",
        "def _connected",
        BACKEND + "test_backends_of_all_threads_and_contexts_share_their_connections",
    ),
    record(
        "ids-are-ids",
        "What is no id becomes no part of an address.",
        "backend.py",
        "{UUID(str(run_id))}",
        "{run_id}",
        BACKEND + "test_what_is_no_id_is_asked_of_nobody",
    ),
    record(
        "instants-on-the-own-clock",
        "A project without USE_TZ has naive instants, as all its own are.",
        "backend.py",
        "return instant if settings.USE_TZ or instant is None else",
        "return instant if settings.TIME_ZONE or instant is None else",
        BACKEND + "test_instants_of_a_project_without_zones_are_on_its_own_clock",
    ),
    record(
        "told-of-what-is-enqueued",
        "A receiver that fails after the run is made does not make anybody enqueue it again.",
        "backend.py",
        "task_enqueued.send_robust(",
        "task_enqueued.send(",
        BACKEND + "test_a_receiver_that_fails_makes_nobody_enqueue_again",
    ),
    record(
        "prune-spares-other-backends",
        "--prune spares what another backend of the project has at the same place.",
        "management/commands/croniq_sync.py",
        "self._prune(backend, {_job_key(backend, schedule) for schedule in ours})",
        "self._prune(backend, {_job_key(backend, s) for s in ours if s.task.backend == backend.alias})",
        SYNC + "test_what_is_gone_is_deleted_with_prune_and_nothing_else_is",
    ),
    record(
        "keys-are-quoted",
        "A key with a # is deleted as it is.",
        "api.py",
        "{quote(job_key, safe='')}",
        "{job_key}",
        SYNC + "test_what_is_gone_is_deleted_with_prune_and_nothing_else_is",
    ),
    record(
        "one-wrong-schedule-stops-itself",
        "A schedule that is refused stops no other, and is named.",
        "management/commands/croniq_sync.py",
        "            if refusal.status != 400:\n",
        "            if refusal.status:\n",
        SYNC + "test_what_is_wrong_with_one_is_told_with_its_name_and_the_others_are_made",
    ),
    record(
        "nothing-goes-for-a-wrong-declaration",
        "Nothing is deleted by a declaration of which a part is refused.",
        "management/commands/croniq_sync.py",
        "            if refused:\n                raise",
        "            if refused and not options['prune']:\n                raise",
        SYNC + "test_what_is_wrong_with_one_is_told_with_its_name_and_the_others_are_made",
    ),
    record(
        "dropped-priorities-are-gone",
        "A priority that a declaration drops is gone.",
        "jobs.py",
        '            "priority": fields.get("priority", 0) + priority,\n            "tags"',
        '            "tags"',
        SYNC + "test_a_priority_that_is_dropped_is_gone",
    ),
]
