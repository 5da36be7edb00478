"""Differences as the audit keeps them: what changed, and no secret of it."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from croniq_site.kernel.errors import Conflict
from runners.domain.differences import difference, masked, sides, unmasked, without_secrets


def seal(secret: str) -> str:
    """Eight digits that differ for the secrets of these tests."""
    return f"***{sum(ord(letter) * 131**place for place, letter in enumerate(secret)) % 16**8:08x}"


SECRET = "hunter2hunter2"


def test_a_difference_is_by_field_and_leaves_out_what_is_the_same():
    assert difference({"a": 1, "b": [1], "c": None}, {"a": 2, "b": [1], "d": {}}) == {"a": [1, 2], "d": [None, {}]}
    assert sides({"a": [1, 2], "job_key": "x:y", "ids": [1, 2, 3]}) == ({"a": 1}, {"a": 2})


@pytest.mark.parametrize(
    "name",
    [
        "PASSWORD", "PGPASSWORD", "db_password", "passwd", "Authorization", "X-Api-Key", "API_TOKEN", "clientSecret",
        "AWS_SECRET_ACCESS_KEY", "STRIPE_KEY", "private_key", "Cookie", "Set-Cookie", "key", "SIGNING-KEY", "DSN",
    ],
)  # fmt: skip
def test_a_value_with_the_name_of_a_secret_is_sealed_wherever_it_stands(name):
    for value in ({name: SECRET}, {"env": {name: SECRET}}, [{"x": [{name: SECRET}]}], {name: [SECRET]}, {name: 123456}):
        text = json.dumps(masked(value, seal))
        assert SECRET not in text
        assert "123456" not in text
        assert "***" in text


@pytest.mark.parametrize("name", ["PATH", "KEYBOARD", "monkey", "author", "PWD", "job_key_count", "primary", "tokyo"])
def test_what_only_looks_like_one_is_told(name):
    assert masked({name: "plain"}, seal) == {name: "plain"}


@pytest.mark.parametrize(
    "text",
    [
        f"curl -H 'Authorization: Bearer {SECRET}' https://x",
        f"mysql --password={SECRET} -e 'select 1'",
        f"tool --api-key {SECRET}",
        f"PGPASSWORD={SECRET} psql",
        f"https://user:{SECRET}@example.org/path",
        f"https://example.org/?access_token={SECRET}&x=1",
        f'{{"client_secret": "{SECRET}"}}',
        f"Bearer {SECRET}",
    ],
)
def test_a_secret_within_a_text_is_sealed(text):
    said = masked({"shell": text}, seal)["shell"]
    assert SECRET not in said
    assert seal(SECRET) in said
    # Around it all is as it was.
    assert said.replace(seal(SECRET), SECRET) == text


def test_the_word_after_an_option_is_sealed():
    argv = ["tool", "--password", SECRET, "--verbose", "run"]
    assert masked(argv, seal) == ["tool", "--password", seal(SECRET), "--verbose", "run"]


def test_references_empty_values_and_flags_are_no_secrets():
    plain = {
        "API_TOKEN": {"secret": "NAME"},
        "Authorization": {"secret": "NAME", "prefix": "Bearer "},
        "PASSWORD": "",
        "token": None,
        "use_token": True,
    }
    assert masked(plain, seal) == plain
    assert masked({"shell": "psql --password=$PGPASSWORD"}, seal) == {"shell": "psql --password=$PGPASSWORD"}


def test_only_fields_that_may_hold_secrets_are_looked_at():
    diff = {"job_key": "a:b", "prefix": "croniq_abc", "action": [{"env": {"TOKEN": SECRET}}, None]}
    kept = without_secrets(diff, seal)
    assert kept == {**diff, "action": [{"env": {"TOKEN": seal(SECRET)}}, None]}


def test_a_secret_that_changed_shows_and_one_that_did_not_does_not():
    before, after = (masked({"TOKEN": secret}, seal) for secret in (SECRET, SECRET + "x"))
    assert before != after
    assert masked({"TOKEN": SECRET}, seal) == before


def test_what_was_sealed_comes_back_where_it_is_the_same_still():
    old = {"argv": ["a", "--token", SECRET], "env": {"TOKEN": SECRET, "X": "1"}}
    kept = masked(old, seal)
    current = {"argv": ["b", "--token", SECRET], "env": {"TOKEN": SECRET, "X": "2", "Y": "3"}}
    assert unmasked(kept, current, seal, "action") == old
    assert unmasked(kept, old, seal, "action") is old


@pytest.mark.parametrize("current", [{"env": {"TOKEN": "another"}}, {"env": {}}, {}, None, {"env": "x"}])
def test_what_was_sealed_and_is_another_by_now_is_not_had_any_more(current):
    kept = masked({"env": {"TOKEN": SECRET}}, seal)
    with pytest.raises(Conflict) as refused:
        unmasked(kept, current, seal, "action")
    assert refused.value.code == "secret_not_kept"
    assert "action.env.TOKEN" in refused.value.message


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["a", "TOKEN", "env"]), inner, max_size=3)
    ),
    max_leaves=8,
)


@given(JSON)
def test_whatever_was_kept_is_what_there_is(value):
    """A value goes into the audit and comes back whole as long as nobody changes it."""
    assert unmasked(masked(value, seal), value, seal, "x") == value


@pytest.mark.parametrize(
    "text", ["a-" * 32_768, "a" * 65_536, "token" * 13_000, "key " * 16_000, "://" * 20_000, "--p" * 20_000]
)
def test_no_text_takes_long(text):
    """Each of them would take minutes where the work grew with the square of its length."""
    assert isinstance(masked(text, seal), str)
