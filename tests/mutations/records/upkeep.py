"""Upkeep: backups, retention by number and on demand, the move to PostgreSQL."""

from tests.mutations.record import Edit, Mutation

HERE = "tests/scheduler/upkeep/"
BACKUP, PRUNE, MOVE = HERE + "test_backup.py::", HERE + "test_prune.py::", HERE + "test_move.py::"
COPY, NEWEST, PRUNER = "scheduler/services/backup.py", "scheduler/services/newest.py", "scheduler/workers/pruner.py"
MOVING, TARGET, TABLES = (f"scheduler/services/move/{name}.py" for name in ("moving", "target", "tables"))
RESTORE = HERE + "test_restore.py::"
KILLED = MOVE + "test_a_move_that_is_killed_goes_on_and_ends_in_the_same_installation"

RECORDS = [
    Mutation(
        name="backup-is-one-instant",
        mechanism="A backup is the database at one instant, its write-ahead log too, not the file as it lies there.",
        file=COPY,
        old="        original.backup(copy)\n",
        new="        part.write_bytes(source.read_bytes())\n",
        database="sqlite",
        red=[BACKUP + "test_a_copy_holds_what_was_committed_and_not_what_is_under_way"],
        realtime=[
            RESTORE + "test_a_backup_under_load_restores_to_a_state_in_which_every_fire_still_becomes_exactly_one_run"
        ],
    ),
    Mutation(
        name="restore-without-the-old-log",
        mechanism="The log that the killed processes left does not get into what is restored.",
        file="docs/deploy.md",
        old="  rm -f croniq.sqlite3 croniq.sqlite3-wal croniq.sqlite3-shm ",
        new="  rm -f croniq.sqlite3 ",
        database="sqlite",
        realtime=[
            RESTORE + "test_a_backup_under_load_restores_to_a_state_in_which_every_fire_still_becomes_exactly_one_run"
        ],
    ),
    Mutation(
        name="restore-has-the-queue",
        mechanism="A restored installation goes on with what waited: a dump without the queue is found.",
        file="docs/deploy.md",
        old="pg_dump --format=custom --file",
        new="pg_dump --format=custom --exclude-table-data=scheduler_queueentry --file",
        database="postgresql",
        realtime=[
            RESTORE + "test_a_backup_under_load_restores_to_a_state_in_which_every_fire_still_becomes_exactly_one_run"
        ],
    ),
    Mutation(
        name="backup-is-checked",
        mechanism="A copy that is not sound never gets its name.",
        file=COPY,
        old="    if faults:\n",
        new="    if False:\n",
        database="sqlite",
        red=[BACKUP + "test_a_copy_that_is_not_sound_never_gets_its_name"],
    ),
    Mutation(
        name="backup-replaces-nothing",
        mechanism="A backup replaces no file, not even one that somebody makes while it is copied.",
        file=COPY,
        old="        os.link(part, target)\n",
        new="        os.rename(part, target)\n",
        database="sqlite",
        red=[BACKUP + "test_nothing_is_replaced_also_what_appears_while_it_is_copied"],
    ),
    Mutation(
        name="backup-is-its-owners",
        mechanism="A backup can be read by its owner alone.",
        file=COPY,
        old="    os.close(descriptor)\n    part",
        new="    os.close(descriptor)\n    os.chmod(name, 0o644)\n    part",
        database="sqlite",
        red=[BACKUP + "test_a_copy_holds_what_was_committed_and_not_what_is_under_way"],
    ),
    Mutation(
        name="newest-not-younger-than-a-day",
        mechanism="A run that is younger than a day is kept whatever its number.",
        file=NEWEST,
        old="        until = now - KEPT_AT_LEAST\n",
        new="        until = now\n",
        red=[PRUNE + "test_what_is_younger_than_a_day_stays_whatever_its_number"],
    ),
    Mutation(
        name="newest-counts-what-is-over",
        mechanism="A fire that was skipped ahead of its time is none of the newest runs.",
        file=NEWEST,
        old="verdict__isnull=False, scheduled_for__lte=now)",
        new="verdict__isnull=False)",
        red=[PRUNE + "test_a_fire_that_was_skipped_ahead_of_its_time_is_none_of_the_newest"],
    ),
    Mutation(
        name="newest-asks-again",
        mechanism="A skipped run that is revived while it is looked for stays.",
        file=NEWEST,
        old="taken_still(beyond_newest(job_id, kept, now).filter(pk__in=batch), ",
        new="taken_still(Run.objects.filter(pk__in=batch), ",
        red=[PRUNE + "test_a_skipped_run_that_is_revived_while_it_is_looked_for_stays"],
    ),
    Mutation(
        name="newest-goes-round-the-jobs",
        mechanism="Pass by pass the reaper comes to every job.",
        file=NEWEST,
        old="limit, after_job=self._after_job)",
        new="limit, after_job=0)",
        red=[PRUNE + "test_a_batch_is_bounded_and_the_next_goes_on_where_it_ended"],
    ),
    Mutation(
        name="prune-round-by-round",
        mechanism="What a run was kept for may go before it, in one call.",
        file=PRUNER,
        old="    while sum(found := [_exhaust(kind, now, limit) for kind in KINDS]):\n",
        new="    for found in [[_exhaust(kind, now, limit) for kind in reversed(KINDS)][::-1]]:\n",
        red=[PRUNE + "test_all_that_was_counted_goes_and_what_was_kept_for_it_too"],
    ),
    Mutation(
        name="vacuum-while-nobody-serves",
        mechanism="The file is rewritten only while nobody serves it.",
        file="scheduler/management/commands/prune.py",
        old='        lock = self._lock() if options["vacuum"] else None\n',
        new='        lock = open("/dev/null") if options["vacuum"] else None\n',
        database="sqlite",
        red=[PRUNE + "test_free_space_goes_back_to_the_disk_while_nobody_serves"],
    ),
    Mutation(
        name="move-goes-on-after-the-last-key",
        mechanism="A move that was interrupted goes on after the last row that is there.",
        file=MOVING,
        old="    last = target.last_key(table)\n",
        new="    last = None\n",
        database="sqlite",
        realtime=[KILLED],
    ),
    Mutation(
        name="move-proves-what-is-there",
        mechanism="A target opens only when every row of it is the source's.",
        file=MOVING,
        old="        if here != there:\n",
        new="        if False:\n",
        database="sqlite",
        realtime=[MOVE + "test_what_was_written_since_an_interrupted_move_is_found_and_the_target_stays_shut"],
    ),
    Mutation(
        name="move-keeps-the-target-shut",
        mechanism="No process works on a database that a move has not finished.",
        file="croniq_site/kernel/migrated.py",
        old="    if is_filled:\n",
        new="    if False:\n",
        database="postgresql",
        red=[MOVE + "test_an_installation_on_postgresql_is_not_moved_and_one_that_is_being_filled_does_not_start"],
    ),
    Mutation(
        name="move-goes-on-with-the-numbers",
        mechanism="The moved tables give out numbers after the highest that was ever given out.",
        file=TARGET,
        old="                        number = highest.get(table.name, 0)\n",
        new="                        number = 0\n",
        database="sqlite",
        realtime=[KILLED],
    ),
    Mutation(
        name="move-leaves-the-source-silent",
        mechanism="What still runs on the old database after a move hands out nothing.",
        file=MOVING,
        old="    begin_maintenance(now, SYSTEM, MOVED)\n",
        new="",
        database="sqlite",
        realtime=[KILLED],
    ),
    Mutation(
        name="move-not-beside-writers",
        mechanism="Nothing is moved while a process gives signs of life.",
        file=MOVING,
        old="    if names:\n",
        new="    if False:\n",
        database="sqlite",
        realtime=[MOVE + "test_nothing_is_moved_where_it_should_not_be"],
    ),
    Mutation(
        name="move-into-an-empty-database",
        mechanism="A move fills an empty database only, and leaves any other as it was.",
        file=TARGET,
        old="                elif self._one(",
        new="                elif False and self._one(",
        database="sqlite",
        realtime=[MOVE + "test_nothing_is_moved_where_it_should_not_be"],
    ),
    Mutation(
        name="move-takes-every-table",
        mechanism="Tables of many-to-many relations move too.",
        edits=[Edit(TABLES, "apps.get_models(include_auto_created=True, ", "apps.get_models(")],
        red=[MOVE + "test_every_table_of_the_database_is_moved"],
    ),
    Mutation(
        name="move-sorts-text-by-bytes",
        mechanism="Keys that are text have the same order on both sides, whatever the locale.",
        file=TABLES,
        old='"{self.key.name}" COLLATE "C"\'',
        new='"{self.key.name}" COLLATE "und-x-icu"\'',
        database="sqlite",
        realtime=[KILLED],
    ),
]
