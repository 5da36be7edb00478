"""API clients and keys over the API."""

from __future__ import annotations

from tests.mutations.record import Mutation

TESTS = "tests/scheduler/api/test_api_clients.py"

RECORDS = [
    Mutation(
        name="clients-give-only-what-they-have",
        mechanism="Who administers clients gives nobody scopes that it lacks, nor a key of a client that has them.",
        file="runners/domain/scopes.py",
        old="return all(self.has(scope) for scope in scopes)",
        new="return True",
        red=[f"{TESTS}::test_nobody_gives_what_it_has_not"],
    ),
    Mutation(
        name="clients-are-their-tenants",
        mechanism="A client with a tenant sees and makes clients of that tenant alone.",
        file="runners/queries/clients.py",
        old="return ApiClient.objects.all() if tenant is None else ApiClient.objects.filter(tenant=tenant)",
        new="return ApiClient.objects.all()",
        red=[f"{TESTS}::test_a_tenant_keeps_to_its_own"],
    ),
    Mutation(
        name="keys-are-their-tenants",
        mechanism="Keys of another tenant's client are none.",
        file="runners/queries/clients.py",
        old="return keys if tenant is None else keys.filter(client__tenant=tenant)",
        new="return keys",
        red=[f"{TESTS}::test_a_tenant_keeps_to_its_own"],
    ),
    Mutation(
        name="rotated-keys-end",
        mechanism="A rotated key goes on for its grace and no longer.",
        file="runners/services/clients.py",
        old="revoked_at__isnull=True).update(expires_at=ends_at)",
        new="revoked_at__isnull=False).update(expires_at=ends_at)",
        red=[f"{TESTS}::test_a_rotated_key_goes_on_for_its_grace"],
    ),
    Mutation(
        name="a-grace-lengthens-no-life",
        mechanism="A grace never lets a key live longer than it was made for.",
        file="runners/services/clients.py",
        old="if old.expires_at is None or ends_at < old.expires_at:",
        new="if True:",
        red=[f"{TESTS}::test_a_grace_never_lets_a_key_live_longer"],
    ),
    Mutation(
        name="the-use-of-keys-is-noted-once-a-minute",
        mechanism="That a key is used is written once a minute, not with every request.",
        file="runners/services/keys.py",
        old="NOTE_USE_EVERY = timedelta(minutes=1)",
        new="NOTE_USE_EVERY = timedelta(0)",
        red=[f"{TESTS}::test_the_use_of_a_key_is_noted_once_a_minute"],
    ),
    Mutation(
        name="keys-open-a-database-that-cannot-be-written",
        mechanism="A database that cannot be written lets its keys in all the same.",
        file="runners/services/keys.py",
        old="except DatabaseError:",
        new="except ZeroDivisionError:",
        red=[f"{TESTS}::test_a_database_that_cannot_be_written_still_lets_its_keys_in"],
    ),
    Mutation(
        name="issued-keys-are-audited",
        mechanism="That a key was made is in the audit, with who made it.",
        file="runners/services/clients.py",
        old="record_events([_event(action, client, actor, diff)], now)",
        new="pass",
        red=[f"{TESTS}::test_a_client_and_its_key_are_made_used_and_revoked"],
    ),
    Mutation(
        name="the-use-of-runners-keys-is-noted",
        mechanism="The work protocol notes that a key is used, and does not wait for it.",
        file="scheduler/api/work/auth.py",
        old="        if use is not None:\n",
        new="        if False:\n",
        red=["tests/scheduler/edge/test_http.py::test_the_use_of_a_key_is_noted_and_not_waited_for"],
    ),
    Mutation(
        name="an-edit-of-a-client-changes-what-it-names",
        mechanism="What an edit does not name stays as it is under the lock: a rename switches nothing on again.",
        file="runners/services/clients.py",
        old="client = ApiClient.objects.select_for_update(no_key=True).filter(pk=client_id).first()",
        new="client = ApiClient.objects.filter(pk=client_id).first()",
        red=[f"{TESTS}::test_a_client_that_is_renamed_while_it_is_switched_off_stays_off"],
        database="postgresql",
    ),
    Mutation(
        name="a-key-rotated-again-lives-as-long",
        mechanism="What a rotation left of the old key's life is not the new one's.",
        file="runners/services/clients.py",
        old="expires_at = None if old.lives_for is None else now + old.lives_for",
        new="expires_at = None if old.expires_at is None else now + (old.expires_at - old.created_at)",
        red=[f"{TESTS}::test_a_key_for_good_that_is_rotated_again_after_a_lost_answer_is_replaced_by_one_for_good"],
    ),
    Mutation(
        name="a-scrape-forgets-only-what-it-knew",
        mechanism="What was counted of a job that was made while a scrape read the jobs is told by the next one.",
        file="scheduler/metrics/exposition.py",
        old="hot.forget(counted - keys.keys())",
        new="hot.forget(hot.job_ids() - keys.keys())",
        red=[
            "tests/scheduler/metrics/test_scrape_forgets.py::"
            "test_what_a_job_did_that_was_made_during_a_scrape_is_told_by_the_next_one"
        ],
    ),
]
