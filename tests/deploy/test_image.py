"""The image's steps, followed without an engine: a clean virtual environment, the copied tree, the entry point."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import httpx
import pytest

from tests.deploy.files import ROOT, Stage, command_of, stages
from tests.e2e.installation import free_port

pytestmark = [pytest.mark.realtime, pytest.mark.timeout(900)]
# These change the machine, and are the engine's business: an account and a folder of its own.
OF_AN_ENGINE = ("useradd ", "install --directory ")


class Image:
    """A stage's file system in a folder. Paths of the image (/app, /venv, /data) are those below it."""

    def __init__(self, place: Path) -> None:
        self.place, self.workdir = place, "/"

    def path(self, inside: str) -> Path:
        return self.place / inside.lstrip("/") if inside.startswith("/") else self.path(self.workdir) / inside

    def here(self, text: str) -> str:
        """``text`` with the image's paths and, where it begins with it, the base image's Python: one without any
        package of ours."""
        text = re.sub(r"^python(?= )", lambda _: shlex.quote(sys._base_executable), text)
        return re.sub(r"(?<![\w./-])/(venv|app|data)\b", lambda match: f"{self.place}/{match[1]}", text)

    def run(self, line: str, **env: str) -> str:
        """Run a line in the shell, with nothing of the environment but where the programs are."""
        done = subprocess.run(
            ["/bin/sh", "-c", self.here(line)],
            cwd=self.path(self.workdir),
            env={"PATH": os.environ["PATH"], "HOME": os.environ.get("HOME", "/"), **PIP, **env},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, f"{line}\n{done.stdout[-2000:]}{done.stderr[-2000:]}"
        return done.stdout


# Where packages come from is this machine's business.
PIP = {name: value for name, value in os.environ.items() if name.startswith("PIP_")}


def follow(stage: Stage, image: Image, built: Image | None = None) -> None:
    for step, arguments in stage.steps:
        if step == "WORKDIR":
            image.workdir = arguments
            image.path(arguments).mkdir(parents=True, exist_ok=True)
        elif step == "RUN" and not arguments.startswith(OF_AN_ENGINE):
            # What pip keeps beside the image is not in it; here it saves the next run the way. Nor is a quarter of a
            # minute spent on compiling packages that are used twice.
            image.run(arguments.replace(" --no-cache-dir", " --no-compile"), **stage.variables())
        elif step == "COPY":
            *sources, target = arguments.split()
            origin = ROOT
            if sources[0].startswith("--from="):
                assert built is not None
                origin, sources = built.place, [source.lstrip("/") for source in sources[1:]]
            for source in sources:
                copy(origin / source, image.path(target) / source if target == "./" else image.path(target))


def copy(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    if source.is_dir():
        ignored = (
            shutil.ignore_patterns("__pycache__") if source.is_relative_to(ROOT) else None
        )  # as .dockerignore has it
        shutil.copytree(source, target, symlinks=True, ignore=ignored, copy_function=os.link)
    else:
        shutil.copy(source, target)


def listing(*places: Path) -> dict[str, tuple[int, int]]:
    found = [path for place in places for path in place.rglob("*")]
    return {str(path): (path.lstat().st_size, path.lstat().st_mtime_ns) for path in found}


def test_the_image_is_built_starts_from_its_entry_point_and_writes_only_to_its_data(tmp_path, database):
    if database != "sqlite":
        pytest.skip("the image is tried with a database of its own: the run on SQLite is enough")
    build, final = stages()
    built, image = Image(tmp_path / "build"), Image(tmp_path / "final")
    follow(build, built)
    follow(final, image, built)
    (image.place / "data").mkdir()
    environment = {name: image.here(value) for name, value in final.environment().items()}
    environment["PATH"] = environment["PATH"].replace("${PATH}", os.environ["PATH"])
    environment |= {"CRONIQ_GIT_SHA": "abc123", "CRONIQ_BUILD_TIME": "", "HOME": str(image.place / "data")}
    before = listing(image.place / "app", image.place / "venv")
    assert not [path for path in before if "/tests/" in path and "/app/" in path]

    python, manage, *command = [image.here(word) for word in command_of(final)]
    version = subprocess.run([python, "--version"], env=environment, capture_output=True, text=True, check=True)
    assert version.stdout.startswith("Python 3.")
    subprocess.run([python, manage, "migrate", "--verbosity", "0"], env=environment, check=True, cwd=image.path("/app"))
    port = free_port()
    server = subprocess.Popen(
        [python, manage, *command, "--port", str(port)],
        env=environment,
        cwd=image.path("/app"),
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert server.stdout.readline().startswith("Croniq serves")
        health = json.loads(image.here(final.last("HEALTHCHECK").partition("CMD ")[2]))
        healthy = subprocess.run([*health, str(port)], env=environment, check=False)
        assert healthy.returncode == 0
        assert httpx.get(f"http://127.0.0.1:{port}/version", timeout=30).json()["git_sha"] == "abc123"
        # Static files are in it, and found.
        assert httpx.get(f"http://127.0.0.1:{port}/static/croniq.css", timeout=30).status_code in (200, 301)
    finally:
        server.terminate()
        assert server.wait(60) == 0
        server.stdout.close()
    # With a read-only root it does the same.
    assert listing(image.place / "app", image.place / "venv") == before
    unhealthy = subprocess.run([*health, str(port)], env=environment, capture_output=True, check=False)
    assert unhealthy.returncode == 1
