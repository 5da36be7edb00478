"""Which step the bootstrap takes, given the facts; its sentences; its marker."""

from __future__ import annotations

import itertools
import json
from dataclasses import replace

import pytest

from croniq_site import bootstrap
from croniq_site.bootstrap import DEV, MARKER, RUNTIME, Bootstrap, Facts, Marker, Step, decide

MADE = Marker(python="3.12", path="/croniq/.venv", locks={RUNTIME: "r1", DEV: "d1"})
FRESH = Facts(
    needs=RUNTIME,
    has_modules=False,
    in_venv=False,
    venv_exists=False,
    venv_works=False,
    marker=None,
    python="3.12",
    path="/croniq/.venv",
    lock_hash="r1",
)
BEGUN = Marker(python="3.12", path="/croniq/.venv")
RUNTIME_ONLY = Marker(python="3.12", path="/croniq/.venv", locks={RUNTIME: "r1"})
READY = replace(FRESH, venv_exists=True, venv_works=True, marker=MADE)
INSIDE = replace(READY, in_venv=True, has_modules=True)


@pytest.mark.parametrize(
    ("story", "facts", "step"),
    [
        ("a fresh machine", FRESH, Step.CREATE),
        ("everything is importable already, without .venv", replace(FRESH, has_modules=True), Step.GO),
        ("… also when a .venv of ours is out of date", replace(READY, has_modules=True, lock_hash="r2"), Step.GO),
        ("set up, started with the system's python", READY, Step.ENTER),
        ("set up, in .venv", INSIDE, Step.GO),
        ("the lock changed, outside", replace(READY, lock_hash="r2"), Step.INSTALL),
        ("the lock changed, inside", replace(INSIDE, lock_hash="r2"), Step.INSTALL),
        (
            "only the runtime is there, test needs dev",
            replace(READY, needs=DEV, marker=RUNTIME_ONLY, lock_hash="d1"),
            Step.INSTALL,
        ),
        ("dev is there, quickstart needs runtime", replace(READY, lock_hash="r1"), Step.ENTER),
        ("an interrupted installation", replace(READY, marker=BEGUN), Step.INSTALL),
        (
            "… interrupted before there was an interpreter",
            replace(READY, venv_works=False, marker=BEGUN),
            Step.RECREATE,
        ),
        ("… inside, though all can be imported", replace(INSIDE, marker=BEGUN), Step.INSTALL),
        ("made with another Python", replace(READY, python="3.13"), Step.RECREATE),
        ("moved", replace(READY, path="/elsewhere/.venv"), Step.RECREATE),
        ("its interpreter is gone", replace(READY, venv_works=False), Step.RECREATE),
        ("made by hand: it may know all that we do not", replace(READY, marker=None), Step.ENTER),
        ("made by hand with another Python", replace(READY, marker=None, python="3.13"), Step.ENTER),
        ("made by hand, complete, inside", replace(INSIDE, marker=None), Step.GO),
        ("made by hand, incomplete, inside", replace(INSIDE, marker=None, has_modules=False), Step.INSTALL),
        ("another command, all there", replace(FRESH, needs=None, has_modules=True), Step.GO),
        ("another command on a fresh machine", replace(FRESH, needs=None), Step.REFUSE),
        ("another command after quickstart", replace(READY, needs=None), Step.ENTER),
        ("another command, .venv broken", replace(READY, needs=None, venv_works=False), Step.REFUSE),
        ("another command in an empty .venv", replace(INSIDE, needs=None, has_modules=False), Step.REFUSE),
    ],
)
def test_each_situation_has_its_step(story, facts, step):
    assert decide(facts) is step, story


def test_only_quickstart_and_test_ever_change_anything_and_entering_never_loops():
    """All combinations: no command but those installs; .venv's own interpreter is never told to enter .venv."""
    booleans = (False, True)
    markers = (None, MADE, BEGUN, Marker("3.11", MADE.path, MADE.locks))
    for needs, modules, inside, exists, works, marker in itertools.product(
        (None, RUNTIME, DEV), booleans, booleans, booleans, booleans, markers
    ):
        facts = replace(
            FRESH,
            needs=needs,
            has_modules=modules,
            in_venv=inside,
            venv_exists=exists,
            venv_works=works,
            marker=marker,
            lock_hash={RUNTIME: "r1", DEV: "d1"}.get(needs),
        )
        step = decide(facts)
        if needs is None:
            assert step in (Step.GO, Step.ENTER, Step.REFUSE)
        if inside:
            assert step is not Step.ENTER
        if step is Step.RECREATE and works:
            assert marker is not None, "an environment made by hand that works is never thrown away"


def test_the_marker_is_written_whole_and_read_back(tmp_path):
    path = tmp_path / MARKER
    assert bootstrap.read_marker(path) is None
    bootstrap.write_marker(path, MADE)
    assert bootstrap.read_marker(path) == MADE
    assert [p.name for p in tmp_path.iterdir()] == [MARKER]


@pytest.mark.parametrize("text", ["", "{", "[]", '{"python": "3.12"}', json.dumps({"other": 1})])
def test_a_marker_that_makes_no_sense_counts_as_none(tmp_path, text):
    path = tmp_path / MARKER
    path.write_text(text)
    assert bootstrap.read_marker(path) is None


def test_no_network_is_told_as_such_and_other_failures_by_their_last_error():
    no_network = (
        "WARNING: Retrying after connection broken by 'NewConnectionError(... Failed to establish a new connection: "
        "[Errno -3] Temporary failure in name resolution')': /simple/django/\n"
        "ERROR: Could not find a version that satisfies the requirement django==5.2 (from versions: none)\n"
        "ERROR: No matching distribution found for django==5.2\n"
    )
    sentence = bootstrap.failure_sentence("Installing failed", no_network)
    assert "cannot be reached" in sentence
    assert "\n" not in sentence
    other = bootstrap.failure_sentence("Installing failed", "noise\nERROR: THESE PACKAGES DO NOT MATCH THE HASHES\n\n")
    assert other.startswith("Installing failed: ERROR: THESE PACKAGES DO NOT MATCH THE HASHES")
    assert "no reason was given" in bootstrap.failure_sentence("Installing failed", "")


def test_a_python_without_ensurepip_is_told_what_to_install(tmp_path, monkeypatch, capsys):
    (tmp_path / "requirements.lock").write_text("")
    monkeypatch.setattr(bootstrap, "_has_venv", lambda: False)
    monkeypatch.setattr(bootstrap.shutil, "which", lambda name: None)
    monkeypatch.setattr(Bootstrap, "missing_modules", lambda self: ["django"])
    with pytest.raises(SystemExit):
        Bootstrap(tmp_path, "quickstart").set_up()
    said = capsys.readouterr().err
    assert "-venv" in said
    assert said.count("\n") == 1
    assert not (tmp_path / ".venv").exists()


def test_a_django_of_another_series_counts_as_missing(tmp_path, monkeypatch):
    for command in ("quickstart", "test", "migrate"):
        assert "django" not in Bootstrap(tmp_path, command).missing_modules()
    monkeypatch.setattr(bootstrap.importlib.metadata, "version", lambda name: "3.2.19")
    for command in ("quickstart", "test", "migrate"):
        assert "django" in Bootstrap(tmp_path, command).missing_modules()
