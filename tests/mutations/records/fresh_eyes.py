"""What somebody found who had not built it: mechanisms whose loss no test noticed."""

from tests.mutations.record import Edit, Mutation

CONFIGURATION = "croniq_site/configuration.py"
SETTINGS = "croniq_site/settings.py"
CLIENTS = "runners/services/clients.py"

CONNECTIONS = "tests/site/test_connections.py::"
FRAMING = "tests/scheduler/dashboard/test_framing.py::"
MADE = "tests/runners/test_clients.py::"

RECORDS = [
    Mutation(
        name="sqlite-waits-for-its-writer",
        mechanism="Who finds the SQLite file taken waits for twenty seconds and not for the driver's five.",
        file=CONFIGURATION,
        old='            "timeout": 20,\n',
        new="",
        red=[CONNECTIONS + "test_who_finds_the_sqlite_file_taken_waits_for_twenty_seconds"],
        database="sqlite",
    ),
    Mutation(
        name="postgresql-connections-are-asked-first",
        mechanism="A connection that was ended while nobody used it costs no request: it is asked before it is used.",
        file=CONFIGURATION,
        old='        settings["CONN_HEALTH_CHECKS"] = True\n',
        new="        pass\n",
        red=[CONNECTIONS + "test_a_connection_that_was_ended_while_nobody_used_it_costs_no_request"],
        database="postgresql",
    ),
    Mutation(
        name="loop-drops-dead-connections",
        mechanism="A connection that was ended between two passes of a worker fails none of them.",
        file="croniq_site/kernel/loop.py",
        old="        close_old_connections()\n",
        new="",
        red=[CONNECTIONS + "test_a_connection_that_was_ended_between_two_passes_of_a_worker_fails_none_of_them"],
        database="postgresql",
    ),
    Mutation(
        name="pages-in-no-frame",
        mechanism="No page is shown in a frame of another site.",
        edits=[
            Edit(SETTINGS, 'X_FRAME_OPTIONS = "DENY"', 'X_FRAME_OPTIONS = "SAMEORIGIN"'),
            Edit(SETTINGS, '        "frame-ancestors": ["\'none\'"],\n', ""),
        ],
        red=[FRAMING + "test_no_page_is_shown_in_a_frame_nor_sends_its_forms_elsewhere"],
    ),
    Mutation(
        name="pages-forms-stay-here",
        mechanism="No page sends a form to another site, nor takes its addresses from another base.",
        edits=[
            Edit(SETTINGS, '        "form-action": ["\'self\'"],\n', ""),
            Edit(SETTINGS, '        "base-uri": ["\'none\'"],\n', ""),
        ],
        red=[FRAMING + "test_no_page_is_shown_in_a_frame_nor_sends_its_forms_elsewhere"],
    ),
    Mutation(
        name="passwords-have-ten-characters",
        mechanism="A password that is shorter than ten characters is refused.",
        file=SETTINGS,
        old='"OPTIONS": {"min_length": 10}',
        new='"OPTIONS": {"min_length": 1}',
        red=[FRAMING + "test_a_password_that_is_short_common_or_the_users_name_is_refused"],
    ),
    Mutation(
        name="clients-known-scopes",
        mechanism="No client gets a scope that there is not, whoever calls the service.",
        file=CLIENTS,
        old="    if unknown := unknown_scopes(scopes):",
        new="    if unknown := []:",
        red=[MADE + "test_a_client_is_not_made_with_what_nobody_has", MADE + "test_nor_does_an_edit_give_it"],
    ),
    Mutation(
        name="clients-at-least-one-scope",
        mechanism="A client without any scope is refused, whoever calls the service.",
        file=CLIENTS,
        old='    if not scopes:\n        raise InvalidInput.of("scopes", "A client',
        new='    if False:\n        raise InvalidInput.of("scopes", "A client',
        red=[MADE + "test_a_client_is_not_made_with_what_nobody_has", MADE + "test_nor_does_an_edit_give_it"],
    ),
]
