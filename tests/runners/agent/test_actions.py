"""Reading an action: strict, because it decides what is executed."""

from __future__ import annotations

import pytest

from runners.agent.actions import ACTION_KEY, ActionRefused, CommandAction, action_of, public_metadata


def refusal(action: object) -> str:
    with pytest.raises(ActionRefused) as caught:
        action_of({ACTION_KEY: action})
    return str(caught.value)


def test_argv_is_taken_as_it_is() -> None:
    action = {
        "type": "command",
        "argv": ["/bin/echo", "a b", "$HOME", ""],
        "cwd": "/",
        "env": {"A": "1"},
        "user": "www",
        "stdin": "text",
    }
    assert action_of({ACTION_KEY: action, "other": 1}) == CommandAction(
        argv=("/bin/echo", "a b", "$HOME", ""), cwd="/", env={"A": "1"}, user="www", stdin="text"
    )


def test_shell_text_goes_to_sh() -> None:
    assert action_of({ACTION_KEY: {"type": "command", "shell": "a | b"}}).argv == ("/bin/sh", "-c", "a | b")


def test_a_job_without_an_action_needs_another_runner() -> None:
    with pytest.raises(ActionRefused, match="no action"):
        action_of({"argv": ["true"], "type": "command"})


@pytest.mark.parametrize("kind", ["handler", "docker", None, 7])
def test_another_type_is_refused_by_its_name(kind: object) -> None:
    assert repr(kind) in refusal({"type": kind, "argv": ["true"], "url": "https://example.org"})


@pytest.mark.parametrize(
    ("action", "named"),
    [
        ({}, "'argv' or 'shell'"),
        ({"argv": ["true"], "shell": "true"}, "'argv' or 'shell'"),
        ({"argv": []}, "argv"),
        ({"argv": "true"}, "argv"),
        ({"argv": ["true", 1]}, "argv"),
        ({"argv": [""]}, "argv"),
        ({"argv": ["true", "a\0b"]}, "argv"),
        ({"shell": " "}, "shell"),
        ({"shell": ["true"]}, "shell"),
        ({"argv": ["true"], "cwd": 1}, "cwd"),
        ({"argv": ["true"], "env": ["A=1"]}, "env"),
        ({"argv": ["true"], "env": {"A": 1}}, "env"),
        ({"argv": ["true"], "env": {"A=B": "1"}}, "A=B"),
        ({"argv": ["true"], "env": {"": "1"}}, "env"),
        ({"argv": ["true"], "env": {"A": "\0"}}, "env"),
        ({"argv": ["true"], "user": 0}, "user"),
        ({"argv": ["true"], "stdin": ["text"]}, "stdin"),
    ],
)
def test_a_malformed_command_is_refused_and_the_field_named(action: dict[str, object], named: str) -> None:
    assert named in refusal({"type": "command", **action})


def test_an_action_that_is_no_object_is_refused() -> None:
    assert "not an object" in refusal(["true"])


def test_reserved_keys_are_not_public() -> None:
    assert public_metadata({ACTION_KEY: {}, "__other": 1, "_mine": 2, "b": 3}) == {"_mine": 2, "b": 3}
