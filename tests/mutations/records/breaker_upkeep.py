"""What a second look at deployment and upkeep found: settings, dead hosts, upgrades, probes, what grows for ever."""

from tests.mutations.record import Mutation

SETTINGS, CONNECTIONS = "tests/site/test_settings.py::", "tests/site/test_connections.py::"
ALONE, ADDITIVE = "tests/kernel/test_migrating.py::", "tests/schema/test_additive.py::"
RETENTION, RETAINING = "tests/scheduler/workers/test_retention.py::", "scheduler/services/retention.py"
HANGS = (
    "tests/scheduler/edge/test_serve.py::"
    "test_a_database_that_hangs_neither_hides_the_server_from_who_would_kill_it_nor_keeps_it_from_ending"
)
WORKERS = "tests/scheduler/workers/test_workers.py::"
BACKUP, MOVE = (f"tests/scheduler/upkeep/test_{name}.py::" for name in ("backup", "move"))
HEALTH, QUICKSTART = "tests/deploy/test_healthcheck.py::", "tests/e2e/test_quickstart.py::"
READER = "croniq_site/configuration.py"
MIGRATING, INDEXES = "croniq_site/kernel/migrating.py", "croniq_site/kernel/indexes.py"


def _record(name: str, mechanism: str, file: str, old: str, new: str, *red: str, database: str = "both") -> Mutation:
    return Mutation(name=name, mechanism=mechanism, file=file, old=old, new=new, red=red, database=database)


