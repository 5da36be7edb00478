"""CronJobs of Kubernetes: what a manifest says is what the job does, and what cannot be is said."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from scheduler.domain.imports import Draft
from scheduler.domain.k8s import MOST_BYTES, Part, manifests
from scheduler.domain.k8s_jobs import Options, drafts_of, schedule_of, secret_name
from scheduler.domain.schedules import CronSchedule, fires

KUBECTL = Path(__file__).parents[1] / "cases" / "k8s" / "kubectl.yaml"
MONDAY = datetime(2026, 3, 2, tzinfo=UTC)


class Plain(yaml.SafeDumper):
    """Writes what is there twice twice, as kubectl does."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def cron_job(
    *, spec: Any = None, template: Any = None, pod: Any = None, container: Any = None, **metadata: Any
) -> dict:
    """A CronJob that can be taken, with more or other members."""
    container = {"name": "c", "image": "i", "command": ["true"], **(container or {})}
    pod = {"containers": [container], "restartPolicy": "Never", **(pod or {})}
    template = {"template": {"spec": pod}, **(template or {})}
    spec = {"schedule": "5 4 * * *", "jobTemplate": {"spec": template}, **(spec or {})}
    return {"apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"name": "x", **metadata}, "spec": spec}


def read(*documents: Any, **options: Any) -> tuple[list[Draft], list[str], list[str]]:
    """The jobs, the reasons and the notes of documents that have gone through YAML."""
    found, unread, others = manifests(yaml.dump_all(documents, Dumper=Plain).encode(), "f")
    drafts, refused, notes = drafts_of(found, Options(**options))
    return drafts, [r.reason for r in unread + refused], [f"{n.what}: {n.reason}" for n in others + notes]


def taken(document: dict, **options: Any) -> Draft:
    drafts, refused, _ = read(document, **options)
    assert refused == []
    return drafts[0]


def reason(document: Any, **options: Any) -> str:
    drafts, (refused,), _ = read(document, **options)
    assert drafts == []
    return refused


def test_what_kubectl_prints_is_read() -> None:
    found, refused, notes = manifests(KUBECTL.read_bytes(), "kubectl.yaml")
    assert (refused, notes) == ([], [])
    (backup, ping), refused, notes = drafts_of(found, Options())
    assert (backup.job_key, ping.job_key) == ("k8s:ops:backup", "k8s:web:ping")
    assert backup.schedule == {"cron_expression": "30 2 * * *", "timezone": "Europe/Vienna"}
    assert backup.fields == {
        "action": {
            "type": "command",
            "argv": ["pg_dump", "-Fc", "--db=app", "$(UNKNOWN) $(DB_NAME)"],
            "cwd": "/backup",
            "env": {"DB_NAME": "app", "PGPASSWORD": {"secret": "DB_CREDENTIALS_PASSWORD"}, "DUMP": "/backup/app.dump"},
        }
    }
    assert backup.first == {
        "timeout": 7200,
        "max_retries": 2,
        "max_losses": 0,
        "misfire_grace": 600,
        "catch_up": "latest",
        "overlap": "skip",
        "is_active": True,
        "retry": {"strategy": "exponential", "base": "10s", "cap": "6m", "jitter": 0},
        "description": "CronJob ops/backup",
        "tags": ["k8s"],
    }
    assert ping.schedule == {"every": "5400s"}
    assert (ping.first["overlap"], ping.first["is_active"], ping.first["max_retries"]) == ("parallel", False, 6)
    assert [(r.where, r.what) for r in refused] == [("kubectl.yaml, document 1, item 3", "entrypoint")]
    assert "that of the image 'example.org/report:7'" in refused[0].reason
    assert [n.reason for n in notes if n.what == "ops/backup"] == [
        "the command runs on the machine of the runner, not in the image 'postgres:17'",
        "the variable PGPASSWORD is the secret 'DB_CREDENTIALS_PASSWORD': "
        "give the runner CRONIQ_SECRET_DB_CREDENTIALS_PASSWORD, or …_FILE",
        "left out: resources, serviceAccountName",
    ]


def test_documents_lists_and_json_are_read_and_other_kinds_are_named() -> None:
    drafts, refused, notes = read(
        None,
        cron_job(name="a"),
        {"kind": "ConfigMap", "metadata": {"name": "m"}},
        {"kind": "CronJobList", "items": [cron_job(name="b"), cron_job(name="a", namespace="n")]},
        {"kind": "List", "items": None},
    )
    assert [draft.job_key for draft in drafts] == ["k8s:default:a", "k8s:default:b", "k8s:n:a"]
    assert drafts[2].where == "f, document 4, item 2"
    assert refused == []
    assert notes[0] == "ConfigMap m: it is no CronJob"
    found, _, _ = manifests(b'{"apiVersion": "batch/v1beta1", "kind": "CronJob", "metadata": {}, "spec": {}}', "f")
    assert len(found) == 1


def test_prefix_namespace_and_further_fields_are_the_options() -> None:
    draft = taken(cron_job(), prefix="p", namespace="n", timezone="Asia/Tokyo", first={"pin": "r"})
    assert (draft.job_key, draft.first["pin"], draft.schedule["timezone"]) == ("p:n:x", "r", "Asia/Tokyo")


def test_of_two_of_one_name_the_first_is_taken() -> None:
    drafts, refused, _ = read(cron_job(spec={"schedule": "1 * * * *"}), cron_job(spec={"schedule": "2 * * * *"}))
    assert drafts[0].schedule["cron_expression"] == "1 * * * *"
    assert refused == ["there is a CronJob of this name already (f, document 1)"]


@pytest.mark.parametrize(
    ("schedule", "zone", "becomes"),
    [
        ("0 3 * * *", None, ("0 3 * * *", "Europe/Berlin")),
        ("0 3 * * *", "Asia/Tokyo", ("0 3 * * *", "Asia/Tokyo")),
        ("TZ=Asia/Tokyo 0 3 * * *", None, ("0 3 * * *", "Asia/Tokyo")),
        ("CRON_TZ=Asia/Tokyo  0 3 * * *", None, ("0 3 * * *", "Asia/Tokyo")),
        ("@daily", None, ("@daily", "Europe/Berlin")),
        ("*/5 0-6 ? JAN,mar mon-fri", None, ("*/5 0-6 * JAN,mar mon-fri", "Europe/Berlin")),
        ("0 0 */2 * 1", None, ("0 0 1-31/2 * 1", "Europe/Berlin")),
        ("0 0 1 * */2", None, ("0 0 1 * 0-6/2", "Europe/Berlin")),
        ("0 0 */2 * *", None, ("0 0 */2 * *", "Europe/Berlin")),
        ("0 0 5,*/10 * */3", None, ("0 0 5,1-31/10 * 0-6/3", "Europe/Berlin")),
        ("0 0 */1 * 1", None, ("0 0 * * 1", "Europe/Berlin")),
        ("0 0 1,? * 1", None, ("0 0 * * 1", "Europe/Berlin")),
    ],
)
def test_schedules_are_those_of_the_controller(schedule: str, zone: str | None, becomes: tuple[str, str]) -> None:
    spec = {"schedule": schedule} | ({"timeZone": zone} if zone else {})
    found = taken(cron_job(spec=spec), timezone="Europe/Berlin").schedule
    assert (found["cron_expression"], found["timezone"]) == becomes


def robfig_days(expression: str) -> list[int]:
    """Days of March 2026 on which robfig/cron v3 runs: spec.go's dayMatches, its star bits by parser.go's getRange."""
    _, _, month_day, _, weekday = expression.split()

    def bits(field: str, low: int, high: int) -> tuple[set[int], bool]:
        values, is_star = set(), False
        for item in field.split(","):
            span, _, step = item.partition("/")
            if span in ("*", "?"):
                begin, end = low, high
                is_star |= int(step or 1) == 1
            else:
                begin, _, end = span.partition("-")
                begin, end = int(begin), int(end or (high if step else begin))
            values |= set(range(begin, end + 1, int(step or 1)))
        return values, is_star

    (days, any_day), (weekdays, any_weekday) = bits(month_day, 1, 31), bits(weekday, 0, 6)
    both = any_day or any_weekday
    return [
        day
        for day in range(1, 32)
        for match in ((day in days, (MONDAY.replace(day=day).isoweekday() % 7) in weekdays),)
        if (all(match) if both else any(match))
    ]


FIELD = st.sampled_from(["*", "?", "*/1", "*/2", "*/3", "1", "5", "2-4", "1-5/2", "3,*/4", "*/2,6", "2,*", "4/2"])


@given(month_day=FIELD, weekday=FIELD)
def test_days_are_those_of_the_controller(month_day: str, weekday: str) -> None:
    expression = f"0 0 {month_day} * {weekday}"
    schedule = CronSchedule(schedule_of(Part({"schedule": expression}), "UTC")["cron_expression"], "UTC")
    found = fires(schedule, after=MONDAY.replace(day=1) - timedelta(seconds=1), until=MONDAY.replace(day=31))
    assert [fire.at.day for fire in found] == robfig_days(expression)


@pytest.mark.parametrize(
    ("text", "every"), [("90s", "90s"), ("1h30m10s", "5410s"), ("1.5h", "5400s"), ("1500ms", "1s"), ("10us", "1s")]
)
def test_durations_are_those_of_go(text: str, every: str) -> None:
    assert taken(cron_job(spec={"schedule": f"@every {text}"})).schedule == {"every": every}


@pytest.mark.parametrize(
    ("document", "says"),
    [
        (cron_job(spec={"schedule": "@every soon"}), "no duration"),
        (cron_job(spec={"schedule": "@reboot"}), "@reboot"),
        (cron_job(spec={"schedule": "* * * *"}), "4 fields, not five"),
        (cron_job(spec={"schedule": "0 0 3 * * *"}), "6 fields, not five"),
        (cron_job(spec={"schedule": "0 0 L * *"}), "'L' in the day-of-month field"),
        (cron_job(spec={"schedule": "H * * * *"}), "'H' in the minute field"),
        (cron_job(spec={"schedule": "61 * * * *"}), "61 is not in 0-59"),
        (cron_job(spec={"schedule": "0 0 31 2 *"}), "31"),
        (cron_job(spec={"schedule": None}), "0 fields"),
        (cron_job(spec={"schedule": 5}), "spec.schedule is not a text"),
        (cron_job(spec={"timeZone": "Europe/Berln"}), "spec.timeZone: There is no time zone 'Europe/Berln'"),
        (cron_job(spec={"timeZone": "UTC", "schedule": "TZ=UTC 0 0 * * *"}), "does not take"),
        (cron_job(spec={"concurrencyPolicy": "Replace"}), "--replace-as"),
        (cron_job(spec={"concurrencyPolicy": "Maybe"}), "there is no such policy"),
        (cron_job(spec={"suspend": "no"}), "spec.suspend is not true or false"),
        (cron_job(spec={"startingDeadlineSeconds": 1.5}), "startingDeadlineSeconds is not a whole number"),
        (cron_job(template={"completions": 2}), "completions is above 1"),
        (cron_job(template={"parallelism": 3}), "parallelism is above 1"),
        (cron_job(template={"backoffLimit": True}), "backoffLimit is not a whole number"),
        (cron_job(pod={"containers": []}), "several containers"),
        (cron_job(pod={"containers": [{"command": ["a"]}] * 2}), "several containers"),
        (cron_job(pod={"containers": ["a"]}), "containers[0] is not an object"),
        (cron_job(pod={"containers": {"a": 1}}), "containers is not a list"),
        (cron_job(pod={"initContainers": [{"name": "i"}]}), "several containers"),
        (cron_job(container={"command": None, "args": ["x"]}), "that of the image 'i'"),
        (cron_job(container={"command": ["sleep", 5]}), "command is not a list of texts"),
        (cron_job(container={"volumeMounts": [{"name": "v"}]}), "the container has volumeMounts"),
        (cron_job(container={"envFrom": [{"secretRef": {"name": "s"}}]}), "the container has envFrom"),
        (cron_job(container={"env": [{"name": "A", "value": 5}]}), "env[0].value is not a text"),
        (cron_job(container={"env": [{"name": "a.b", "value": "c"}]}), "'a.b' is no name"),
        (
            cron_job(container={"env": [{"name": "A", "valueFrom": {"configMapKeyRef": {"name": "m", "key": "k"}}}]}),
            "the variable A comes from configMapKeyRef",
        ),
        (
            cron_job(
                container={
                    "env": [
                        {"name": "P", "valueFrom": {"secretKeyRef": {"name": "m", "key": "k"}}},
                        {"name": "URL", "value": "postgres://u:$(P)@h"},
                    ]
                }
            ),
            "URL has the secret of $(P) within a text",
        ),
        (cron_job(name=None), "it has no name"),
        (cron_job(name="a/b"), "job key"),
        (cron_job() | {"apiVersion": "v1"}, "a CronJob of 'v1'"),
        (cron_job() | {"spec": ["a"]}, "spec is not an object"),
        (cron_job() | {"metadata": {5: 6}}, "metadata is not an object"),
        ("text", "it is not an object"),
        ([1], "it is not an object"),
    ],
    ids=str,
)  # fmt: skip
def test_what_cannot_be_taken_says_why(document: Any, says: str) -> None:
    assert says in reason(document)


def test_replace_is_taken_as_the_rule_that_was_asked_for() -> None:
    document = cron_job(spec={"concurrencyPolicy": "Replace"})
    assert taken(document, replace_as="queue_one").first["overlap"] == "queue_one"


def test_the_shorter_deadline_counts() -> None:
    assert (
        taken(cron_job(template={"activeDeadlineSeconds": 9}, pod={"activeDeadlineSeconds": 5})).first["timeout"] == 5
    )


def test_a_handler_is_told_of_the_containers_and_of_no_environment() -> None:
    several = {
        "containers": [{"name": "a", "image": "i", "args": ["x"], "env": [{"name": "P", "value": "hidden"}]}] * 2
    }
    draft = taken(cron_job(pod=several), handler=True)
    told = {"name": "a", "image": "i", "args": ["x"]}
    assert draft.fields == {"metadata": {"containers": [told, told]}}
    assert "hidden" not in repr(draft)


@pytest.mark.parametrize(
    ("secret", "key", "name"),
    [
        ("db", "password", "DB_PASSWORD"),
        ("my-db.prod", "tls.key", "MY_DB_PROD_TLS_KEY"),
        ("1st", "a", "_1ST_A"),
        ("config", "file", "CONFIG_FILE_"),
    ],
)
def test_secrets_have_names_that_a_runner_can_have(secret: str, key: str, name: str) -> None:
    assert secret_name(secret, key) == name


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"a: [", "line 2: it is no YAML"),
        (b"\xff\xfe\x00", "it is no YAML"),
        (b"a: 2026-99-99", "it is no YAML"),
        (b"a: !!python/object/apply:os.system [id]", "it is no YAML"),
        (b"? [a]\n: b", "it is no YAML"),
        (b"a: &x [1]\nb: *x", "line 2: aliases of YAML (*x) are not read"),
        (b"[" * 101, "line 1: it is nested deeper than 100 levels"),
        (b"[" * 200_000, "nest"),
        (b"a: b\n" * (MOST_BYTES // 5 + 1), "it has more than 8388608 bytes"),
    ],
    ids=lambda value: str(value)[:20],
)
def test_a_file_that_cannot_be_read_is_a_reason(data: bytes, says: str) -> None:
    found, (refused,), _ = manifests(data, "f")
    assert (found, refused.where) == ([], "f")
    assert says in refused.reason


NAMES = st.sampled_from(
    ["spec", "metadata", "name", "schedule", "jobTemplate", "template", "containers", "env", "value"]
)
LEAVES = st.none() | st.booleans() | st.integers() | st.text(max_size=5)
ANYTHING = st.recursive(LEAVES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=4))


@given(ANYTHING)
def test_whatever_a_manifest_is_it_is_taken_or_refused_with_a_reason(value: Any) -> None:
    document = value if isinstance(value, dict) else {"spec": value}
    for handler in (False, True):
        drafts, refused, _ = read({"apiVersion": "batch/v1", "kind": "CronJob", **document}, handler=handler)
        assert len(drafts) + len(refused) == 1
        assert all(refused)
