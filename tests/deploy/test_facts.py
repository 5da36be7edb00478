"""What the files of deploy/ say is true of the code: variables, commands, ports, paths, and of each other."""

from __future__ import annotations

import fnmatch
import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from django.core.management import get_commands, load_command_class
from django.core.management.base import BaseCommand
from django.urls import resolve

from croniq_site.kernel.tracing import wanted_exporter
from scheduler.management.commands.quickstart import children_of
from scheduler.workers.alerter import END_SECONDS
from tests.architecture.tree import PACKAGES, files, name
from tests.deploy.files import COMPOSE, DEPLOY, MANIFESTS, ROOT, UNITS, Unit, command_of, containers, stages

PORT = 4000
DOCUMENTED = set(re.findall(r"`((?:CRONIQ_[A-Z_]+|DATABASE_URL))", (ROOT / "docs/settings.md").read_text()))
(_OIDC,) = re.findall(r"^\| `CRONIQ_OIDC_ISSUER`.*", (ROOT / "docs/settings.md").read_text(), re.MULTILINE)
DOCUMENTED |= {f"CRONIQ_OIDC{end}" for end in re.findall(r"`(_[A-Z_]+)`", _OIDC)}
VARIABLE = re.compile(r"\b(?:CRONIQ_[A-Z_]+|DATABASE_URL(?:_FILE)?)\b")
TEXTS = [path for path in files(within=("deploy",)) if path.suffix != ".json"] + [ROOT / "docs/deploy.md"]
SENDERS = {"sqlite": "croniq", "postgres": "reaper"}
SECRETS = {"CRONIQ_SECRET_KEY", "DATABASE_URL", "CRONIQ_RUNNER_KEY"}


@pytest.mark.parametrize("path", TEXTS, ids=name)
def test_every_variable_that_is_named_is_one_of_the_settings(path):
    named = set(VARIABLE.findall(path.read_text()))
    twins = {f"{secret}_FILE" for secret in SECRETS}
    assert named - DOCUMENTED - twins == set()


