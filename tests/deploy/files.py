"""The files of deploy/, read."""

from __future__ import annotations

import configparser
import json
import re
import shlex
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parents[2]
DEPLOY = ROOT / "deploy"
COMPOSE = {path.stem: yaml.safe_load(path.read_text()) for path in sorted((DEPLOY / "compose").glob("*.yml"))}
MANIFESTS: list[dict[str, Any]] = [
    manifest
    for path in sorted((DEPLOY / "kubernetes").glob("*.yaml"))
    if path.name != "kustomization.yaml"
    for manifest in yaml.safe_load_all(path.read_text())
]
UNITS = sorted((DEPLOY / "systemd").glob("croniq*"))


def containers() -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """Each container of the manifests beside its pod."""
    pods = [manifest["spec"]["template"]["spec"] for manifest in MANIFESTS if "template" in manifest.get("spec", {})]
    return [(pod, container) for pod in pods for container in pod["containers"]]


class Unit(configparser.RawConfigParser):
    """A unit file; a key that is there several times has its values joined by a newline."""

    def __init__(self, path: Path) -> None:
        super().__init__(strict=False, delimiters=["="], comment_prefixes=["#"], dict_type=_Joining)
        self.optionxform = str
        self.read(path)


class _Joining(dict):
    def __setitem__(self, key: str, value: Any) -> None:
        if isinstance(value, list) and isinstance(self.get(key), list):
            value = [*self[key], *value]
        super().__setitem__(key, value)


@dataclass
class Stage:
    """A stage of a Dockerfile: its instructions after FROM, in order, as (name, arguments)."""

    image: str
    name: str
    steps: list[tuple[str, str]] = field(default_factory=list)

    def last(self, name: str) -> str:
        return [arguments for step, arguments in self.steps if step == name][-1]

    def all(self, name: str) -> list[str]:
        return [arguments for step, arguments in self.steps if step == name]

    def variables(self) -> dict[str, str]:
        """Of the build, as they are where it is not told others."""
        return dict(shlex.split(argument)[0].split("=", 1) for argument in self.all("ARG"))

    def environment(self) -> dict[str, str]:
        words = shlex.split(" ".join(self.all("ENV")))
        return dict(word.split("=", 1) for word in words)


def stages() -> list[Stage]:
    text = re.sub(r"^#.*\n", "", (DEPLOY / "Dockerfile").read_text(), flags=re.MULTILINE)
    found: list[Stage] = []
    for line in re.sub(r"\\\n\s*", " ", text).splitlines():
        name, _, arguments = line.strip().partition(" ")
        if name == "FROM":
            image, _, stage = arguments.partition(" AS ")
            found.append(Stage(image, stage))
        elif name and found:
            found[-1].steps.append((name, arguments.strip()))
    return found


def command_of(stage: Stage) -> list[str]:
    """The command of an exec-form ENTRYPOINT with its CMD."""
    return [*json.loads(stage.last("ENTRYPOINT")), *json.loads(stage.last("CMD"))]
