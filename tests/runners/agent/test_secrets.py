"""Secrets by reference: where they come from, and that nothing that the runner sends tells one."""

from __future__ import annotations

import asyncio
import json
import os
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runners.agent.actions import ACTION_KEY, ActionRefused, action_of
from runners.agent.agent import Agent
from runners.agent.environment import inherited
from runners.agent.secrets import MOST_BYTES, Mask, SecretRef, Secrets
from tests.runners.agent.helpers import until
from tests.runners.agent.test_agent import Server, job, played, verdicts

TOKEN = SecretRef("TOKEN")


def refusal(environ: dict[str, str]) -> str:
    with pytest.raises(ActionRefused) as caught:
        Secrets(environ).reveal(TOKEN)
    return str(caught.value)


def test_a_secret_is_in_the_environment_or_in_a_file_that_it_names(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("in a file\n")
    environ = {"CRONIQ_SECRET_TOKEN_FILE": str(file)}
    secrets = Secrets(environ)
    assert secrets.reveal(TOKEN) == "in a file"
    file.write_text("rotated\r\n")
    assert secrets.reveal(SecretRef("TOKEN", "Bearer ")) == "Bearer rotated"
    assert Secrets(environ | {"CRONIQ_SECRET_TOKEN": "set"}).reveal(TOKEN) == "set"
    assert Secrets({}).reveal("plain") == "plain"


def test_what_cannot_be_had_is_named_and_says_why(tmp_path: Path) -> None:
    file = tmp_path / "token"
    environ = {"CRONIQ_SECRET_TOKEN_FILE": str(file)}
    assert "this runner has no secret 'TOKEN'" in refusal({})
    assert refusal({"CRONIQ_SECRET_TOKEN": ""}) == "the secret 'TOKEN' (CRONIQ_SECRET_TOKEN) is empty"
    assert refusal(environ) == (
        "the file of the secret 'TOKEN' (CRONIQ_SECRET_TOKEN_FILE) cannot be read: No such file or directory"
    )
    file.write_bytes(b"\xff")
    assert "it is not UTF-8" in refusal(environ)
    file.write_bytes(b"x" * (MOST_BYTES + 1))
    assert f"more than {MOST_BYTES} bytes" in refusal(environ)
    file.write_bytes(b"\n")
    assert "is empty" in refusal(environ)


@pytest.mark.parametrize("name", ["KEY", "key", "KEY_FILE", "TOKEN_FILE", "A-B", "1A", "", "A" * 101, 5, None])
def test_no_reference_reaches_the_servers_own_key_or_another_secrets_file(name: object) -> None:
    action = {"type": "command", "argv": ["true"], "env": {"A": {"secret": name}}}
    with pytest.raises(ActionRefused, match="'env'"):
        action_of({ACTION_KEY: action})


@pytest.mark.parametrize(
    "value", [{"secret": "A", "more": 1}, {"secret": "A", "prefix": 1}, {"name": "A"}, ["A"], None]
)
def test_what_is_no_reference_is_refused(value: object) -> None:
    with pytest.raises(ActionRefused, match="'env'"):
        action_of({ACTION_KEY: {"type": "command", "argv": ["true"], "env": {"A": value}}})


def test_no_option_hands_secrets_to_every_job() -> None:
    environ = {"CRONIQ_SECRET_TOKEN": "x", "CRONIQ_SECRET_TOKEN_FILE": "/x", "PATH": "/bin"}
    assert inherited(environ, environ) == {"PATH": "/bin"}


def masked(secrets: list[str], *pieces: bytes) -> bytes:
    stream = Mask(secrets).stream()
    return b"".join([*(stream.feed(piece) for piece in pieces), stream.finish()])


def test_a_secret_in_pieces_is_hidden() -> None:
    assert masked(["secret"], b"a sec", b"r", b"et b secre", b"t") == b"a *** b ***"
    assert masked(["secret"], b"sec", b"ond secre") == b"second secre"
    assert masked(["abc", "abcdef"], b"xabc", b"def abc") == b"x*** ***"
    assert masked(["aab"], b"aaa", b"ab") == b"aa***"
    assert masked(["two\nlines"], b"two\n", b"lines\n") == b"***\n"


def test_what_cannot_be_the_beginning_of_a_secret_is_not_held_back() -> None:
    stream = Mask(["secret"]).stream()
    assert stream.feed(b"Password: ") == b"Password: "
    assert stream.feed(b"secr") == b""
    assert stream.feed(b"ibe\n") == b"secribe\n"
    assert Mask([]).stream().feed(b"secret") == Mask([""]).stream().feed(b"secret") == b"secret"


def test_the_forms_in_which_answers_repeat_a_secret_are_hidden_too() -> None:
    secret = 'a"b/c ü\n'
    in_urls = ("a%22b%2Fc%20%C3%BC%0A", "a%22b/c%20%C3%BC%0A")
    for form in (secret, json.dumps({"x": secret}), json.dumps(secret, ensure_ascii=False), *in_urls):
        assert "***" in Mask([secret]).text(form)
        assert "b" not in Mask([secret]).text(form)


@given(
    secrets=st.lists(st.text("ab", min_size=1, max_size=5), min_size=1, max_size=3),
    pieces=st.lists(st.text("abc", max_size=6), max_size=8),
)
def test_pieces_are_masked_as_the_whole_is(secrets: list[str], pieces: list[str]) -> None:
    """Leftmost, and of several the longest, as a regular expression finds them in one text."""
    longest_first = sorted(secrets, key=len, reverse=True)
    whole = re.sub("|".join(longest_first), "***", "".join(pieces))
    assert masked(secrets, *(piece.encode() for piece in pieces)) == whole.encode()


def story_of(*jobs: dict[str, Any]) -> Server:
    server = Server(*jobs)

    async def story(agent: Agent, task: asyncio.Task[None]) -> None:
        await until(lambda: len(server.acks) == len(jobs), "all verdicts")
        agent.stop()

    played(server, story)
    return server


def test_a_command_gets_its_secret_and_what_it_prints_of_it_is_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CRONIQ_SECRET_TOKEN", "t0ken-t0ken")
    reference = {"secret": "TOKEN"}
    server = story_of(
        job(
            "said",
            shell='echo "$TOKEN"; echo "<$P>" >&2; test "$TOKEN" = t0ken-t0ken',
            env={"TOKEN": reference, "P": "p"},
        ),
        # The end of one piece of 64 KiB and the beginning of the next: the mask must not see lines but the stream.
        job("long", shell='head -c 65518 /dev/zero | tr "\\0" x; echo "$TOKEN"', env={"TOKEN": reference}),
        job("gone", argv=["no-such-program"], env={"PATH": {"secret": "TOKEN", "prefix": "/"}}),
        job("none", argv=["true"], env={"A": {"secret": "NOT_HERE"}}),
        job("all", shell="env", env={"A": "b"}),
    )
    found = verdicts(server)
    assert (found["said"], found["long"]) == (("success", None), ("success", None))
    assert sorted(server.lines["said"]) == ["***", "<p>"]
    assert "".join(server.lines["long"]).endswith("x***")
    assert "(/***)" in found["gone"][1]
    assert found["none"][1].startswith("job demo:a: this runner has no secret 'NOT_HERE'")
    assert "t0ken" not in json.dumps([server.lines, server.acks])
    assert "CRONIQ_SECRET" not in "".join(server.lines["all"])


def test_a_secret_that_a_command_prints_in_two_pieces_is_hidden(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("CRONIQ_SECRET_TOKEN", "12345678")
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    shell = 'echo begun; printf 1234; read x < "$GATE"; echo 5678'
    server = Server(job("a", shell=shell, env={"GATE": str(gate), "UNUSED": {"secret": "TOKEN"}}))

    async def story(agent: Agent, task: asyncio.Task[None]) -> None:
        await until(lambda: server.lines.get("a"), "the first piece has been read")
        await asyncio.to_thread(gate.write_text, "go\n")
        await until(lambda: server.acks, "the verdict")
        agent.stop()

    played(server, story)
    assert server.lines["a"] == ["begun", "***"]
