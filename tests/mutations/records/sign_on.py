"""Second factors and OpenID Connect."""

from __future__ import annotations

from tests.mutations.record import Mutation

OIDC = "tests/people/test_oidc.py::"
FACTOR = "tests/people/test_second_factor.py::"
CONFIGURATION = "tests/people/test_configuration.py::"
PROVIDER = "croniq_site/people/oidc.py"
ADAPTERS = "croniq_site/people/adapters.py"

RECORDS = [
    Mutation(
        name="id-tokens-have-the-nonce-of-their-sign-in",
        mechanism="An id_token that was made for another sign-in lets nobody in.",
        file=PROVIDER,
        old='        if not hmac.compare_digest(str(claims.get("nonce", "")).encode(), self._expected_nonce.encode()):',
        new="        if False:",
        red=[OIDC + "test_an_id_token_that_cannot_be_believed_lets_nobody_in"],
    ),
    Mutation(
        name="id-tokens-are-signed",
        mechanism="An id_token is believed for its signature, whatever way it came.",
        file=PROVIDER,
        old="            lookup_kid=jwtkit.lookup_kid_jwk,\n",
        new="            lookup_kid=jwtkit.lookup_kid_jwk,\n            verify_signature=False,\n",
        red=[OIDC + "test_an_id_token_that_cannot_be_believed_lets_nobody_in"],
    ),
    Mutation(
        name="id-tokens-are-for-this-site",
        mechanism="An id_token for another audience lets nobody in.",
        file=PROVIDER,
        old="            audience=app.client_id,\n",
        new='            audience=[app.client_id, "somebody-else"],\n',
        red=[OIDC + "test_an_id_token_that_cannot_be_believed_lets_nobody_in"],
    ),
    Mutation(
        name="a-broken-provider-is-a-page",
        mechanism="Whatever a provider says or does not say is a page and no fault.",
        file=PROVIDER,
        old="_UNREADABLE = (requests.RequestException, OAuth2Error, KeyError, TypeError, ValueError, AttributeError)",
        new="_UNREADABLE = (ZeroDivisionError,)",
        red=[
            OIDC + "test_an_id_token_that_cannot_be_believed_lets_nobody_in",
            OIDC + "test_a_provider_that_is_away_is_a_page",
        ],
    ),
    Mutation(
        name="the-way-back-stays-here",
        mechanism="After the sign-in with a provider nobody is led to another site.",
        file=PROVIDER,
        old="next_url=where if is_here else None",
        new="next_url=where",
        red=[OIDC + "test_the_way_back_leads_to_no_other_site"],
    ),
    Mutation(
        name="groups-are-roles",
        mechanism="The roles of whoever comes from the provider are what its groups say, at each sign-in.",
        file=ADAPTERS,
        old="        if sociallogin.is_existing:\n",
        new="        if False:\n",
        red=[OIDC + "test_groups_are_roles_at_each_sign_in"],
    ),
    Mutation(
        name="the-last-admin-comes-in",
        mechanism="The last administrator stays one, whatever the provider says, and comes in.",
        file=ADAPTERS,
        old="    except Conflict as refusal:",
        new="    except ZeroDivisionError as refusal:",
        red=[OIDC + "test_the_last_admin_comes_in_as_one_whatever_the_provider_says"],
    ),
    Mutation(
        name="half-a-provider-is-refused",
        mechanism="A provider without its client's secret stops the start.",
        file="croniq_site/people/configuration.py",
        old="        if not value:",
        new="        if False:",
        red=[CONFIGURATION + "test_half_a_provider_is_refused_by_name"],
    ),
    Mutation(
        name="a-second-factor-comes-before-the-session",
        mechanism="Whoever has a second factor is signed in after its code and not before.",
        file="scheduler/dashboard/people.py",
        old="        if settings.CRONIQ_TOTP:",
        new="        if False:",
        red=[FACTOR + "test_it_is_asked_for_before_anybody_is_signed_in"],
    ),
    Mutation(
        name="a-second-factor-is-off-unless-set",
        mechanism="Without the setting there are no pages of second factors, and none is asked for.",
        file="croniq_site/people/codes.py",
        old="        if not settings.CRONIQ_TOTP:",
        new="        if False:",
        red=[FACTOR + "test_without_the_setting_there_is_none_of_it"],
    ),
    Mutation(
        name="codes-open-once",
        mechanism="A code of a second factor opens once, on whichever server.",
        file="croniq_site/people/codes.py",
        old="        if not spend_code(name, code, now):",
        new="        if False:",
        red=[FACTOR + "test_a_code_opens_once_on_all_servers"],
    ),
    Mutation(
        name="codes-are-counted",
        mechanism="Codes of a second factor are guessed as often as passwords and no more.",
        file="croniq_site/people/codes.py",
        old="        begin_sign_in(address, name, now, Way.CODE)\n",
        new="",
        red=[FACTOR + "test_codes_are_guessed_so_often_and_no_more"],
    ),
    Mutation(
        name="secrets-of-second-factors-are-encrypted",
        mechanism="The secrets of second factors cannot be read in the database.",
        file=ADAPTERS,
        old="        return _fernet().encrypt(text.encode()).decode()",
        new='        return "gAAAA" + text',
        red=[FACTOR + "test_secrets_are_not_in_the_database"],
    ),
]
