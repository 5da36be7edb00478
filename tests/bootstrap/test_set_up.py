"""The bootstrap for real, offline: stand-in packages in wheels, a real venv, a real pip, real new processes."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
import time
import zipfile
from pathlib import Path

import pytest

from croniq_site.bootstrap import DEV, INSTALLED_FLAG, LOCKS, MARKER, MODULES, RUNTIME
from tests.support.suite import ROOT

pytestmark = [pytest.mark.realtime, pytest.mark.timeout(300)]

BASE = getattr(sys, "_base_executable", sys.executable)
MANAGEMENT = "import sys\ndef execute_from_command_line(argv):\n    print('handed over', sys.prefix, *argv[1:])\n"


def make_wheel(folder: Path, name: str, version: str, files: dict[str, str]) -> str:
    """Write a wheel and return its line for the lock."""
    info = f"{name}-{version}.dist-info"
    files = {
        **files,
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    files[f"{info}/RECORD"] = "".join(f"{path},,\n" for path in [*files, f"{info}/RECORD"])
    wheel = folder / f"{name}-{version}-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        for path, text in files.items():
            archive.writestr(path, text)
    return f"{name}=={version} --hash=sha256:{hashlib.sha256(wheel.read_bytes()).hexdigest()}\n"


class Clone:
    """A clone of the project as far as the bootstrap is concerned, and a machine with only Python."""

    def __init__(self, folder: Path) -> None:
        self.root = folder / "clone"
        self.wheels = folder / "wheels"
        self.wheels.mkdir(parents=True)
        (self.root / "croniq_site").mkdir(parents=True)
        (folder / "no-programs").mkdir()
        for name in ("manage.py", "croniq_site/__init__.py", "croniq_site/bootstrap.py"):
            shutil.copyfile(ROOT / name, self.root / name)
        django = {f"django/{part}__init__.py": "" for part in ("", "core/")}
        django["django/core/management/__init__.py"] = MANAGEMENT
        django["django/core/exceptions.py"] = "class ImproperlyConfigured(Exception):\n    pass\n"
        django["django/conf/__init__.py"] = "class settings:\n    configured = True\n"
        runtime = make_wheel(self.wheels, "django", "5.2.99", django)
        others = {f"{module}/__init__.py": "" for module in MODULES[RUNTIME] if module != "django"}
        runtime += make_wheel(self.wheels, "runtimeparts", "1.0", others)
        dev = make_wheel(self.wheels, "devparts", "1.0", {f"{module}/__init__.py": "" for module in MODULES[DEV]})
        self.lock(RUNTIME).write_text(runtime)
        self.lock(DEV).write_text(runtime + dev)
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("PIP_", "UV_", "PYTHON"))}
        self.environment = {
            **kept,
            "PATH": str(folder / "no-programs"),
            "PIP_CONFIG_FILE": os.devnull,
            "PIP_NO_INDEX": "1",
            "PIP_FIND_LINKS": str(self.wheels),
        }
        self.environment.pop(INSTALLED_FLAG, None)

    def lock(self, name: str) -> Path:
        return self.root / LOCKS[name]

    @property
    def marker(self) -> dict:
        return json.loads((self.root / ".venv" / MARKER).read_text())

    @property
    def handed_over(self) -> str:
        """What the stand-in for Django prints when it is reached, in .venv."""
        return f"handed over {self.root / '.venv'}"

    def start(self, *arguments: str, python: str = BASE, **environment: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [python, str(self.root / "manage.py"), *arguments],
            env={**self.environment, **environment},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, *arguments: str, python: str = BASE, **environment: str) -> tuple[int, str, str]:
        """Return exit status, stdout, stderr."""
        process = self.start(*arguments, python=python, **environment)
        try:
            out, err = process.communicate(timeout=60)
        finally:
            process.kill()
        return process.returncode, out.strip(), err


@pytest.fixture
def clone(tmp_path, database):
    if database != "sqlite":
        pytest.skip("no database takes part in the set-up: the run on SQLite is enough")
    fresh = subprocess.run([BASE, "-c", "import django"], capture_output=True, check=False)
    if fresh.returncode == 0:
        pytest.skip("the interpreter under .venv has Django itself; a machine with only Python cannot be played")
    return Clone(tmp_path)


def test_a_fresh_machine_is_set_up_once_and_later_starts_cost_less_than_a_second(clone):
    assert clone.run("migrate")[0] == 1, "no other command sets anything up"
    assert not (clone.root / ".venv").exists()

    status, out, err = clone.run("quickstart", "--port", "4001")
    assert (status, out) == (0, f"{clone.handed_over} quickstart --port 4001"), err
    assert "Making .venv" in err
    assert clone.lock(RUNTIME).name in err
    assert set(clone.marker["locks"]) == {RUNTIME}

    def seconds_of(**how: str) -> float:
        began = time.monotonic()
        assert clone.run("quickstart", **how) == (0, f"{clone.handed_over} quickstart", "")
        return time.monotonic() - began

    # The best of three: the machine may be busy.
    with_bootstrap = min(seconds_of() for _ in range(3))
    assert with_bootstrap - min(seconds_of(python=str(clone.root / ".venv/bin/python")) for _ in range(3)) < 1.0

    assert clone.run("migrate")[1] == f"{clone.handed_over} migrate", "other commands find .venv by themselves"

    status, out, err = clone.run("test")
    assert (status, out) == (0, f"{clone.handed_over} test"), err
    assert clone.lock(DEV).name in err
    assert "Making" not in err
    assert set(clone.marker["locks"]) == {RUNTIME, DEV}
    assert clone.run("quickstart")[2] == "", "what test installed is enough for quickstart"


def test_a_changed_lock_an_interrupted_installation_and_a_broken_venv_are_noticed(clone):
    assert clone.run("quickstart")[0] == 0
    made = clone.marker

    clone.lock(RUNTIME).write_text("# changed\n" + clone.lock(RUNTIME).read_text())
    for python in (BASE, str(clone.root / ".venv/bin/python")):
        (clone.root / ".venv" / MARKER).write_text(json.dumps(made))
        status, out, err = clone.run("quickstart", python=python)
        assert (status, out) == (0, f"{clone.handed_over} quickstart"), err
        assert "Installing" in err
        assert "Making" not in err

    good = clone.lock(RUNTIME).read_text()
    clone.lock(RUNTIME).write_text(good.replace("django==5.2.99", "django==5.2.100"))
    assert clone.run("quickstart")[0] == 1
    clone.lock(RUNTIME).write_text(good)
    assert "Installing" in clone.run("quickstart")[2], "half of another lock may be installed"

    (clone.root / ".venv" / MARKER).write_text(json.dumps({**clone.marker, "python": "3.1"}))
    status, out, err = clone.run("quickstart")
    assert (status, out) == (0, f"{clone.handed_over} quickstart"), err
    assert "making it again" in err

    for name in ("python", "python3"):
        (clone.root / ".venv/bin" / name).unlink()
        (clone.root / ".venv/bin" / name).symlink_to("/no/such/python")
    status, out, err = clone.run("quickstart")
    assert (status, out) == (0, f"{clone.handed_over} quickstart"), err
    assert "making it again" in err


def test_two_first_starts_at_once_make_one_environment(clone):
    starts = [clone.start("quickstart"), clone.start("quickstart")]
    answers = [start.communicate(timeout=120) for start in starts]
    assert [start.returncode for start in starts] == [0, 0], answers
    assert [out.strip() for out, _ in answers] == [f"{clone.handed_over} quickstart"] * 2
    assert sum("Making .venv" in err for _, err in answers) == 1
    assert sum("Installing" in err for _, err in answers) == 1


def test_an_environment_made_by_hand_is_kept_and_completed(clone):
    subprocess.run([BASE, "-m", "venv", clone.root / ".venv"], check=True, env=clone.environment)
    own = clone.root / ".venv" / "kept"
    own.touch()
    status, out, err = clone.run("quickstart")
    assert (status, out) == (0, f"{clone.handed_over} quickstart"), err
    assert "Making" not in err
    assert own.exists()


def test_a_package_that_is_not_the_locked_one_is_refused(clone):
    lines = clone.lock(RUNTIME).read_text().splitlines()
    clone.lock(RUNTIME).write_text("".join(f"{line.partition('sha256:')[0]}sha256:{'0' * 64}\n" for line in lines))
    status, out, err = clone.run("quickstart")
    assert (status, out) == (1, "")
    assert "Installing the packages failed" in err
    assert clone.marker["locks"] == {}, "the next start tries again"


def test_no_network_is_one_sentence(clone):
    clone.environment |= {"PIP_NO_INDEX": "0", "PIP_INDEX_URL": "http://127.0.0.1:9/", "PIP_FIND_LINKS": ""}
    status, out, err = clone.run("quickstart")
    assert (status, out) == (1, "")
    assert err.splitlines()[-1].startswith("Installing the packages failed: the package index cannot be reached.")
    assert "Traceback" not in err


def test_a_lock_that_lacks_a_package_ends_with_a_sentence_instead_of_a_loop(clone):
    clone.lock(RUNTIME).write_text(clone.lock(RUNTIME).read_text().splitlines()[0] + "\n")
    status, out, err = clone.run("quickstart")
    assert (status, out) == (1, "")
    assert "cannot be imported" in err.splitlines()[-1]
    assert err.count("Installing") == 1
