"""Guards whose removal no test saw: people, keys, tenants, bulk, secrets, upkeep."""

from __future__ import annotations

from tests.mutations.record import Mutation

DECLARED = "tests/people/test_declared.py::"
SECOND_FACTOR = "tests/people/test_second_factor.py::"
SIGN_IN = "tests/people/test_sign_in.py::"
OIDC = "tests/people/test_oidc.py::test_an_id_token_that_cannot_be_believed_lets_nobody_in"
ENDED = "tests/scheduler/edge/test_ended_keys.py::"
CLIENTS = "tests/scheduler/api/test_api_clients.py::"

RECORDS = [
    Mutation(
        name="declared-clients-are-audited",
        mechanism="What the environment makes, changes and ends of clients and keys is in the audit.",
        file="runners/services/declared.py",
        old="                record_events(events, now)\n",
        new="                pass\n",
        red=[DECLARED + "test_what_is_declared_is_in_the_audit_by_whoever_declared_it"],
    ),
    Mutation(
        name="declared-clients-end-at-once-everywhere",
        mechanism="A client that is declared no more is told to every server: its polls end.",
        file="runners/services/declared.py",
        old="                access_changed()\n",
        new="                pass\n",
        database="postgresql",
        red=[ENDED + "test_a_poll_that_waits_ends_with_its_key"],
    ),
    Mutation(
        name="a-declared-name-that-is-taken-at-this-moment",
        mechanism="A client that somebody makes by hand while it is being declared is a conflict, and no traceback.",
        file="runners/services/declared.py",
        old="    except IntegrityError:\n",
        new="    except ZeroDivisionError:\n",
        database="postgresql",
        red=[DECLARED + "test_a_client_that_is_made_by_hand_at_this_moment_is_a_conflict"],
    ),
    Mutation(
        name="who-has-less-does-not-change-who-has-more",
        mechanism="A client that has less than another neither edits it nor makes or rotates its keys.",
        file="runners/services/clients.py",
        old="    refuse_more_than(by, client.scopes)\n    return client\n",
        new="    return client\n",
        red=[CLIENTS + "test_nobody_gives_what_it_has_not"],
    ),
    Mutation(
        name="a-client-is-not-moved-to-another-tenant",
        mechanism="An edit that names another tenant than the client's is refused.",
        file="scheduler/api/views/api_clients.py",
        old='        if self.body.get("tenant", client.tenant) != client.tenant:\n',
        new="        if False:\n",
        red=[CLIENTS + "test_a_tenant_keeps_to_its_own"],
    ),
    Mutation(
        name="a-code-is-one-code-however-it-is-written",
        mechanism="A one-time code that was used with or without its dash opens nothing a second time.",
        file="runners/services/sign_in.py",
        old='    plain = "".join(filter(str.isalnum, code)).lower()\n',
        new="    plain = code.strip()\n",
        red=[SECOND_FACTOR + "test_a_code_opens_once_however_it_is_written"],
    ),
    Mutation(
        name="codes-are-spent-for-one-person",
        mechanism="A one-time code that somebody used is another person's still.",
        file="runners/services/sign_in.py",
        old='f"{name}\\n{plain}"',
        new='f"{plain}"',
        red=[SECOND_FACTOR + "test_two_people_may_have_the_same_code"],
    ),
    Mutation(
        name="no-count-falls-below-zero",
        mechanism="Who gets in after the count of his address was begun anew is no error of the database's.",
        file="runners/services/sign_in.py",
        old="attempts__gt=0).update",
        new=").update",
        red=[SIGN_IN + "test_who_gets_in_after_his_count_was_begun_anew_is_no_error"],
    ),
    Mutation(
        name="a-provider-has-its-configured-name",
        mechanism="An OpenID provider whose discovery says another issuer than the configured one lets nobody in.",
        file="croniq_site/people/oidc.py",
        old='        if issuer.rstrip("/") != settings.CRONIQ_OIDC.issuer:\n',
        new="        if False:\n",
        red=[OIDC],
    ),
    Mutation(
        name="an-id-token-ends",
        mechanism="An id_token that never expires lets nobody in.",
        file="croniq_site/people/oidc.py",
        old='        if "exp" not in claims:\n',
        new="        if False:\n",
        red=[OIDC],
    ),
    Mutation(
        name="no-password-is-in-the-audit",
        mechanism="Neither the hash of a password nor a second factor's secret is told in the audit.",
        file="croniq_site/admin_audit.py",
        old='_NOT_TOLD = {"id", "password", "data", ',
        new='_NOT_TOLD = {"id", ',
        red=["tests/people/test_told.py::test_what_the_admin_saves_of_people_is_told_without_their_secrets"],
    ),
    Mutation(
        name="who-is-no-admin-is-no-staff",
        mechanism="Who is no administrator any more has no access to Django's admin.",
        file="runners/services/people.py",
        old="    elif not user.is_superuser:\n        user.is_staff = False\n",
        new="",
        red=["tests/people/test_last_admin.py::test_who_is_no_admin_any_more_has_no_admin_site"],
    ),
    Mutation(
        name="roles-hold-no-permissions-about-permissions",
        mechanism="Of Django's own permissions the role admin has those of users and groups alone.",
        file="runners/domain/roles.py",
        old='(app == "auth" and what in PEOPLE)',
        new='(app == "auth")',
        red=["tests/people/test_roles.py::test_every_role_may_what_the_one_before_it_may"],
    ),
    Mutation(
        name="people-are-numbered-apart-from-clients",
        mechanism="A person uses up no API client's rate.",
        file="runners/api/sessions.py",
        old="Person(-user.pk,",
        new="Person(user.pk,",
        red=["tests/people/test_sessions.py::test_a_person_uses_up_no_api_clients_rate"],
    ),
    Mutation(
        name="a-right-code-forgives",
        mechanism="After a right one-time code the wrong ones before it count no more.",
        file="croniq_site/people/codes.py",
        old="        end_sign_in(address, name, Way.CODE)\n",
        new="",
        red=[SECOND_FACTOR + "test_a_right_code_forgives_the_wrong_ones"],
    ),
    Mutation(
        name="polls-are-of-their-tenant",
        mechanism="A poll that waits is given the work of its key's tenant alone.",
        file="scheduler/api/work/desk.py",
        old="request.runner_id, held.principal.tenant)",
        new="request.runner_id, None)",
        red=["tests/scheduler/edge/test_tenants.py::test_a_runner_of_a_tenant_is_given_its_tenants_work_alone"],
    ),
    Mutation(
        name="letters-done-with-are-not-counted",
        mechanism="Letters that were replayed, or whose job is deleted, are none that a bulk replay counts.",
        file="scheduler/queries/bulk.py",
        old="    letters = _letters(tenant, job_key).filter(~Exists(again), job__deleted_at__isnull=True)\n",
        new="    letters = _letters(tenant, job_key)\n",
        red=[
            "tests/scheduler/api/test_bulk_runs.py::test_letters_that_were_replayed_or_whose_job_is_deleted_are_not_counted"
        ],
    ),
    Mutation(
        name="no-replay-of-a-deleted-job",
        mechanism="A run whose job was deleted after the look is refused, and no traceback.",
        file="scheduler/services/replays.py",
        old="        if job is None:\n            raise job_is_deleted()\n",
        new="",
        red=[
            "tests/scheduler/api/test_bulk_runs.py::test_what_has_not_ended_was_skipped_or_is_of_a_deleted_job_is_not_done_again"
        ],
    ),
    Mutation(
        name="remembered-keys-are-bounded",
        mechanism="As many keys are remembered as there may be; the oldest goes.",
        file="scheduler/api/work/auth.py",
        old="            if len(self._known) >= MOST_KEYS:",
        new="            if False:",
        red=[ENDED + "test_what_is_remembered_of_keys_is_bounded"],
    ),
    Mutation(
        name="refused-keys-are-bounded",
        mechanism="Of the keys that were turned away no more are remembered than there may be.",
        file="scheduler/api/work/auth.py",
        old="        if len(self._turned_away) > MOST_KEYS:",
        new="        if False:",
        red=[ENDED + "test_what_is_remembered_of_keys_is_bounded"],
    ),
    Mutation(
        name="keys-that-cannot-be-looked-at-are-forgotten",
        mechanism="When keys cannot be looked at again nothing that was remembered of them counts.",
        file="scheduler/api/work/auth.py",
        old="        except Unavailable:\n            self._known.clear()",
        new="        except Unavailable:\n            pass",
        red=[ENDED + "test_keys_that_cannot_be_looked_at_again_are_looked_up"],
    ),
    Mutation(
        name="what-is-said-during-a-look-is-looked-at",
        mechanism="What is said while keys are looked at again is followed by another look.",
        file="scheduler/api/work/auth.py",
        old="            while self._must_look:  #",
        new="            if self._must_look:  #",
        database="postgresql",
        red=[ENDED + "test_what_is_said_while_keys_are_looked_at_is_looked_at_too"],
    ),
    Mutation(
        name="one-letter-is-thrown-away-once",
        mechanism="Of two who throw away one letter the second is told that it is gone.",
        file="scheduler/services/letters.py",
        old="DeadLetter.objects.filter(pk=letter_id).delete()[0] == 0",
        new="DeadLetter.objects.filter(pk=letter_id).delete() is None",
        database="postgresql",
        red=["tests/scheduler/planning/test_letters_race.py::test_two_who_throw_away_one_letter_tell_it_once"],
    ),
    Mutation(
        name="notes-are-written-one-after-the-other",
        mechanism="Of two notes at once the second tells that it replaced the first.",
        file="scheduler/services/letters.py",
        old='        letter = _visible(principal).select_for_update(of=("self",)).select_related',
        new="        letter = _visible(principal).select_related",
        database="postgresql",
        red=[
            "tests/scheduler/planning/test_letters_race.py::test_the_second_of_two_notes_is_told_as_what_replaced_the_first"
        ],
    ),
    Mutation(
        name="a-secret-in-a-path-is-hidden",
        mechanism="A secret is hidden also as a URL's path has it, its slashes as they are.",
        file="runners/agent/secrets.py",
        old=', quote(text, safe=""), quote(text)',
        new=', quote(text, safe="")',
        red=["tests/runners/agent/test_secrets.py::test_the_forms_in_which_answers_repeat_a_secret_are_hidden_too"],
    ),
    Mutation(
        name="another-port-is-another-host",
        mechanism="A redirect to another port takes no header of the action's along.",
        file="runners/agent/http_job.py",
        old="source.hostname != target.hostname or (",
        new="source.hostname != target.hostname or False and (",
        red=[
            "tests/runners/agent/test_http_job.py::test_a_redirect_to_another_host_needs_a_word_and_takes_no_header_of_the_actions_along"
        ],
    ),
    Mutation(
        name="the-path-of-a-secret-url-is-hidden",
        mechanism="An answer that repeats a secret URL without its host does not tell it.",
        file="runners/agent/http_action.py",
        old="        secrets.hide(path_of(parts))",
        new="        (parts)",
        red=[
            "tests/runners/agent/test_http_job.py::test_an_answer_that_repeats_the_path_of_a_secret_url_does_not_tell_it"
        ],
    ),
    Mutation(
        name="no-short-part-is-hidden",
        mechanism="A part of a secret URL that is too short to be a secret is shown.",
        file="runners/agent/secrets.py",
        old="if len(text) >= _LEAST_PART:",
        new="if True:",
        red=[
            "tests/runners/agent/test_http_job.py::test_an_answer_that_repeats_the_path_of_a_secret_url_does_not_tell_it"
        ],
    ),
    Mutation(
        name="no-body-no-type",
        mechanism="A redirect that drops the body drops its content type.",
        file="runners/agent/http_job.py",
        old='            headers = tuple((name, value) for name, value in headers if name.lower() != "content-type")\n',
        new="",
        red=["tests/runners/agent/test_http_job.py::test_a_redirect_without_the_body_is_without_its_type"],
    ),
    Mutation(
        name="long-headers-are-not-remembered",
        mechanism="A header that is longer than a key is not remembered as a good one.",
        file="runners/api/limits.py",
        old="        if len(header) > LONGEST_HEADER:\n            return\n",
        new="",
        red=["tests/site/test_limits.py::test_what_is_remembered_is_bounded"],
    ),
    Mutation(
        name="only-a-success-says-that-a-key-is-good",
        mechanism="A wrong key is not taken for a good one because it asked for what there is not.",
        file="croniq_site/asgi.py",
        old='elif is_judged and message["status"] < 400:',
        new="elif is_judged:",
        red=[
            "tests/site/test_limits.py::test_wrong_keys_close_the_door_to_their_address_but_not_to_keys_that_are_known"
        ],
    ),
    Mutation(
        name="references-in-lists-are-looked-at",
        mechanism="A reference to a secret that is none is refused also within a list.",
        file="scheduler/domain/secret_refs.py",
        old="    elif isinstance(value, list):\n        for child in value:\n            check",
        new="    elif isinstance(value, list):\n        for child in ():\n            check",
        red=["tests/scheduler/domain/test_actions.py::test_what_cannot_be_sent_is_refused_by_the_name_of_its_field"],
    ),
    Mutation(
        name="another-tenants-file-is-not-named",
        mechanism="Who may not change what a jobs file declares is not told another tenant's file.",
        file="runners/services/file_managed.py",
        old="filter(action=APPLIED, tenant=tenant)",
        new="filter(action=APPLIED)",
        red=["tests/scheduler/jobs_file/test_managed.py::test_the_file_of_another_tenant_is_not_named"],
    ),
]
