"""The alert rules and the dashboard name series and labels that a real scrape has."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from datetime import datetime
from pathlib import Path

import pytest
import yaml
from django.db import connection

from scheduler.metrics import hot
from scheduler.metrics.statements import observe
from tests.factories import HeartbeatFactory, JobFactory, LaneFactory, RunFactory, RunnerInstanceFactory, TriggerFactory
from tests.scheduler.metrics.scrapes import Scrape, scraped

DEPLOY = Path(__file__).resolve().parents[3] / "deploy"
ALERTS = DEPLOY / "prometheus" / "alerts.yml"
STORIES = Path(__file__).with_name("alerts.test.yml")
DASHBOARD = DEPLOY / "grafana" / "croniq.json"

RULES = [rule for group in yaml.safe_load(ALERTS.read_text())["groups"] for rule in group["rules"]]
PANELS = json.loads(DASHBOARD.read_text())["panels"]
EXPRESSIONS = {
    **{rule["alert"]: [rule["expr"]] for rule in RULES},
    **{panel["title"]: [target["expr"] for target in panel["targets"]] for panel in PANELS},
}
METRIC = re.compile(r"\b((?:croniq|django|process)_\w+|up)(?:\{([^}]*)\})?")
MATCHER = re.compile(r"(\w+)(=~|=)\"([^\"]*)\"")
OF_PROMETHEUS = {"job", "instance", "le"}
ASKED_FOR = {
    "CroniqSchedulerSilent",
    "CroniqJobOverdue",
    "CroniqFireMissed",
    "CroniqDeadLettersRising",
    "CroniqRunnerFlapping",
    "CroniqTakeoversWithoutDeploy",
    "CroniqCapabilityWithoutRunner",
    "CroniqQueueOld",
    "CroniqReapsRising",
}


@pytest.fixture
def scrape(db, now, clock) -> Scrape:
    """One of an installation in which everything has happened; taken once, for it is only read."""
    if not _taken:
        _taken.append(_scrape_of_everything(now))
    return _taken[0]


_taken: list[Scrape] = []


def _scrape_of_everything(now: datetime) -> Scrape:
    job = JobFactory(lane=LaneFactory(require=["gpu"]))
    TriggerFactory(job=job)
    RunFactory(job=job, completed=True)
    runner = RunnerInstanceFactory().runner
    RunnerInstanceFactory.create_batch(3, runner=runner, deposed_at=now)
    for kind in ("materialize", "reap"):
        HeartbeatFactory(kind=kind, tick_at=now)
    hot.note_ended([(job.pk, "completed", 5)])
    observe(connection)
    try:
        scraped()
        return scraped()
    finally:
        connection.execute_wrappers.clear()


def test_the_alerts_that_were_asked_for_are_there():
    names = [rule["alert"] for rule in RULES]
    assert set(names) >= ASKED_FOR
    assert len(set(names)) == len(names)
    for rule in RULES:
        assert set(rule["annotations"]) == {"summary", "description"}
        assert rule["labels"]["severity"] in ("critical", "warning")


@pytest.mark.parametrize("name", EXPRESSIONS)
def test_each_series_and_label_of_an_expression_is_in_a_real_scrape(name, scrape):
    for expression in EXPRESSIONS[name]:
        found = METRIC.findall(expression)
        assert found, expression
        labels_there: set[str] = set()
        for metric, matchers in found:
            if metric == "up":  # Prometheus' own
                continue
            series = [dict(labels) for there, labels in scrape.series if there == metric]
            assert series, metric
            labels_there |= {label for labels in series for label in labels}
            for label, how, value in MATCHER.findall(matchers):
                if label in OF_PROMETHEUS:
                    continue
                for one in value.split("|") if how == "=~" else [value]:
                    assert one in {labels.get(label) for labels in series}, f"{metric}: {label} {one}"
        by = {label.strip() for names in re.findall(r"by \(([^)]*)\)", expression) for label in names.split(",")}
        assert by - OF_PROMETHEUS <= labels_there, expression


def test_what_a_sentence_of_an_alert_quotes_is_a_label_of_its_expression():
    for rule in RULES:
        quoted = set(re.findall(r"\$labels\.(\w+)", json.dumps(rule["annotations"]))) - OF_PROMETHEUS
        assert all(re.search(rf"by \([^)]*\b{label}\b", rule["expr"]) for label in quoted), rule["alert"]


def test_each_of_our_series_is_on_the_dashboard(scrape):
    shown = " ".join(expression for panel in PANELS for expression in (t["expr"] for t in panel["targets"]))
    ours = {re.sub(r"_(bucket|count|sum)$", "", name) for name, _ in scrape.ours()}
    assert {name for name in ours if name not in shown} == set()


@pytest.fixture
def promtool() -> str:
    found = shutil.which("promtool")
    if found is None:
        pytest.skip("promtool is not installed (apt-get install prometheus): it did NOT check the alert rules")
    return found


def run(*argv: str, cwd: Path) -> str:
    done = subprocess.run(argv, cwd=cwd, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_rules_are_what_prometheus_reads(promtool):
    assert f"{len(RULES)} rules found" in run(promtool, "check", "rules", str(ALERTS), cwd=DEPLOY)


def test_the_alerts_fire_when_they_should_and_not_before(promtool, tmp_path):
    for file in (ALERTS, STORIES):
        shutil.copy(file, tmp_path)
    assert "SUCCESS" in run(promtool, "test", "rules", STORIES.name, cwd=tmp_path)


def test_what_the_stories_expect_is_what_the_rules_say():
    """Also where promtool is not: a sentence that was changed in one place only is found."""
    said = {rule["alert"]: rule["annotations"]["description"] for rule in RULES}
    expected = [test for story in yaml.safe_load(STORIES.read_text())["tests"] for test in story["alert_rule_test"]]
    assert {test["alertname"] for test in expected} <= set(said)
    for test in expected:
        for alert in test["exp_alerts"]:
            assert alert["exp_annotations"]["description"] == said[test["alertname"]]
