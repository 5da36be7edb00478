"""Manifests and compose files are what Kubernetes and Compose read: unknown and ill-formed fields are refused."""

from __future__ import annotations

import copy
import json
from typing import Any

import kubernetes_validate
import pytest
from compose_spec import PyCompose

from tests.deploy.files import COMPOSE, MANIFESTS

OLDEST = "1.29"
NEWEST = kubernetes_validate.latest_version()


def compose(content: dict[str, Any]) -> PyCompose:
    """Without anchors: what they stand for is in the content already. ValueError where the specification has it not."""
    return PyCompose.from_json(json.dumps(content))


def name(manifest: dict[str, Any]) -> str:
    return f"{manifest['kind']}/{manifest['metadata']['name']}"


@pytest.mark.parametrize("manifest", MANIFESTS, ids=name)
@pytest.mark.parametrize("version", [OLDEST, NEWEST])
def test_kubernetes_takes_each_manifest(version, manifest):
    kubernetes_validate.validate(manifest, version, strict=True)


def test_kubernetes_takes_no_misspelled_field():
    wrong = copy.deepcopy(next(manifest for manifest in MANIFESTS if manifest["kind"] == "Deployment"))
    wrong["spec"]["template"]["spec"]["containers"][0]["readinesProbe"] = {}
    with pytest.raises(kubernetes_validate.ValidationError, match="readinesProbe"):
        kubernetes_validate.validate(wrong, NEWEST, strict=True)


@pytest.mark.parametrize("file", COMPOSE)
def test_compose_takes_each_file_and_what_it_refers_to_is_there(file):
    read = compose({key: value for key, value in COMPOSE[file].items() if not key.startswith("x-")})
    assert set(read.service_names()) == set(COMPOSE[file]["services"])
    read.validate()


def test_compose_takes_no_misspelled_field_and_no_secret_that_is_not_there():
    wrong = copy.deepcopy(COMPOSE["sqlite"])
    wrong["services"]["croniq"]["restrat"] = "always"
    with pytest.raises(ValueError, match="restrat"):
        compose(wrong)
    del wrong["services"]["croniq"]["restrat"]
    wrong["services"]["croniq"]["secrets"] = ["nobody_told"]
    with pytest.raises(ValueError, match="nobody_told"):
        compose(wrong).validate()
