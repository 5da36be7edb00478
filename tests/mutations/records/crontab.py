"""Crontabs: what cron runs is taken, what it does not is listed; nobody else's job is touched."""

from tests.mutations.record import Mutation

PARSER = "scheduler/domain/crontab.py"
JOBS = "scheduler/domain/crontab_jobs.py"
SERVICE = "scheduler/services/imports.py"
PURE = "tests/scheduler/domain/test_crontab.py::"
STORIES = "tests/scheduler/test_import_crontab.py::"
COMMANDS = "tests/runners/agent/test_command.py::"

RECORDS = [
    Mutation(
        name="crontab-percent-escaped",
        mechanism="In a command a backslash before a percent sign makes it one.",
        file=PARSER,
        old='if character == "%" and not escaped:',
        new='if character == "%":',
        red=[PURE + "test_percent_signs", PURE + "test_the_commands_of_debian_are_what_cron_gives_to_the_shell"],
    ),
    Mutation(
        name="crontab-variables-below-only",
        mechanism="A variable holds for the lines below it and not for those above.",
        file=PARSER,
        old="self._environment = self._environment | {name: value}",
        new="self._environment[name] = value",
        red=[PURE + "test_variables_hold_for_the_lines_below_them"],
    ),
    Mutation(
        name="crontab-zone-below",
        mechanism="CRON_TZ and TZ are the zone of the schedules below them.",
        file=PARSER,
        old='self._zones[name] = value.removeprefix(":")',
        new="pass",
        red=[PURE + "test_zones_hold_for_the_lines_below_them", STORIES + "test_a_zone_of_the_file_is_the_triggers"],
    ),
    Mutation(
        name="crontab-backward-ranges-refused",
        mechanism="A range that runs backwards, which cron never runs, is not taken.",
        file=PARSER,
        old='elif _number(match["low"], names) > _number(match["high"], names):',
        new="elif False:",
        red=[PURE + "test_what_cron_would_not_run_is_refused_with_the_reason"],
    ),
    Mutation(
        name="crontab-bytes-bounded",
        mechanism="A file of more than 1 MiB is no crontab.",
        file=PARSER,
        old="if len(data) > MOST_BYTES:",
        new="if False:",
        red=[PURE + "test_a_file_that_is_no_crontab_is_refused_as_a_whole"],
    ),
    Mutation(
        name="crontab-jobs-bounded",
        mechanism="A file of more than 1,000 lines to run is refused.",
        file=PARSER,
        old="if len(self.entries) == MOST_JOBS:",
        new="if False:",
        red=[PURE + "test_a_file_that_is_no_crontab_is_refused_as_a_whole"],
    ),
    Mutation(
        name="crontab-nul-refused",
        mechanism="A file with a NUL byte is no crontab.",
        file=PARSER,
        old='if (nul := data.find(b"\\0")) >= 0:',
        new='if (nul := data.find(b"\\0")) >= 10**9:',
        red=[PURE + "test_a_file_that_is_no_crontab_is_refused_as_a_whole"],
    ),
    Mutation(
        name="crontab-users-only-as-root",
        mechanism="A line of another user is taken only for a runner that runs as root.",
        file=JOBS,
        old='elif entry.user not in ("", account.name):',
        new="elif False:",
        red=[
            PURE + "test_only_a_runner_that_is_root_becomes_another_user",
            STORIES + "test_users_are_honoured_only_by_a_runner_that_is_root",
        ],
    ),
    Mutation(
        name="crontab-keys-of-content",
        mechanism="A key is that of user, command and input, whatever line and schedule.",
        file=JOBS,
        old="digest_of(entry.user, entry.command, entry.stdin or '')",
        new="digest_of(entry.user, entry.line, str(entry.number))",
        red=[
            PURE + "test_a_key_says_what_runs_and_stays_when_line_schedule_and_environment_change",
            STORIES + "test_an_edited_line_changes_its_job_and_keeps_what_was_edited_there",
        ],
    ),
    Mutation(
        name="crontab-nobody-elses-job",
        mechanism="A job that an import did not make, or of another tenant, is not touched.",
        file=SERVICE,
        old="if job.managed_by != source.managed_by or job.tenant != source.tenant:",
        new="if False:",
        red=[STORIES + "test_another_ones_job_is_never_touched"],
    ),
    Mutation(
        name="crontab-same-again-changes-nothing",
        mechanism="Importing the same file again writes nothing.",
        file=SERVICE,
        old='return "unchanged" if same and _has_schedule(trigger, draft, now) else "changed"',
        new='return "changed"',
        red=[STORIES + "test_the_same_file_again_changes_nothing"],
    ),
    Mutation(
        name="crontab-edits-survive",
        mechanism="What was edited in an imported job stays when its line is imported again.",
        file=SERVICE,
        old="if found is None:\n        fields |=",
        new="if True:\n        fields |=",
        red=[STORIES + "test_an_edited_line_changes_its_job_and_keeps_what_was_edited_there"],
    ),
    Mutation(
        name="crontab-lines-alone",
        mechanism="A line that the services refuse takes no other one along.",
        file=JOBS,
        old="except (NotTaken, InvalidInput) as error:",
        new="except NotTaken as error:",
        red=[STORIES + "test_a_line_that_its_service_refuses_takes_no_other_along"],
    ),
    Mutation(
        name="crontab-terminal-safe",
        mechanism="A line of a file is shown without its control characters.",
        file="scheduler/management/importing.py",
        old='c if c.isprintable() else " "',
        new='c if True else " "',
        red=[STORIES + "test_every_line_that_is_not_taken_is_listed_with_its_reason"],
    ),
    Mutation(
        name="command-reads-stdin",
        mechanism="A command reads what its action has for it.",
        file="runners/agent/process.py",
        old="stdin=source,",
        new="stdin=subprocess.DEVNULL,",
        red=[COMMANDS + "test_what_the_action_has_for_stdin_is_read_to_its_end"],
        database="sqlite",
    ),
    Mutation(
        name="command-home-directory",
        mechanism="The working directory ~ is the process's home, the root where there is none.",
        file="runners/agent/command.py",
        old='return home if home and Path(home).is_dir() else "/"',
        new="return home",
        red=[COMMANDS + "test_the_home_directory_of_the_process_is_a_working_directory"],
        database="sqlite",
    ),
]
