"""What a second look at deployment and upkeep found: settings, dead hosts, upgrades, probes, what grows for ever."""

from tests.mutations.record import Mutation

SETTINGS, CONNECTIONS = "tests/site/test_settings.py::", "tests/site/test_connections.py::"
READER = "croniq_site/configuration.py"


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
        "dead-database-hosts-are-noticed",
        "A database host that is gone without a word is an outage in half a minute, not in two hours.",
        READER,
        '{**_NOTICE_THE_DEAD, **settings.get("OPTIONS", {})}',
        'settings.get("OPTIONS", {})',
        SETTINGS + "test_a_database_host_that_is_gone_without_a_word_is_noticed_before_a_watchdog_bites",
    ),
]
