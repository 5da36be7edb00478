"""Imports: what the source says is what the job does; what cannot be is said, and again changes nothing."""

from tests.mutations.record import Mutation

K8S = "scheduler/domain/k8s.py"
K8S_JOBS = "scheduler/domain/k8s_jobs.py"
BEAT = "scheduler/domain/celery_beat.py"
TABLES = "scheduler/queries/celery_tables.py"
SERVICE = "scheduler/services/imports.py"
COMMAND = "scheduler/management/importing.py"

RULES = "tests/scheduler/imports/test_k8s.py::"
STORIES = "tests/scheduler/imports/test_import_k8s.py::"
TASKS = "tests/scheduler/imports/test_celery_beat.py::"
FROM_TABLES = "tests/scheduler/imports/test_import_celery_beat.py::"


def pure(name: str, mechanism: str, file: str, old: str, new: str, *red: str) -> Mutation:
    """What no database takes part in is looked at once."""
    return Mutation(name=name, mechanism=mechanism, file=file, old=old, new=new, red=red, database="sqlite")


RECORDS = [
    pure(
        "k8s-steps-are-not-any-day",
        "A step in a day field is not any day to Kubernetes: either field matches then.",
        K8S_JOBS,
        'if "*" not in (fields[2], fields[4]):',
        "if False:",
        RULES + "test_schedules_are_those_of_the_controller",
        RULES + "test_days_are_those_of_the_controller",
    ),
    pure(
        "k8s-expands-variables",
        "A command's $(NAME) is what its environment says, as the kubelet makes it.",
        K8S_JOBS,
        "return _EXPANDED.sub(value, text)",
        "return text",
        RULES + "test_what_kubectl_prints_is_read",
    ),
    pure(
        "k8s-secrets-stay-names",
        "A secret of Kubernetes that stands within a text is not taken.",
        K8S_JOBS,
        "if not isinstance(found, str):",
        "if False:",
        RULES + "test_what_cannot_be_taken_says_why",
    ),
    pure(
        "k8s-images-are-not-started",
        "A container whose command is that of its image is not taken.",
        K8S_JOBS,
        "    if not argv:\n        raise",
        "    if argv is None:\n        raise",
        RULES + "test_what_kubectl_prints_is_read",
        RULES + "test_what_cannot_be_taken_says_why",
    ),
    pure(
        "k8s-volumes-are-not-there",
        "A container that mounts volumes is not taken as a command.",
        K8S_JOBS,
        'for name in ("volumeMounts", "volumeDevices", "envFrom"):',
        "for name in ():",
        RULES + "test_what_cannot_be_taken_says_why",
    ),
    pure(
        "k8s-one-run-is-one-process",
        "A CronJob of several pods at once, or of several containers, is not taken.",
        K8S_JOBS,
        "if (template.number(name) or 1) > 1:",
        "if False:",
        RULES + "test_what_cannot_be_taken_says_why",
    ),
    pure(
        "k8s-no-aliases",
        "Aliases of YAML are refused: a few lines of them stand for gigabytes.",
        K8S,
        "if isinstance(event, yaml.AliasEvent):",
        "if False:",
        RULES + "test_a_file_that_cannot_be_read_is_a_reason",
    ),
    pure(
        "k8s-depth-bounded",
        "A manifest that is nested too deep is refused before anything recurses into it.",
        K8S,
        "if depth > MOST_DEPTH:",
        "if depth > 150_000:",
        RULES + "test_a_file_that_cannot_be_read_is_a_reason",
    ),
    pure(
        "k8s-types-are-asked",
        "What has another type in a manifest than it should have is a reason, not a fault.",
        K8S,
        "if not isinstance(value, Mapping) or not all(isinstance(key, str) for key in value):",
        "if False:",
        RULES + "test_what_cannot_be_taken_says_why",
        RULES + "test_whatever_a_manifest_is_it_is_taken_or_refused_with_a_reason",
    ),
    Mutation(
        name="import-suspended-once",
        mechanism="Whether a job is active is set by the import that makes it and left alone by later ones.",
        file=SERVICE,
        old="    if found is None:\n        fields |= {**draft.first, ",
        new="    if True:\n        fields |= {**draft.first, ",
        red=[STORIES + "test_an_edited_manifest_changes_command_and_schedule_and_leaves_the_rest"],
    ),
    Mutation(
        name="import-dry-run-takes-back",
        mechanism="A dry run of an import leaves nothing behind.",
        file=SERVICE,
        old="                raise _TakenBack(Imported(draft, outcome, preview=_preview(trigger, now)))\n",
        new="                return Imported(draft, outcome, preview=_preview(trigger, now))\n",
        red=[
            STORIES + "test_a_dry_run_says_what_would_be_and_writes_nothing",
            FROM_TABLES + "test_a_dry_run_writes_nothing",
        ],
    ),
    Mutation(
        name="import-refused-takes-no-other-along",
        mechanism="What a service refuses is listed with its reason, and the others are taken.",
        file=SERVICE,
        old="    except (NotTaken, CroniqError) as refused:\n",
        new="    except NotTaken as refused:\n",
        red=[STORIES + "test_a_dry_run_says_what_would_be_refused_by_whoever_saves_it"],
    ),
    Mutation(
        name="import-schedule-follows",
        mechanism="A schedule that was edited in the source is edited here, of whatever kind it was.",
        file=SERVICE,
        old='if same and _has_schedule(trigger, draft, now) else "changed"',
        new='if same else "changed"',
        red=[FROM_TABLES + "test_an_edited_schedule_is_followed_and_what_was_edited_here_stays"],
    ),
    Mutation(
        name="import-strict-exits-with-1",
        mechanism="With --strict the exit code says that something could not be taken.",
        file=COMMAND,
        old='if refused and (options["strict"] or not counts):',
        new="if refused and not counts:",
        red=[STORIES + "test_one_file_that_cannot_be_read_takes_no_other_along"],
    ),
    pure(
        "beat-both-days-match",
        "Where Celery wants day of month and day of week both, a job that would take either is not made.",
        BEAT,
        'if not month_day.startswith("*") and not weekday.startswith("*"):',
        "if False:",
        TASKS + "test_both_days_of_a_crontab_have_to_match_in_celery",
        TASKS + "test_a_crontab_fires_when_celery_says_or_is_not_taken",
    ),
    pure(
        "beat-ranges-go-round",
        "A range of Celery's that runs backwards goes round.",
        BEAT,
        "[*range(begin, high + 1), *range(low, end + 1)]",
        "[]",
        TASKS + "test_a_crontab_fires_when_celery_says_or_is_not_taken",
    ),
    pure(
        "beat-steps-need-a-range",
        "A step behind a single value, which Celery does not run, is not taken.",
        BEAT,
        '(match["step"] and match["low"] and not match["high"])',
        "False",
        TASKS + "test_what_celery_does_not_run_is_not_taken",
    ),
    pure(
        "beat-one-off-once",
        "A task that was to run once, and has run, is not taken.",
        BEAT,
        'if is_one_off and not task["enabled"] and task.get("total_run_count"):',
        "if False:",
        TASKS + "test_what_cannot_be_taken_says_why",
        FROM_TABLES + "test_the_tasks_of_a_real_application_become_jobs_and_again_changes_nothing",
    ),
    Mutation(
        name="beat-one-off-is-not-armed-again",
        mechanism="A one-off that was imported keeps its instant, however often it is imported.",
        file=BEAT,
        old='return {}, {"run_at": fire.at}',
        new='return {"run_at": fire.at}, {}',
        red=[FROM_TABLES + "test_a_one_off_that_was_imported_is_not_armed_again"],
    ),
    Mutation(
        name="beat-tables-are-only-read",
        mechanism="The application's database is opened for reading only, and no file is made.",
        file=TABLES,
        old='?mode=ro"',
        new='?mode=rwc"',
        red=[FROM_TABLES + "test_the_applications_database_is_only_read"],
        database="sqlite",
    ),
    Mutation(
        name="beat-tables-are-only-read-postgresql",
        mechanism="The application's PostgreSQL is told that this session writes nothing.",
        file=TABLES,
        old="default_transaction_read_only=on",
        new="default_transaction_read_only=off",
        red=[FROM_TABLES + "test_the_applications_database_is_only_read"],
        database="postgresql",
    ),
]
