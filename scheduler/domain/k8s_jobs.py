"""The jobs that CronJobs of Kubernetes become: schedule, policies, and the container's command or a handler."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from calendars.domain.errors import InvalidField
from calendars.domain.zones import load_zone
from croniq_site.kernel.errors import InvalidInput
from croniq_site.kernel.secret_names import VARIABLE, is_secret_name
from scheduler.domain.actions import action_of
from scheduler.domain.crontab import check_expression
from scheduler.domain.imports import Draft, NotTaken, Remark
from scheduler.domain.job_fields import job_key_of
from scheduler.domain.k8s import Manifest, Part

PREFIX = "k8s"
TAGS = ["k8s"]
BACKOFF_LIMIT = 6
"""Kubernetes' own default."""

AS_KUBERNETES = {
    "timeout": "24h",
    "max_losses": 0,  # a pod that is lost is counted as one that failed
    "catch_up": "latest",
    "retry": {"strategy": "exponential", "base": "10s", "cap": "6m", "jitter": 0},
}

_EXPANDED = re.compile(r"\$\$|\$\(([^)]*)\)")
_GO_DURATION = re.compile(r"(\d+(?:\.\d*)?|\.\d+)(h|ms|m|s|us|µs|ns)", re.ASCII)
_UNITS = {"h": 3600, "m": 60, "s": 1, "ms": Decimal("1e-3"), "us": Decimal("1e-6"), "µs": Decimal("1e-6")}
_LEFT_OUT = {
    *("affinity", "nodeName", "nodeSelector", "priorityClassName", "resources", "runtimeClassName", "securityContext"),
    *("serviceAccount", "serviceAccountName", "tolerations", "topologySpreadConstraints"),
}


@dataclass(frozen=True, slots=True)
class Options:
    """``handler``: a runner's own code does the work, not a command. ``replace_as``: the overlap that stands for the
    policy Replace, which there is none for; None: its CronJobs are not taken. ``first``: further fields of new jobs."""

    prefix: str = PREFIX
    namespace: str = "default"
    timezone: str = "UTC"
    handler: bool = False
    replace_as: str | None = None
    first: Mapping[str, Any] = field(default_factory=dict)


def draft_of(manifest: Manifest, options: Options) -> tuple[Draft, list[Remark]]:
    """The CronJob as a job, and what is worth saying about it. Raises NotTaken and InvalidInput with the reason."""
    body = manifest.body
    metadata, spec = body.part("metadata"), body.part("spec")
    namespace, name = metadata.text("namespace") or options.namespace, metadata.text("name")
    if not name:
        raise NotTaken("it has no name")
    job_key = job_key_of("metadata.name", f"{options.prefix}:{namespace}:{name}")
    template = spec.part("jobTemplate").part("spec")
    pod = template.part("template").part("spec")
    schedule = schedule_of(spec, options.timezone)
    first = {
        **AS_KUBERNETES,
        **_policies(spec, template, pod, options),
        "description": f"CronJob {namespace}/{name}",
        "tags": TAGS,
        **options.first,
    }
    if options.handler:
        fields, what, reasons = {"metadata": _told(pod)}, "a handler", []
    else:
        action, reasons = _command(pod)
        fields, what = {"action": action}, shlex.join(action["argv"])
    reasons += _left_out(pod)
    notes = [Remark(manifest.where, f"{namespace}/{name}", reason) for reason in reasons]
    return Draft(job_key, manifest.where, f"{namespace}/{name}: {what}", fields, schedule, first), notes


def schedule_of(spec: Part, default_zone: str) -> dict[str, Any]:
    """The schedule as the controller reads it (robfig/cron): five fields, ``@daily``, ``@every 90m``; ``TZ=`` first."""
    text, zone = spec.text("schedule").strip(), spec.text("timeZone")
    match = re.match(r"(?:CRON_)?TZ=(\S*)\s+", text)
    if match:
        if zone:
            raise NotTaken("spec.schedule has a TZ= and spec.timeZone is set too, which Kubernetes does not take")
        text, zone = text[match.end() :], match[1]
    if text.startswith("@every "):
        return {"every": f"{_go_seconds(text.removeprefix('@every ').strip())}s"}
    expression = _expression(text)
    for _ in check_expression(expression):
        pass  # what crons do not agree on, this one reads as we do
    try:
        return {"cron_expression": expression, "timezone": load_zone(zone or default_zone).name}
    except InvalidField as refused:
        raise NotTaken(f"spec.timeZone: {refused.message}") from refused


def _expression(text: str) -> str:
    if text.startswith("@"):
        return text
    fields = [field.replace("?", "*") for field in text.split()]
    if len(fields) != 5:
        raise NotTaken(f"spec.schedule has {len(fields)} fields, not five")
    # Either day matches, unless one of them is any. A step is not any there, though it is here: */2 is then 1-31/2.
    fields = ["*" if {"*", "*/1"} & set(field.split(",")) else field for field in fields]
    if "*" not in (fields[2], fields[4]):
        fields[2] = re.sub(r"(^|,)\*/", r"\g<1>1-31/", fields[2])
        fields[4] = re.sub(r"(^|,)\*/", r"\g<1>0-6/", fields[4])
    return " ".join(fields)


def _go_seconds(text: str) -> int:
    """Whole seconds, one at least, as the controller rounds them."""
    parts = _GO_DURATION.findall(text)
    if not parts or "".join(number + unit for number, unit in parts) != text or len(text) > 32:
        raise NotTaken(f"@every {text[:32]!r} is no duration such as 1h30m")
    return max(1, int(sum(Decimal(number) * _UNITS.get(unit, 0) for number, unit in parts)))


