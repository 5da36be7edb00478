"""The bootstrap, the PostgreSQL launcher and `manage.py test`."""

from __future__ import annotations

from tests.mutations.record import Mutation

BOOTSTRAP = "croniq_site/bootstrap.py"
LAUNCHER = "tests/support/postgres.py"
DECISIONS = "tests/bootstrap/test_decisions.py"
SET_UP = "tests/bootstrap/test_set_up.py"
SUPPORT = "tests/bootstrap/test_support.py"
FLUSH = "tests/bootstrap/test_flush.py"
POSTGRES = "tests/bootstrap/test_postgres_launcher.py"

RECORDS = [
    Mutation(
        name="old-python-is-told",
        mechanism="A Python that is too old gets a sentence instead of a traceback.",
        file="manage.py",
        old="if sys.version_info < (3, 11):",
        new="if sys.version_info < (2, 0):",
        red=["tests/bootstrap/test_old_python.py::test_the_sentence_without_an_old_interpreter_at_hand"],
    ),
    Mutation(
        name="bootstrap-notices-a-changed-lock",
        mechanism="The marker holds the hash of the lock that is installed; another hash is installed again.",
        file=BOOTSTRAP,
        old="marker.locks.get(facts.needs) == facts.lock_hash",
        new="facts.needs in marker.locks",
        red=[f"{DECISIONS}::test_each_situation_has_its_step"],
    ),
    Mutation(
        name="bootstrap-notices-another-python-or-place",
        mechanism="An environment of another Python, or one that was moved, is made again.",
        file=BOOTSTRAP,
        old="(marker.python, marker.path) != (facts.python, facts.path)",
        new="False",
        red=[f"{DECISIONS}::test_each_situation_has_its_step"],
    ),
    Mutation(
        name="bootstrap-keeps-what-was-made-by-hand",
        mechanism="A working environment without our marker is entered, never thrown away.",
        file=BOOTSTRAP,
        old="if marker is not None and (marker.python",
        new="if marker is None or (marker.python",
        red=[
            f"{DECISIONS}::test_each_situation_has_its_step",
            f"{DECISIONS}::test_only_quickstart_and_test_ever_change_anything_and_entering_never_loops",
        ],
    ),
    Mutation(
        name="bootstrap-only-two-commands-install",
        mechanism="Commands other than quickstart and test change nothing: they enter .venv or say what to do.",
        file=BOOTSTRAP,
        old="return Step.ENTER if facts.venv_works and not facts.in_venv else Step.REFUSE",
        new="return Step.ENTER if facts.venv_works and not facts.in_venv else Step.CREATE",
        red=[f"{DECISIONS}::test_only_quickstart_and_test_ever_change_anything_and_entering_never_loops"],
    ),
    Mutation(
        name="bootstrap-remembers-an-interrupted-installation",
        mechanism="The marker says nothing is installed while an installation is under way.",
        file=BOOTSTRAP,
        old="        if read_marker(self.venv / MARKER):\n            self._mark({})\n",
        new="",
        realtime=[f"{SET_UP}::test_a_changed_lock_an_interrupted_installation_and_a_broken_venv_are_noticed"],
        database="sqlite",
    ),
    Mutation(
        name="bootstrap-one-at-a-time",
        mechanism="Two first starts at once: one sets up, the other waits and finds it done.",
        file=BOOTSTRAP,
        old="fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)",
        new="pass",
        realtime=[f"{SET_UP}::test_two_first_starts_at_once_make_one_environment"],
        database="sqlite",
    ),
    Mutation(
        name="bootstrap-never-loops",
        mechanism="What follows an installation never installs again: a lock that lacks a package ends in a sentence.",
        file=BOOTSTRAP,
        old="if os.environ.get(INSTALLED_FLAG):",
        new="if False:",
        realtime=[f"{SET_UP}::test_a_lock_that_lacks_a_package_ends_with_a_sentence_instead_of_a_loop"],
        database="sqlite",
    ),
    Mutation(
        name="suite-counts-a-dead-run-as-a-failure",
        mechanism="A pytest process that died before it could count is a failure in the total.",
        file="tests/support/suite.py",
        old="counts += Counts(failed=1)",
        new="pass",
        red=[f"{SUPPORT}::test_a_run_that_dies_before_it_counts_is_one_failure"],
    ),
    Mutation(
        name="suite-notices-workers-that-died",
        mechanism="A pytest-xdist worker that dies at its start is a failure; pytest says only that no test ran.",
        file="tests/support/counting.py",
        old=" + len(_dead_workers)",
        new="",
        realtime=["tests/bootstrap/test_command.py::test_workers_that_die_at_their_start_are_failures"],
        database="sqlite",
    ),
    Mutation(
        name="suite-runs-what-needs-no-database-once",
        mechanism="What no database takes part in runs beside the first database only; what asks for one runs on each.",
        file="tests/conftest.py",
        old="items[:] = kept",
        new="pass",
        realtime=[
            "tests/bootstrap/test_command.py::test_both_databases_run_and_say_so_and_the_total_stands_alone_at_the_end"
        ],
        database="sqlite",
    ),
    Mutation(
        name="suite-databases-wait-for-no-other",
        mechanism="A database that is done with one tier goes on with the next, whatever the other one does.",
        file="tests/support/suite.py",
        old='args=(lane,), name="lane") for lane in lanes]',
        new='args=([run for lane in lanes for run in lane],), name="lane")]',
        red=[f"{SUPPORT}::test_a_database_that_is_done_with_a_tier_waits_for_no_other"],
        database="sqlite",
    ),
    Mutation(
        name="suite-loses-no-realtime-test",
        mechanism="A realtime test in a file that its tier does not read stops every run.",
        file="tests/conftest.py",
        old="if item.get_closest_marker(REALTIME) and not may_be_realtime(item.path):",
        new="if False:",
        red=[f"{SUPPORT}::test_a_realtime_test_that_its_tier_would_not_find_stops_the_run"],
        database="sqlite",
    ),
    Mutation(
        name="flush-makes-anew-what-was-changed",
        mechanism="After a test that changed what a whole flush leaves, the database is flushed as a whole.",
        file="tests/support/flush.py",
        old="                if any(_rows(cursor, connection, table) != rows for table, rows in self.left.items()):",
        new="                if False:",
        red=[f"{FLUSH}::test_what_a_test_has_changed_of_it_is_made_anew"],
    ),
    Mutation(
        name="flush-takes-the-audit-too",
        mechanism="What a test has committed is gone after it, the audit too, which is guarded.",
        file="tests/support/flush.py",
        old="                if AUDIT in filled:",
        new="                if False:",
        red=[f"{FLUSH}::test_what_a_test_has_committed_is_gone_and_what_a_whole_flush_leaves_is_there"],
    ),
    Mutation(
        name="suite-takes-no-configuration-from-the-caller",
        mechanism="The runs see nothing of the caller's CRONIQ_*, DATABASE_URL or PG* variables.",
        file="tests/support/suite.py",
        old='not name.startswith(("CRONIQ_", "DATABASE_URL", "PG", "PYTEST_XDIST")) and',
        new="",
        red=[f"{SUPPORT}::test_a_run_takes_nothing_from_the_callers_configuration_but_where_postgresql_is"],
    ),
    Mutation(
        name="suite-never-skips-a-database",
        mechanism="Where no PostgreSQL can be had `manage.py test` fails with the sentence how to get one.",
        file="croniq_site/management/commands/test.py",
        old="raise CommandError(str(error)) from None",
        new="return",
        red=[f"{POSTGRES}::test_the_command_never_skips_a_database_that_it_cannot_start"],
    ),
    Mutation(
        name="sqlite-tests-run-on-a-file",
        mechanism="The SQLite runs use a file, which threads and processes share as in production.",
        file="tests/conftest.py",
        old='connection.settings_dict.setdefault("TEST", {})["NAME"] = name',
        new='connection.settings_dict.setdefault("TEST", {})["NAME"] = None',
        red=[f"{SUPPORT}::test_sqlite_runs_on_a_file"],
        database="sqlite",
    ),
    Mutation(
        name="launcher-removes-its-directory",
        mechanism="The private PostgreSQL leaves no directory behind.",
        file=LAUNCHER,
        old="        shutil.rmtree(self.directory, ignore_errors=True)\n        self.lock.close()",
        new="        self.lock.close()",
        red=[f"{POSTGRES}::test_a_server_answers_on_a_private_socket_only_and_is_gone_afterwards"],
    ),
    Mutation(
        name="launcher-is-private",
        mechanism="The server listens on its private socket only, on no address.",
        file=LAUNCHER,
        old='    "listen_addresses": "",\n',
        new="",
        red=[f"{POSTGRES}::test_a_server_answers_on_a_private_socket_only_and_is_gone_afterwards"],
    ),
    Mutation(
        name="launcher-sweeps-an-orphaned-server",
        mechanism="The sweep stops the server that a killed keeper left running.",
        file=LAUNCHER,
        old="                _kill_orphan(directory)\n",
        new="",
        realtime=[
            f"{POSTGRES}::test_what_a_killed_keeper_left_is_swept_by_the_next_start_and_the_living_is_not",
        ],
    ),
    Mutation(
        name="launcher-reaches-binaries-in-a-closed-home",
        mechanism="Binaries that the server's user cannot reach are copied beside the data.",
        file=LAUNCHER,
        old="if not self._can_run():",
        new="if False:",
        red=[f"{POSTGRES}::test_binaries_in_a_closed_home_are_copied_to_where_the_servers_user_reaches_them"],
    ),
]