RECORDS = [
    _record(
        "settings-take-a-dollar-as-it-is",
        "A key or password that begins with $ is itself, and not the name of another variable.",
        READER,
        '    return env.ENVIRON.get(name, "").strip() or None\n',
        '    return env.str(name, default="").strip() or None\n',
        SETTINGS + "test_a_value_that_begins_with_a_dollar_is_itself_and_names_no_other_variable",
    ),
    _record(
        "settings-read-the-key-that-is-there",
        "On a full disk a command starts with the secret key that is there.",
        READER,
        "    if not path.exists():\n        data_dir",
        "    if True:\n        data_dir",
        SETTINGS + "test_on_a_disk_that_is_full_a_key_that_is_there_does_and_one_that_cannot_be_made_leaves_nothing",
    ),
    _record(
        "settings-refuse-names-that-answer-nobody",
        "A host with a scheme or a port, to which no request answers, is refused at start.",
        READER,
        '        if not (text == "*" or is_name or _ADDRESS_V6.fullmatch(text)):\n',
        "        if False:\n",
        SETTINGS + "test_names_that_would_answer_nobody_are_refused",
    ),
    _record(
        "settings-have-one-data-directory",
        "A relative data directory, another one in every folder, is refused.",
        READER,
        "    if not path.is_absolute():\n",
        "    if False:\n",
        SETTINGS + "test_a_data_directory_is_the_same_wherever_a_command_is_started",
    ),
    _record(
        "settings-warn-of-no-password",
        "A database URL in quotes is refused, and not repeated with its password in a warning.",
        READER,
        " if _DATABASE.match(url) else {}\n",
        "\n",
        SETTINGS + "test_nonsense_is_refused_by_the_name_of_the_variable_without_repeating_secrets",
    ),
    _record(
        "migrate-one-at-a-time",
        "Of two that migrate at once, on any hosts, the second waits.",
        MIGRATING,
        "        if not take(connection, held):\n            report",
        "        if False:\n            report",
        ALONE + "test_a_second_migrate_waits_for_the_first_and_then_goes_on",
    ),
    _record(
        "migrate-lets-others-go-on",
        "A table that a dump reads is waited for a moment at a time: claims do not wait behind it.",
        MIGRATING,
        "            _wait_for_locks(connection, lock_seconds)\n",
        "            _wait_for_locks(connection, 0)\n",
        ALONE + "test_a_table_that_a_dump_reads_is_tried_again_and_writers_go_on_in_between",
        database="postgresql",
    ),
    _record(
        "indexes-half-built-are-built-anew",
        "An index that an interrupted migration left invalid is built anew.",
        INDEXES,
        "            if is_valid is not None:\n",
        "            if False:\n",
        ADDITIVE + "test_an_index_whose_migration_was_interrupted_is_there_when_it_is_asked_for_again",
        database="postgresql",
    ),
    _record(
        "indexes-that-are-there-stay",
        "An index that an interrupted migration had built is no failure of the next.",
        INDEXES,
        "        if is_valid:\n            return\n",
        "",
        ADDITIVE + "test_an_index_whose_migration_was_interrupted_is_there_when_it_is_asked_for_again",
        database="postgresql",
    ),
    _record(
        "indexes-wait-beside-writers",
        "An index that is built beside its writers waits for them, however little others may wait for a lock.",
        INDEXES,
        "        with _patient(schema_editor.connection):\n",
        "        if True:\n",
        ADDITIVE + "test_an_index_waits_for_those_who_write_however_little_others_may_wait",
        database="postgresql",
    ),
    _record(
        "units-go-on-while-it-is-migrated",
        "systemd restarts no server because its migration is started again.",
        "deploy/systemd/croniq-serve.service",
        "Wants=network-online.target croniq-migrate.service\n",
        "Wants=network-online.target croniq-migrate.service\nRequires=croniq-migrate.service\n",
        "tests/deploy/test_facts.py::test_no_process_of_a_new_version_starts_before_its_migrations",
    ),
    _record(
        "health-check-asks-by-no-proxy",
        "The health check asks the server beside it, and no proxy that the environment names.",
        "deploy/healthcheck.py",
        "urllib.request.ProxyHandler({})",
        "urllib.request.ProxyHandler()",
        HEALTH + "test_it_asks_by_a_name_that_is_answered_and_not_by_a_proxy",
    ),
    Mutation(
        name="quickstart-asks-by-no-proxy",
        mechanism="All of Croniq on one machine finds its own server behind a proxy that the environment names.",
        file="scheduler/management/commands/quickstart.py",
        old='                "no_proxy": ",".join(filter(None, [_no_proxy(), urlsplit(url).hostname])),\n',
        new="",
        database="sqlite",
        realtime=[
            QUICKSTART + "test_quickstart_sets_up_runs_the_demo_and_leaves_nothing_and_a_second_start_doubles_nothing"
        ],
    ),
    _record(
        "runners-zombies-are-buried",
        "What a job's command leaves behind is buried by a first process that does so.",
        "deploy/kubernetes/runner.yaml",
        "      shareProcessNamespace: true\n",
        "",
        "tests/deploy/test_facts.py::test_what_jobs_leave_behind_is_buried_by_the_first_process",
    ),
    _record(
        "retention-passes-over-lines-of-the-future",
        "A line that a clock ahead of its time has stamped keeps no others.",
        RETAINING,
        'rows.filter(**{f"{column}__lte": now}).order_by("pk")',
        'rows.order_by("pk")',
        RETENTION + "test_lines_that_a_clock_ahead_of_its_time_has_stamped_keep_no_others",
    ),
    _record(
        "retention-waits-for-the-clock",
        "A clock that is set forward by a year throws nothing away for an hour.",
        "scheduler/workers/reaper.py",
        "0 if name in KINDS and not may_throw_away() else chore(now, limit)",
        "chore(now, limit)",
        RETENTION + "test_a_clock_that_is_set_forward_throws_nothing_away_for_an_hour",
    ),
    _record(
        "retention-waits-for-long-silences-only",
        "After a restart old runs go at once.",
        RETAINING,
        "    return all(ended_at - began_at < LONG_SILENCE for began_at, ended_at in lately)\n",
        "    return not lately.exists()\n",
        RETENTION + "test_a_restart_throws_away_at_once",
    ),
    _record(
        "sessions-go-when-they-are-over",
        "Sessions that are over do not stay for ever.",
        RETAINING,
        "    if not over.exists():\n        return 0\n",
        "    return 0\n",
        RETENTION + "test_sessions_go_when_they_are_over",
    ),
    _record(
        "workers-look-when-the-database-is-back",
        "A worker that waited for the database works on no tables of another version.",
        "scheduler/workers/process.py",
        "            _refuse_other_tables()\n",
        "",
        WORKERS + "test_a_worker_that_waited_for_the_database_does_not_work_on_tables_of_another_version",
    ),
    _record(
        "backup-has-a-name-of-its-own",
        "What a killed backup left keeps no other from its name, also where process numbers begin anew.",
        "scheduler/services/backup.py",
        '        descriptor, name = tempfile.mkstemp(prefix=f".{target.name}.", suffix=".part", dir=target.parent)\n',
        '        name = str(target.with_name(f".{target.name}.{os.getpid()}.part"))\n'
        "        descriptor = os.open(name, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)\n",
        BACKUP + "test_what_a_killed_backup_left_keeps_no_other_from_that_name",
        database="sqlite",
    ),
    _record(
        "backup-where-there-are-no-links",
        "A file system without hard links takes a backup.",
        "scheduler/services/backup.py",
        "        if error.errno not in _NO_LINKS:\n",
        "        if True:\n",
        BACKUP + "test_a_file_system_without_links_takes_a_backup_and_has_none_replaced",
        database="sqlite",
    ),
    Mutation(
        name="probes-have-a-thread-of-their-own",
        mechanism="A server whose database hangs answers the probe by which it would be killed.",
        file="croniq_site/asgi.py",
        old='self._probes if scope["path"] == PROBE else self._pages',
        new="self._pages",
        database="postgresql",
        realtime=[HANGS],
    ),
    Mutation(
        name="servers-end-while-a-database-hangs",
        mechanism="A server that is told to stop ends though its database hangs.",
        file="scheduler/management/commands/serve.py",
        old="        if alive.is_alive():\n",
        new="        if False:\n",
        database="postgresql",
        realtime=[HANGS],
    ),
    Mutation(
        name="move-not-what-was-moved",
        mechanism="What was moved is not moved again with the maintenance that it was left in.",
        file="scheduler/services/move/moving.py",
        old="        _refuse_moved()\n",
        new="",
        database="sqlite",
        realtime=[MOVE + "test_what_was_written_since_an_interrupted_move_is_found_and_the_target_stays_shut"],
    ),
    Mutation(
        name="move-notices-who-began-to-write",
        mechanism="What a worker that was started during a move has written is not left behind without a word.",
        file="scheduler/services/move/target.py",
        old="                last_look()\n",
        new="",
        database="sqlite",
        realtime=[MOVE + "test_what_was_written_since_an_interrupted_move_is_found_and_the_target_stays_shut"],
    ),
    _record(
        "dead-database-hosts-are-noticed",
        "A database host that is gone without a word is an outage in half a minute, not in two hours.",
        READER,
        '{**_NOTICE_THE_DEAD, **settings.get("OPTIONS", {})}',
        'settings.get("OPTIONS", {})',
        SETTINGS + "test_a_database_host_that_is_gone_without_a_word_is_noticed_before_a_watchdog_bites",
    ),
]