def test_the_example_of_settings_is_one_that_croniq_starts_with(tmp_path):
    lines = re.findall(r"^#?([A-Z_]+)=(.*)$", (DEPLOY / ".env.example").read_text(), re.MULTILINE)
    given = {variable: value for variable, value in lines if not variable.endswith("_FILE")}
    assert len(given) > 8
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("CRONIQ_", "DATABASE_URL"))}
    done = subprocess.run(
        [sys.executable, "-c", "import croniq_site.settings as s; print(s.ALLOWED_HOSTS, s.CRONIQ_KEEP_RUNS)"],
        cwd=ROOT,
        env={**kept, **given, "CRONIQ_DATA_DIR": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout.strip() == "['croniq.example', 'localhost'] 1000", done.stderr


TRACES = {
    "OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_HEADERS", "OTEL_SERVICE_NAME", "OTEL_RESOURCE_ATTRIBUTES",
    "OTEL_TRACES_SAMPLER", "OTEL_TRACES_SAMPLER_ARG",
}  # fmt: skip


def test_the_example_asks_for_traces_once_a_line_of_it_does():
    text = (DEPLOY / ".env.example").read_text()
    assert set(re.findall(r"^#(OTEL_[A-Z_]+)=", text, re.MULTILINE)) == TRACES
    asked = dict(re.findall(r"^#(OTEL_[A-Z_]+)=(.*)$", text, re.MULTILINE))
    assert wanted_exporter(asked) == "otlp"
    assert wanted_exporter({name: value for name, value in asked.items() if not name.endswith("ENDPOINT")}) is None


def test_every_process_that_makes_spans_is_given_what_asks_for_them():
    for compose in COMPOSE.values():
        for service, content in compose["services"].items():
            if service != "postgres":
                # Without a value: what is not set outside is not set inside.
                assert {name for name in TRACES if content["environment"].get(name, "") is None} == TRACES, service
    (config,) = [m for m in MANIFESTS if m["kind"] == "ConfigMap" and m["metadata"]["name"] == "croniq-otel"]
    assert wanted_exporter(config["data"]) is None
    commented = set(re.findall(r"^  (?:# )?(OTEL_[A-Z_]+):", (DEPLOY / "kubernetes/config.yaml").read_text(), re.M))
    assert commented == TRACES - {"OTEL_EXPORTER_OTLP_HEADERS"}  # which hold a key
    for _, container in containers():
        if container["name"] != "migrate":
            sources = container["envFrom"]
            assert {"configMapRef": {"name": "croniq-otel"}} in sources, container["name"]
            assert {"secretRef": {"name": "croniq-otel", "optional": True}} in sources
    for path in UNITS:
        unit = Unit(path)
        if unit.has_section("Service"):
            assert unit["Service"]["EnvironmentFile"].lstrip("-") in (
                "/etc/croniq/croniq.env",
                "/etc/croniq/runner.env",
            )


def told() -> list[tuple[str, list[str]]]:
    """Every command with its arguments that a file of deploy/ or its page gives, and where it is."""
    found = [
        (f"{file}/{service}", content["command"])
        for file, compose in COMPOSE.items()
        for service, content in compose["services"].items()
        if service != "postgres"
    ]
    found += [(container["name"], container["args"]) for _, container in containers()]
    for path in UNITS:
        unit = Unit(path)
        if unit.has_section("Service"):
            found.append((path.name, unit["Service"]["ExecStart"].split()[2:]))
    found.append(("Dockerfile", command_of(stages()[-1])[2:]))
    page = (ROOT / "docs/deploy.md").read_text()
    found += [
        ("docs/deploy.md", shlex.split(line)) for line in re.findall(r"manage\.py ((?:\w+)(?: [^\n`#|&]*)?)", page)
    ]
    return found


@pytest.mark.parametrize(("where", "command"), told())
def test_every_command_exists_and_takes_the_arguments(where, command):
    known = get_commands()
    assert command[0] in known, where
    app = known[command[0]]
    loaded = app if isinstance(app, BaseCommand) else load_command_class(app, command[0])
    # A placeholder of the page, such as FILE or URL, is as good as any text.
    loaded.create_parser("manage.py", command[0]).parse_args(command[1:])


def test_ports_agree():
    serve = load_command_class("scheduler", "serve").create_parser("manage.py", "serve")
    assert serve.get_default("port") == PORT
    assert stages()[-1].last("EXPOSE") == str(PORT)
    for compose in COMPOSE.values():
        published = [port for service in compose["services"].values() for port in service.get("ports", [])]
        inside = [str(port["target"]) if isinstance(port, dict) else port.rpartition(":")[2] for port in published]
        assert inside == [str(PORT)]
    ports = [port["containerPort"] for _, container in containers() for port in container.get("ports", [])]
    assert ports == [PORT]
    (service,) = [manifest for manifest in MANIFESTS if manifest["kind"] == "Service"]
    assert [(port["port"], port["targetPort"]) for port in service["spec"]["ports"]] == [(PORT, "http")]
    assert f"else {PORT}" in (DEPLOY / "healthcheck.py").read_text()
    server_url = COMPOSE["postgres"]["services"]["runner"]["command"][2]
    assert server_url == f"http://server:{PORT}"


def test_probes_ask_what_there_is_by_a_name_that_is_answered():
    (config,) = [m for m in MANIFESTS if m["kind"] == "ConfigMap" and m["metadata"]["name"] == "croniq"]
    hosts = config["data"]["CRONIQ_ALLOWED_HOSTS"].split(",")
    probes = [probe for _, container in containers() for key, probe in container.items() if key.endswith("Probe")]
    assert {probe["httpGet"]["path"] for probe in probes} == {"/ready", "/version"}
    for probe in probes:
        resolve(probe["httpGet"]["path"])
        assert [header["value"] for header in probe["httpGet"]["httpHeaders"]] == ["localhost"]
    (runner,) = [container for _, container in containers() if container["name"] == "runner"]
    url = next(entry["value"] for entry in runner["env"] if entry["name"] == "CRONIQ_SERVER_URL")
    assert url.split("//")[1].split(":")[0] in hosts
    assert "localhost" in hosts


def test_a_server_is_not_killed_because_its_database_is_away():
    (server,) = [container for _, container in containers() if container["name"] == "server"]
    # /health and /ready ask the database.
    assert server["livenessProbe"]["httpGet"]["path"] == "/version"
    assert server["readinessProbe"]["httpGet"]["path"] == server["startupProbe"]["httpGet"]["path"] == "/ready"


def test_the_compose_files_run_what_the_design_asks_for():
    services = COMPOSE["postgres"]["services"]
    replicas = {service: content["deploy"]["replicas"] for service, content in services.items() if "deploy" in content}
    assert replicas == {"server": 2, "materializer": 2, "reaper": 2, "runner": 3}
    assert set(COMPOSE["sqlite"]["services"]) == {"croniq"}
    deployments = {m["metadata"]["name"]: m["spec"]["replicas"] for m in MANIFESTS if m["kind"] == "Deployment"}
    assert deployments == {f"croniq-{service}": count for service, count in replicas.items()}


def test_what_jobs_leave_behind_is_buried_by_the_first_process():
    for compose in COMPOSE.values():
        assert all(content["init"] for service, content in compose["services"].items() if service != "postgres")
    for pod, container in containers():
        assert pod.get("shareProcessNamespace", False) == (container["name"] == "runner")


def test_what_a_compose_file_refers_to_is_in_it():
    for compose in COMPOSE.values():
        services = compose["services"]
        for content in services.values():
            assert set(content.get("depends_on", {})) <= set(services)
            assert set(content.get("secrets", [])) <= set(compose.get("secrets", {}))
            for volume in content.get("volumes", []):
                assert volume.split(":")[0] in compose["volumes"]
            for variable, value in content.get("environment", {}).items():
                if variable.endswith("_FILE"):
                    assert value.removeprefix("/run/secrets/") in content["secrets"]


def test_every_setting_of_a_server_reaches_it_through_a_compose_file():
    others = r"CRONIQ_(RUNNER_(KEY|DATA_DIR)|API_CLIENT_|SERVER_URL|GIT_SHA|BUILD_TIME|PG_BIN)|.*_FILE$"
    of_others = {name for name in DOCUMENTED if re.match(others, name)}
    given = {"CRONIQ_DATA_DIR", "CRONIQ_DEBUG", "CRONIQ_SECRET_KEY", "DATABASE_URL"}  # by the image, never, as secrets
    for file, service in (("sqlite", "croniq"), ("postgres", "server"), ("postgres", "reaper")):
        assert DOCUMENTED - of_others - given - set(COMPOSE[file]["services"][service]["environment"]) == set(), file


def test_no_process_of_a_new_version_starts_before_its_migrations():
    services = COMPOSE["postgres"]["services"]
    for service in ("server", "materializer", "reaper"):
        assert services[service]["depends_on"]["migrate"]["condition"] == "service_completed_successfully"
    for path in UNITS:
        unit = Unit(path)
        if unit.get("Service", "Type", fallback="") == "notify":
            assert "croniq-migrate.service" in unit["Unit"]["Wants"].split()
            assert "croniq-migrate.service" in unit["Unit"]["After"].split()
            # Of what is required a restart is passed on: an upgrade would stop all before it migrates.
            assert not {"Requires", "BindsTo", "Requisite"} & set(unit["Unit"])


def test_containers_have_no_more_rights_than_they_need():
    for compose in COMPOSE.values():
        for service, content in compose["services"].items():
            if service != "postgres":
                assert (content["read_only"], content["cap_drop"]) == (True, ["ALL"])
                assert content["security_opt"] == ["no-new-privileges:true"]
    for pod, container in containers():
        assert pod["securityContext"]["runAsNonRoot"]
        assert pod["automountServiceAccountToken"] is False
        rights = container["securityContext"]
        assert (rights["readOnlyRootFilesystem"], rights["allowPrivilegeEscalation"]) == (True, False)
        assert rights["capabilities"] == {"drop": ["ALL"]}
        mounted = {mount["name"] for mount in container["volumeMounts"]}
        assert mounted == {volume["name"] for volume in pod["volumes"]}


def test_a_runner_sees_none_of_the_servers_secrets():
    assert COMPOSE["postgres"]["services"]["runner"]["secrets"] == ["runner_key"]
    for pod, container in containers():
        (volume,) = [volume for volume in pod["volumes"] if "secret" in volume]
        keys = {item["key"] for item in volume["secret"]["items"]}
        assert keys == ({"runner_key"} if container["name"] == "runner" else {"database_url", "secret_key"})
        assert volume["secret"]["defaultMode"] == 0o440
    assert Unit(DEPLOY / "systemd/croniq-runner.service")["Service"]["User"] == "croniq-runner"
    assert "croniq.env" not in (DEPLOY / "systemd/croniq-runner.service").read_text()


def test_selectors_find_their_pods_and_each_deployment_has_a_budget_that_lets_one_go():
    deployments = {m["metadata"]["name"]: m["spec"] for m in MANIFESTS if m["kind"] == "Deployment"}
    budgets = {m["metadata"]["name"]: m["spec"] for m in MANIFESTS if m["kind"] == "PodDisruptionBudget"}
    assert set(deployments) == set(budgets)
    for deployment, spec in deployments.items():
        labels = spec["template"]["metadata"]["labels"]
        assert spec["selector"]["matchLabels"] == labels == budgets[deployment]["selector"]["matchLabels"]
        budget = budgets[deployment]
        assert budget.get("maxUnavailable", spec["replicas"] - budget.get("minAvailable", 0)) >= 1
    assert len({str(spec["selector"]) for spec in deployments.values()}) == len(deployments)


def test_drains_end_before_the_processes_are_killed():
    for pod, container in containers():
        if container["name"] == "runner":
            assert pod["terminationGracePeriodSeconds"] > int(container["args"][-1])
    runner = COMPOSE["postgres"]["services"]["runner"]
    assert int(runner["stop_grace_period"].rstrip("s")) > int(runner["command"][-1])
    unit = Unit(DEPLOY / "systemd/croniq-runner.service")["Service"]
    assert int(unit["TimeoutStopSec"].rstrip("s")) > int(unit["ExecStart"].split()[-1])


def test_an_alert_that_is_being_sent_ends_before_its_process_is_killed():
    """Whoever is killed between the sending and the note of it leaves an alert that is sent once more."""
    children = {spec.name: spec.stop_seconds for spec in children_of("", 0, "", Path(), ready=None)}
    assert children["reap"] > END_SECONDS
    grace = {kind: COMPOSE[kind]["services"][of]["stop_grace_period"] for kind, of in SENDERS.items()}
    assert int(grace["sqlite"].rstrip("s")) > children["runner"] + children["reap"]
    assert int(grace["postgres"].rstrip("s")) > END_SECONDS
    (pod,) = (pod for pod, container in containers() if container["name"] == "reaper")
    assert pod["terminationGracePeriodSeconds"] > END_SECONDS
    unit = Unit(DEPLOY / "systemd/croniq-reap.service")["Service"]
    assert int(unit["TimeoutStopSec"].rstrip("s")) > END_SECONDS


def test_the_image_holds_the_whole_product_and_runs_as_nobody_in_particular():
    build, final = stages()
    copied = [source for step in build.all("COPY") for source in step.split()[:-1]]
    assert [source for source in copied if not (ROOT / source).exists()] == []
    locks = {"requirements.lock", "requirements-otel.lock"}
    assert {*PACKAGES, "locale", "templates", "static", "manage.py", *locks} <= set(copied)
    packages = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["packages"]["find"]["include"]
    assert {package.rstrip("*") for package in packages} <= set(copied)
    assert any("--require-hashes -r ${REQUIREMENTS}" in step for step in build.all("RUN"))
    assert build.variables() == {"REQUIREMENTS": "requirements.lock"}
    assert final.last("USER") == "10001:10001"
    assert not final.all("ADD")
    assert build.image == final.image == "${PYTHON_IMAGE}"
    labels = final.last("LABEL")
    assert all(f"org.opencontainers.image.{label}=" in labels for label in ("title", "licenses", "revision", "created"))
    assert final.environment()["CRONIQ_DATA_DIR"] == final.last("VOLUME") == "/data"
    python = re.search(r"python:(\d\.\d+)", (DEPLOY / "Dockerfile").read_text())[1]
    assert python in (ROOT / "docs/install.md").read_text()


def test_nothing_but_what_the_image_needs_is_sent_to_its_build():
    ignored = (DEPLOY / "Dockerfile.dockerignore").read_text().splitlines()
    rules = [line for line in ignored if line and not line.startswith("#")]
    assert rules[0] == "*"
    allowed = {rule[1:] for rule in rules if rule.startswith("!")}
    copied = {source for step in stages()[0].all("COPY") for source in step.split()[:-1]}
    assert allowed == copied
    assert not [
        place for place in ("data", ".git", "tests", ".venv") if any(fnmatch.fnmatch(place, a) for a in allowed)
    ]


NOTIFIES = [path for path in UNITS if Unit(path).get("Service", "Type", fallback="") == "notify"]


def test_the_units_that_are_watched_are_those_of_processes_that_speak():
    commands = {Unit(path)["Service"]["ExecStart"].split()[2] for path in NOTIFIES}
    assert commands == {"serve", "materialize", "reap"}
    for path in NOTIFIES:
        service = Unit(path)["Service"]
        assert (service["WatchdogSec"], service["NotifyAccess"], service["Restart"]) == ("60s", "main", "always")


@pytest.fixture
def systemd_analyze() -> str:
    found = shutil.which("systemd-analyze")
    if found is None:
        pytest.skip("systemd-analyze is not installed (apt-get install systemd): it did NOT check the unit files")
    return found


def test_systemd_takes_the_units(systemd_analyze, tmp_path):
    for path in UNITS:
        # It looks for the programs; ours are where they are here.
        text = path.read_text().replace("/opt/croniq/.venv/bin/python", sys.executable)
        (tmp_path / path.name).write_text(text)
    done = subprocess.run(
        [systemd_analyze, "verify", "--man=no", "--recursive-errors=no", *sorted(map(str, tmp_path.iterdir()))],
        capture_output=True,
        text=True,
        check=False,
    )
    ours = [line for line in done.stderr.splitlines() if "croniq" in line]
    assert (done.returncode, ours) == (0, [])


@pytest.mark.parametrize("path", NOTIFIES, ids=lambda path: path.stem)
def test_systemd_finds_the_units_well_shut(systemd_analyze, path):
    done = subprocess.run(
        [systemd_analyze, "security", "--offline=yes", "--threshold=20", "--no-pager", str(path)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr


def test_kustomize_takes_the_manifests():
    found = shutil.which("kubectl")
    if found is None:
        pytest.skip("kubectl is not installed: it did NOT put the manifests together")
    done = subprocess.run([found, "kustomize", str(DEPLOY / "kubernetes")], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("image: croniq:0.1.0") == len(containers())
    assert done.stdout.count("\nkind: ") + done.stdout.startswith("kind: ") == len(MANIFESTS)


def test_docker_compose_takes_the_compose_files():
    tool = ["docker", "compose"]
    found = shutil.which("docker") and subprocess.run([*tool, "version"], capture_output=True, check=False)
    if not found or found.returncode != 0:
        pytest.skip("docker compose is not installed: it did NOT check the compose files")
    for file in COMPOSE:
        done = subprocess.run(
            [*tool, "-f", str(DEPLOY / f"compose/{file}.yml"), "config", "-q"],
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
