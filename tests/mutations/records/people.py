"""People and keys: what the environment declares, roles, sessions, sign-in, and that a key ends at once."""

from __future__ import annotations

from tests.mutations.record import Edit, Mutation

DECLARED = "tests/people/test_declared.py::"
START = "tests/people/test_start.py::"
ROLES = "tests/people/test_roles.py::"
MATRIX = "tests/people/test_matrix.py::"
SESSIONS = "tests/people/test_sessions.py::"
SIGN_IN = "tests/people/test_sign_in.py::"
LAST = "tests/people/test_last_admin.py::"
ENDED = "tests/scheduler/edge/test_ended_keys.py::"
SERVICE = "runners/services/declared.py"
AUTH = "scheduler/api/work/auth.py"

RECORDS = [
    Mutation(
        name="declared-clients-are-applied-one-after-the-other",
        mechanism="Of servers that start at once one makes the declared clients, and the others find them.",
        file=SERVICE,
        old="with write_transaction(), one_at_a_time(LOCK):",
        new="with write_transaction():",
        database="postgresql",
        red=[DECLARED + "test_servers_that_start_at_once_make_one_client"],
    ),
    Mutation(
        name="another-declared-key-ends-the-old-one",
        mechanism="A key that is not declared any more opens nothing from then on.",
        file=SERVICE,
        old='    for row in old.select_for_update(no_key=True).order_by("pk"):',
        new="    for row in ():",
        red=[DECLARED + "test_another_value_ends_the_old_one_and_two_values_are_two_live_keys"],
    ),
    Mutation(
        name="a-declared-client-that-is-gone-is-switched-off",
        mechanism="A client whose variables are gone may do nothing any more.",
        file=SERVICE,
        old="            events += _switch_off({client.name for client in declared})\n",
        new="",
        red=[DECLARED + "test_a_variable_that_is_gone_switches_its_client_off_and_comes_back"],
    ),
    Mutation(
        name="declared-clients-take-over-none-made-by-hand",
        mechanism="A client that somebody made by hand is not taken over by a variable with its name.",
        file=SERVICE,
        old="    if client.managed_by != ENVIRONMENT:",
        new="    if False:",
        red=[DECLARED + "test_what_contradicts_stops_the_start_and_changes_nothing"],
    ),
    Mutation(
        name="declared-clients-stay-their-tenants",
        mechanism="A declared client is not moved to another tenant.",
        file=SERVICE,
        old="    if client.tenant != declared.tenant:",
        new="    if False:",
        red=[DECLARED + "test_what_contradicts_stops_the_start_and_changes_nothing"],
    ),
    Mutation(
        name="declared-keys-have-one-owner",
        mechanism="A key that another client has is not declared a second time.",
        file=SERVICE,
        old="        elif row.client_id != client.pk:",
        new="        elif False:",
        red=[DECLARED + "test_what_contradicts_stops_the_start_and_changes_nothing"],
    ),
    Mutation(
        name="declared-keys-are-long",
        mechanism="A key that somebody chose is as long as one that nobody guesses.",
        file="runners/domain/keys.py",
        old="    if not LEAST_CHOSEN <= len(raw_key) <= 255:",
        new="    if not 0 <= len(raw_key) <= 255:",
        red=[DECLARED + "test_nonsense_is_refused_by_the_name_of_its_variable_and_without_the_key"],
    ),
    Mutation(
        name="declared-scopes-are-known",
        mechanism="An unknown scope in a variable stops the start.",
        file="croniq_site/api_clients.py",
        old="    for scope in unknown_scopes(scopes):",
        new="    for scope in ():",
        red=[DECLARED + "test_nonsense_is_refused_by_the_name_of_its_variable_and_without_the_key"],
    ),
    Mutation(
        name="declared-clients-are-changed-by-nobody-else",
        mechanism="What the environment declares is not changed over the API, in the admin or by a command: 409.",
        file="runners/services/clients.py",
        old="    if client.managed_by:",
        new="    if False:",
        red=[
            DECLARED + "test_the_api_does_not_write_it",
            DECLARED + "test_the_admin_does_not_write_it",
            DECLARED + "test_nor_does_the_command_that_makes_keys",
        ],
    ),
    Mutation(
        name="declared-keys-are-revoked-by-nobody-else",
        mechanism="A declared key is ended by its variable alone.",
        file="runners/services/clients.py",
        old="        for key in keys:\n            refuse_managed(key.client)\n",
        new="",
        red=[DECLARED + "test_the_api_does_not_write_it", DECLARED + "test_the_admin_does_not_write_it"],
    ),
    Mutation(
        name="the-admin-answers-409-for-declared-clients",
        mechanism="Whoever sends the form of a declared client is told why it is not saved.",
        file="runners/admin.py",
        old='            if refused.code == "managed_by_environment":',
        new="            if False:",
        red=[DECLARED + "test_the_admin_does_not_write_it"],
    ),
    Mutation(
        name="serve-applies-what-is-declared",
        mechanism="A server applies the declared clients before it listens, and does not start against them.",
        file="scheduler/management/commands/serve.py",
        old="                apply_declared(settings.CRONIQ_API_CLIENTS, DatabaseClock().now())\n",
        new="                pass\n",
        red=[
            START + "test_serve_applies_it_before_it_listens",
            START + "test_serve_does_not_start_against_it",
        ],
    ),
    Mutation(
        name="quickstart-applies-what-is-declared",
        mechanism="The quickstart says what contradicts before it starts anything.",
        file="scheduler/management/commands/quickstart.py",
        old="            for change in apply_declared(settings.CRONIQ_API_CLIENTS, now):",
        new="            for change in ():",
        red=[START + "test_quickstart_says_so_before_it_starts_anything"],
    ),
    Mutation(
        name="roles-are-made-by-migrate",
        mechanism="Every migrate makes the groups of the roles, with their permissions.",
        file="scheduler/apps.py",
        old="        post_migrate.connect(_keep_roles)\n",
        new="        pass\n",
        red=[ROLES + "test_every_role_may_what_the_one_before_it_may"],
    ),
    Mutation(
        name="roles-have-no-more-than-their-permissions",
        mechanism="A permission that somebody gave to a role by hand is taken away.",
        file="runners/services/roles.py",
        old="        for group_id, permission_id in there - wanted:",
        new="        for group_id, permission_id in ():",
        red=[ROLES + "test_what_was_changed_by_hand_is_set_right"],
    ),
    Mutation(
        name="pages-ask-for-a-role",
        mechanism="Whoever is signed in and has no role sees no page.",
        file="scheduler/dashboard/pages.py",
        old="        def look() -> HttpResponse:\n            _let(request, needs)\n",
        new="        def look() -> HttpResponse:\n",
        red=[
            MATRIX + "test_everybody_may_what_the_table_says_and_nothing_else",
            MATRIX + "test_nobodys_page_says_what_he_lacks",
        ],
    ),
    Mutation(
        name="a-page-without-its-line-in-the-table",
        mechanism="A page of which nobody said who may open it fails a test.",
        file="scheduler/dashboard/urls.py",
        old='    path("now", now.now_page, name="now"),\n',
        new='    path("now", now.now_page, name="now"),\n    path("then", now.now_page, name="then"),\n',
        red=[MATRIX + "test_every_path_is_in_the_table"],
    ),
    Mutation(
        name="sessions-change-nothing-without-their-token",
        mechanism="A session that changes something over the API shows the CSRF token of its pages.",
        file="runners/api/sessions.py",
        old="            super().enforce_csrf(request)\n",
        new="            pass\n",
        red=[SESSIONS + "test_without_its_token_a_session_changes_nothing"],
    ),
    Mutation(
        name="keys-come-before-sessions",
        mechanism="A request with a key is the key's, whoever is signed in.",
        edits=[
            Edit(
                "croniq_site/settings.py",
                '        "runners.api.authentication.ApiKeyAuthentication",\n'
                '        "runners.api.sessions.PersonAuthentication",\n',
                '        "runners.api.sessions.PersonAuthentication",\n'
                '        "runners.api.authentication.ApiKeyAuthentication",\n',
            )
        ],
        red=[SESSIONS + "test_a_key_comes_first"],
    ),
    Mutation(
        name="no-person-is-a-runner",
        mechanism="What an administrator may does not open the work protocol to a session.",
        file="runners/domain/scopes.py",
        old='        return not scope.startswith("work:") and super().has(scope)',
        new="        return super().has(scope)",
        red=[ROLES + "test_no_person_is_a_runner"],
    ),
    Mutation(
        name="operators-say-not-what-is-executed",
        mechanism="What a job executes is said by administrators alone.",
        file="runners/domain/roles.py",
        old='    "jobs:exec": "scheduler.exec_job",',
        new='    "jobs:exec": "scheduler.change_job",',
        red=[SESSIONS + "test_an_operator_says_not_what_is_executed"],
    ),
    Mutation(
        name="attempts-to-sign-in-are-counted",
        mechanism="An attempt to sign in is counted before the password is looked at.",
        file="croniq_site/sign_in.py",
        old="        begin_sign_in(address, username, DatabaseClock().now())\n",
        new="",
        red=[
            SIGN_IN + "test_a_name_is_tried_so_often_and_no_more_whether_anybody_has_it_or_not",
            SIGN_IN + "test_an_address_is_tried_so_often_and_no_more",
        ],
    ),
    Mutation(
        name="attempts-are-bounded-in-their-row",
        mechanism="An attempt is counted only while there were fewer than there may be, by one guarded statement.",
        file="runners/services/sign_in.py",
        old="    if counts.filter(attempts__lt=most).update(",
        new="    if counts.update(",
        red=[SIGN_IN + "test_guesses_at_one_moment_are_all_counted"],
    ),
    Mutation(
        name="counts-of-attempts-end",
        mechanism="After its window a count begins anew.",
        file="runners/services/sign_in.py",
        old="        counts.filter(began_at__lte=now - WINDOW).update(",
        new="        counts.filter(began_at__lte=now - 9 * WINDOW).update(",
        red=[
            SIGN_IN + "test_a_name_is_tried_so_often_and_no_more_whether_anybody_has_it_or_not",
            SIGN_IN + "test_a_refusal_prolongs_nothing_and_is_audited_once",
        ],
    ),
    Mutation(
        name="who-signs-in-begins-anew",
        mechanism="After the right password a name's errors are forgotten.",
        file="croniq_site/sign_in.py",
        old="            end_sign_in(address, username)\n",
        new="            pass\n",
        red=[SIGN_IN + "test_who_signs_in_often_is_let_in"],
    ),
    Mutation(
        name="an-ipv6-network-is-one-address",
        mechanism="The addresses of one IPv6 network are counted as one.",
        file="runners/services/sign_in.py",
        old="int(address) >> 64 << 64",
        new="int(address)",
        red=[SIGN_IN + "test_what_is_one_address"],
    ),
    Mutation(
        name="refused-attempts-are-audited-once",
        mechanism="Of the refusals of a window the first is audited.",
        file="runners/services/sign_in.py",
        old="    if counts.filter(refused_at__isnull=True).update(",
        new="    if counts.update(",
        red=[SIGN_IN + "test_a_refusal_prolongs_nothing_and_is_audited_once"],
    ),
    Mutation(
        name="a-name-that-nobody-has-costs-the-same",
        mechanism="A password is hashed for a name that nobody has as for any other.",
        file="croniq_site/sign_in.py",
        old="        user = super().authenticate(request, username=username, password=password, **more)\n",
        new=(
            "        from django.contrib.auth.models import User\n\n"
            "        if not User.objects.filter(username=username).exists():\n"
            "            return None\n"
            "        user = super().authenticate(request, username=username, password=password, **more)\n"
        ),
        red=[SIGN_IN + "test_a_name_that_nobody_has_costs_the_same_work"],
    ),
    Mutation(
        name="one-way-in",
        mechanism="The admin has no sign-in page of its own, on which attempts are not counted.",
        file="croniq_site/urls.py",
        old='    path("admin/login/", sign_in),\n',
        new="",
        red=[SIGN_IN + "test_the_admin_has_no_way_in_of_its_own"],
    ),
    Mutation(
        name="somebody-may-administer",
        mechanism="The last active administrator is not switched off, demoted or deleted.",
        file="runners/services/people.py",
        old="        if had_one and not has_admin():",
        new="        if False:",
        red=[
            LAST + "test_the_last_admin_stays",
            LAST + "test_the_admin_keeps_the_last_one",
            LAST + "test_the_admin_deletes_the_last_one_in_no_way",
        ],
    ),
    Mutation(
        name="people-are-changed-one-after-the-other",
        mechanism="Of two administrators who switch each other off at once the second sees what the first did.",
        file="runners/services/people.py",
        old="    with write_transaction(), one_at_a_time(LOCK):",
        new="    with write_transaction():",
        database="postgresql",
        red=[LAST + "test_the_second_of_two_admins_waits_for_what_the_first_does"],
    ),
    Mutation(
        name="the-admin-keeps-an-administrator",
        mechanism="Django's admin saves and deletes people within the same guard.",
        file="croniq_site/admin.py",
        old='            with keeping_an_admin() if request.method == "POST" else nullcontext():',
        new="            with nullcontext():",
        red=[
            LAST + "test_the_admin_keeps_the_last_one",
            LAST + "test_the_admin_deletes_the_last_one_in_no_way",
        ],
    ),
    Mutation(
        name="the-groups-of-the-roles-are-fixed",
        mechanism="The groups of the roles are not renamed or deleted in the admin.",
        file="croniq_site/admin.py",
        old="    return isinstance(group, Group) and group.name in ROLES",
        new="    return False",
        red=[LAST + "test_the_groups_of_the_roles_are_fixed"],
    ),
    Mutation(
        name="ended-keys-are-told",
        mechanism="That keys were revoked is told to every server when it commits.",
        file="runners/services/clients.py",
        old="for key in keys), now)\n        access_changed()\n",
        new="for key in keys), now)\n",
        database="postgresql",
        red=[
            ENDED + "test_a_poll_that_waits_ends_with_its_key",
            ENDED + "test_what_was_remembered_of_a_key_is_forgotten",
        ],
    ),
    Mutation(
        name="ended-keys-are-heard-of",
        mechanism="A server on PostgreSQL hears that keys were ended.",
        file="scheduler/api/work/listening.py",
        old="            listen(connection, ACCESS)\n",
        new="",
        database="postgresql",
        red=[ENDED + "test_a_poll_that_waits_ends_with_its_key"],
    ),
    Mutation(
        name="keys-are-looked-at-again",
        mechanism="Whoever hears that anything may have changed looks at the keys that it remembers.",
        file="scheduler/api/work/edge.py",
        old="        if signal.holders is None:",
        new="        if False:",
        red=[
            ENDED + "test_a_poll_that_waits_ends_with_its_key",
            ENDED + "test_what_was_remembered_of_a_key_is_forgotten",
        ],
    ),
    Mutation(
        name="polls-end-with-their-key",
        mechanism="A poll that waits ends when its key opens nothing any more.",
        file=AUTH,
        old="        self.polls.turn_away()\n",
        new="",
        red=[ENDED + "test_a_poll_that_waits_ends_with_its_key"],
    ),
    Mutation(
        name="no-poll-waits-with-an-ended-key",
        mechanism="A poll whose key ended while it was let in does not wait.",
        file="scheduler/api/work/desk.py",
        old="        self._refuse(held)  # its key may have ended since it was looked at\n",
        new="",
        red=[ENDED + "test_a_key_that_ends_while_its_poll_is_let_in_does_not_wait"],
    ),
    Mutation(
        name="ended-keys-are-forgotten",
        mechanism="What was remembered of a key is forgotten when it ends.",
        file=AUTH,
        old="                del self._known[raw_key]\n",
        new="                pass\n",
        red=[ENDED + "test_what_was_remembered_of_a_key_is_forgotten"],
    ),
    Mutation(
        name="an-old-look-at-a-key-is-looked-at-again",
        mechanism="What was read of a key before a change was heard of is looked at again.",
        file=AUTH,
        old="            if asked.changes != self._changes:",
        new="            if False:",
        database="postgresql",
        red=[ENDED + "test_a_look_that_is_older_than_the_end_does_not_count"],
    ),
    Mutation(
        name="keys-are-remembered-as-long-as-they-live",
        mechanism="A key is not remembered beyond the instant at which it expires.",
        file=AUTH,
        old="min(self._fresh_seconds, most_seconds)",
        new="self._fresh_seconds",
        red=[ENDED + "test_a_key_is_not_remembered_longer_than_it_lives"],
    ),
    Mutation(
        name="a-key-that-opens-again-is-let-in",
        mechanism="Whoever was turned away is let in when a look finds that his key opens again.",
        file=AUTH,
        old="            self._turned_away.pop(principal.key_id, None)\n            if asked",
        new="            if asked",
        database="postgresql",
        red=[ENDED + "test_a_client_that_is_switched_on_again_is_let_in"],
    ),
    Mutation(
        name="second-factors-are-only-taken-away",
        mechanism="In the admin a second factor can be taken away, and nothing of it made or changed.",
        file="croniq_site/admin.py",
        old="""    def has_change_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return False
""",
        new="",
        red=["tests/scheduler/test_doors_are_audited.py::test_each_door_of_the_admin_is_in_the_table"],
    ),
]
