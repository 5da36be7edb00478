"""The lock files: pinned, hashed, complete, and free of any host's or machine's name."""

from __future__ import annotations

import re
import tomllib
from importlib.metadata import packages_distributions

import pytest

from croniq_site import bootstrap
from croniq_site.bootstrap import DEV, MODULES, RUNTIME
from tests.support.suite import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
DEPENDENCIES = {RUNTIME: PROJECT["dependencies"]}
EXTRAS = PROJECT["optional-dependencies"]
OTEL = "otel"
DEPENDENCIES[OTEL] = DEPENDENCIES[RUNTIME] + EXTRAS["otel"]
DEPENDENCIES[DEV] = DEPENDENCIES[OTEL] + EXTRAS["dev"]
LOCKS = {**bootstrap.LOCKS, OTEL: "requirements-otel.lock"}


def normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def name_of(requirement: str) -> str:
    return normal(re.match(r"[A-Za-z0-9._-]+", requirement)[0])


def entries(lock: str) -> dict[str, str]:
    """Requirement → its whole text, by logical line."""
    logical = (ROOT / LOCKS[lock]).read_text().replace("\\\n", " ").splitlines()
    lines = [line for line in logical if line.strip() and not line.lstrip().startswith("#")]
    return {f"{line.split('==')[0].strip()}|{line.split('--hash')[0].strip()}": line for line in lines}


@pytest.mark.parametrize("lock", LOCKS)
def test_every_entry_is_pinned_and_hashed(lock):
    assert entries(lock)
    for line in entries(lock).values():
        assert re.match(r"[a-z0-9._\[\],-]+==[^\s;]+", line), line
        assert re.search(r"--hash=sha256:[0-9a-f]{64}", line), line


@pytest.mark.parametrize("lock", LOCKS)
def test_it_names_no_index_no_host_and_no_path(lock):
    text = (ROOT / LOCKS[lock]).read_text()
    assert "://" not in text
    assert not re.search(r"--(index-url|extra-index-url|find-links|trusted-host)|^-[ief]\b|@ |(^|\s)/", text, re.M)


@pytest.mark.parametrize("lock", LOCKS)
def test_it_covers_what_pyproject_asks_for(lock):
    locked = {name_of(line) for line in entries(lock).values()}
    assert {name_of(requirement) for requirement in DEPENDENCIES[lock]} <= locked


def pins(lock: str) -> dict[str, list[str]]:
    """Name and version → the hashes; not the marker, which a package of the larger set may widen."""
    hashes = {line: re.findall(r"--hash=\S+", line) for line in entries(lock).values()}
    return {re.match(r"[^\s;]+", line)[0]: found for line, found in hashes.items()}


def test_the_larger_locks_contain_the_smaller():
    assert len(pins(RUNTIME)) > 20
    assert pins(RUNTIME).items() <= pins(OTEL).items() <= pins(DEV).items()


@pytest.mark.parametrize("lock", [RUNTIME, DEV])
def test_the_bootstrap_looks_for_a_module_of_each_dependency(lock):
    looked_for = MODULES[RUNTIME] + (MODULES[DEV] if lock == DEV else [])
    providers = packages_distributions()
    covered = {normal(name) for module in looked_for for name in providers.get(module, [])}
    assert {name_of(requirement) for requirement in DEPENDENCIES[lock]} <= covered