def _policies(spec: Part, template: Part, pod: Part, options: Options) -> dict[str, Any]:
    for name in ("parallelism", "completions"):
        if (template.number(name) or 1) > 1:
            raise NotTaken(f"spec.jobTemplate.spec.{name} is above 1, and a run is done by one runner")
    policy = spec.text("concurrencyPolicy") or "Allow"
    overlap = {"Allow": "parallel", "Forbid": "skip", "Replace": options.replace_as}.get(policy)
    if overlap is None:
        reason = "nothing ends a run because the next one is due; say --replace-as skip or queue_one"
        raise NotTaken(f"concurrencyPolicy {policy}: {reason if policy == 'Replace' else 'there is no such policy'}")
    policies: dict[str, Any] = {"overlap": overlap, "is_active": not spec.flag("suspend")}
    backoff_limit = template.number("backoffLimit")
    policies["max_retries"] = BACKOFF_LIMIT if backoff_limit is None else backoff_limit
    deadlines = [limit for limit in map(_deadline, (template, pod)) if limit is not None]
    if deadlines:
        policies["timeout"] = min(deadlines)
    if spec.number("startingDeadlineSeconds") is not None:
        policies["misfire_grace"] = spec.number("startingDeadlineSeconds")
    return policies


def _deadline(part: Part) -> int | None:
    return part.number("activeDeadlineSeconds")


def _told(pod: Part) -> dict[str, Any]:
    """What a handler is told: the containers, without their environment, which may hold what is nobody's business."""
    containers = [
        {key: value for key, value in zip(("name", "image", "command", "args"), texts, strict=True) if value}
        for texts in (
            (c.text("name"), c.text("image"), c.texts("command"), c.texts("args")) for c in pod.parts("containers")
        )
    ]
    return {"containers": containers}


def _command(pod: Part) -> tuple[dict[str, Any], list[str]]:
    containers = pod.parts("containers")
    if "initContainers" in pod or len(containers) != 1:
        raise NotTaken("it has several containers, and a command is one process; split it, or import it with --handler")
    (container,) = containers
    image = container.text("image")
    argv = container.texts("command")
    if not argv:
        raise NotTaken(f"its command is that of the image {image!r}, which a runner does not start; see --handler")
    for name in ("volumeMounts", "volumeDevices", "envFrom"):
        if name in container:
            raise NotTaken(f"the container has {name}, which a runner does not know; see --handler")
    env, secrets = _environment(container)
    action: dict[str, Any] = {"type": "command"}
    action["argv"] = [_expand(word, env, "the command") for word in [*argv, *container.texts("args")]]
    action |= {"env": env, "cwd": container.text("workingDir")}
    reasons = [f"the command runs on the machine of the runner, not in the image {image!r}"] if image else []
    return action_of("action", action), reasons + secrets


def _environment(container: Part) -> tuple[dict[str, Any], list[str]]:
    env: dict[str, Any] = {}
    reasons = []
    for variable in container.parts("env"):
        name, source = variable.text("name"), variable.part("valueFrom")
        if "valueFrom" not in variable:
            env[name] = _expand(variable.text("value"), env, name)
            continue
        reference = source.part("secretKeyRef")
        if "secretKeyRef" not in source or not reference.text("name") or not reference.text("key"):
            raise NotTaken(f"the variable {name} comes from {', '.join(source.value)}, which is not here")
        secret = secret_name(reference.text("name"), reference.text("key"))
        env[name] = {"secret": secret}
        reasons.append(f"the variable {name} is the secret {secret!r}: give the runner {VARIABLE}{secret}, or …_FILE")
    return env, reasons


def secret_name(secret: str, key: str) -> str:
    """The name under which a runner has the key of a Kubernetes secret: ``DB_PASSWORD`` of ``db`` and ``password``."""
    name = re.sub(r"[^A-Z0-9]", "_", f"{secret}_{key}".upper())[:99]
    name = name if not name[:1].isdigit() else "_" + name[:98]
    return name if is_secret_name(name) else name + "_"


def _expand(text: str, env: Mapping[str, Any], where: str) -> str:
    """Put values for ``$(NAME)``, as the kubelet does: what is not known stays, ``$$`` is a ``$``."""

    def value(match: re.Match[str]) -> str:
        if match[0] == "$$":
            return "$"
        found = env.get(match[1], match[0])
        if not isinstance(found, str):
            raise NotTaken(f"{where} has the secret of $({match[1]}) within a text; make the whole text one secret")
        return found

    return _EXPANDED.sub(value, text)


def _left_out(pod: Part) -> list[str]:
    names = {
        name for part in (pod, *pod.parts("containers")) for name in part.value if name in _LEFT_OUT and name in part
    }
    return [f"left out: {', '.join(sorted(names))}"] if names else []


def drafts_of(manifests: list[Manifest], options: Options) -> tuple[list[Draft], list[Remark], list[Remark]]:
    """The jobs, what could not be taken, and what is worth saying. Of two of one name the first counts."""
    drafts: dict[str, Draft] = {}
    refused: list[Remark] = []
    notes: list[Remark] = []
    for manifest in manifests:
        name = ""
        try:
            name = manifest.body.part("metadata").text("name")
            draft, remarks = draft_of(manifest, options)
            if draft.job_key in drafts:
                raise NotTaken(f"there is a CronJob of this name already ({drafts[draft.job_key].where})")
        except (NotTaken, InvalidInput, InvalidField) as error:
            refused.append(Remark(manifest.where, name, str(error)))
            continue
        drafts[draft.job_key] = draft
        notes += remarks
    return list(drafts.values()), refused, notes
