"""The mutation harness, tried on a tiny project whose mechanisms and tests are known."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from tests.mutations import __main__ as command
from tests.mutations.docs import BEGIN, END, page_with_table
from tests.mutations.harness import Baseline, BaselineError, Harness
from tests.mutations.record import Edit, Mutation, duplicate_names, problems
from tests.mutations.scratch import copy_tree, tree_files
from tests.mutations.suite import SuiteRun, end_leftovers
from tests.mutations.verdict import ERROR, HANG, MISSED, OK, Verdict, judge, not_green
from tests.support.polling import poll_until

ROOT = Path(command.__file__).resolve().parents[2]

MECHANISM = """\
import threading

LIMIT = 3


def admit(n):
    if n >= LIMIT:
        return False
    return True


def name(text):
    return text.strip()


def wait(event):
    event.set()
    event.wait()
"""
TESTS = """\
import threading

import pytest

import mechanism


@pytest.fixture
def admitted():
    assert mechanism.admit(0)
    return True


@pytest.mark.parametrize("n", [2, 3])
def test_limit(n):
    assert mechanism.admit(n) == (n < 3)


def test_admits(admitted):
    assert admitted


def test_returns():
    mechanism.wait(threading.Event())


@pytest.mark.realtime
def test_limit_for_long():
    assert not mechanism.admit(4)
"""
FILES = {
    "mechanism.py": MECHANISM,
    "test_sample.py": TESTS,
    "pytest.ini": "[pytest]\naddopts = --import-mode=importlib\nmarkers = realtime: slow\n",
}
GUARD_REMOVED = {"file": "mechanism.py", "old": "if n >= LIMIT:", "new": "if False:"}
ENDLESS = Mutation(
    name="endless",
    mechanism="The wait ends.",
    file="mechanism.py",
    old="    event.set()\n",
    new="",
    red=["test_sample.py::test_returns"],
)
TEST = "test_sample.py::test_limit"


def sample_project(folder: Path, **changed: str) -> Path:
    files = FILES | {f"{name}.py": text for name, text in changed.items()}
    folder.mkdir()
    for name, text in files.items():
        (folder / name).write_text(text)
    return folder


def harness_of(root: Path, **options) -> Harness:
    quick = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}  # the sample needs none, and loading them takes a second
    return Harness(root, {"sqlite": lambda number: quick}, files=sorted(p.name for p in root.iterdir()), **options)


def mutation(name: str = "limit", **fields) -> Mutation:
    return Mutation(**{"name": name, "mechanism": "A limit.", "red": [TEST], **GUARD_REMOVED, **fields})


@pytest.fixture(scope="module")
def project(tmp_path_factory) -> Path:
    return sample_project(tmp_path_factory.mktemp("sample") / "project")


@pytest.fixture(scope="module")
def verdicts(project) -> dict[str, Verdict]:
    """The sample's records, proved by one invocation of the harness."""
    records = [
        mutation("limit"),
        mutation("limit-for-long", realtime=["test_sample.py::test_limit_for_long"]),
        mutation("nobody-checks", file="mechanism.py", old="text.strip()", new="text"),
        mutation("set-up-only", old="return True", new="return n > 0", red=["test_sample.py::test_admits"]),
        mutation("no-import", old="LIMIT = 3", new="raise ImportError"),
        mutation("stale", old="if n > LIMIT:"),
    ]
    with harness_of(project, jobs=2) as harness:
        return {verdict.name: verdict for verdict in harness.prove(records)}


def test_a_mechanism_whose_removal_turns_its_test_red_is_proved(verdicts):
    assert verdicts["limit"].status == OK
    assert verdicts["limit"].other_reds == ()


def test_a_named_realtime_test_is_run_in_addition(verdicts):
    assert verdicts["limit-for-long"].status == OK
    assert verdicts["limit-for-long"].other_reds == ()


def test_a_mechanism_that_no_test_misses_is_reported(verdicts):
    assert verdicts["nobody-checks"].status == MISSED
    assert TEST in verdicts["nobody-checks"].details[0]


def test_a_failing_set_up_proves_nothing(verdicts):
    assert verdicts["set-up-only"].status == MISSED
    assert "error" in verdicts["set-up-only"].details[0]


def test_code_that_does_not_import_is_an_error_of_the_record(verdicts):
    assert verdicts["no-import"].status == ERROR
    assert "does not import" in verdicts["no-import"].details[0]


def test_a_record_whose_text_is_missing_is_an_error_and_ends_no_other(verdicts):
    assert verdicts["stale"].status == ERROR
    assert "occurs 0 times in mechanism.py" in verdicts["stale"].details[0]


def test_only_the_named_tests_run_where_that_is_asked_for(tmp_path):
    root = sample_project(tmp_path / "project", test_other="def test_red():\n    assert False\n")
    records = [
        mutation("limit", realtime=["test_sample.py::test_limit_for_long"]),
        mutation("stale", old="if n > LIMIT:"),
    ]
    with harness_of(root, only_named=True) as harness:
        assert [verdict.status for verdict in harness.prove(records)] == [OK, ERROR]
    with harness_of(root) as harness, pytest.raises(BaselineError):
        harness.prove(records)


def test_the_tree_itself_is_left_as_it_was(project, verdicts):
    assert {p.name: p.read_text() for p in project.iterdir()} == FILES


def test_a_hang_is_reported_as_one_and_killed(project):
    with harness_of(project) as harness:
        verdict = harness.carry_out(ENDLESS, Baseline({}, fast_limit_seconds=3, realtime_limit_seconds=3))
    assert verdict.status == HANG
    assert verdict.details[0].startswith("sqlite: not done after 3 s, in ")
    assert verdict.seconds < 60


def test_an_interrupt_leaves_nothing_running_and_nothing_behind(project, tmp_path):
    # A shell starts what it puts in the background deaf to Ctrl-C; this process is to hear it wherever the tests run.
    code = """
import signal
import sys
from pathlib import Path
from tests.mutations.harness import Baseline
from tests.mutations.test_harness import ENDLESS, harness_of

signal.signal(signal.SIGINT, signal.default_int_handler)
with harness_of(Path(sys.argv[1])) as harness:
    harness.carry_out(ENDLESS, Baseline({}, 100, 100))
"""
    process = subprocess.Popen(
        [sys.executable, "-c", code, str(project)],
        cwd=ROOT,
        env={**os.environ, "TMPDIR": str(tmp_path), "PYTHONPATH": str(ROOT)},
        stderr=subprocess.DEVNULL,
    )
    try:
        poll_until(
            lambda: any("test_returns" in report.read_text() for report in tmp_path.glob("cqm-*/*/f/report.jsonl")), 60
        )
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=30) != 0
    finally:
        process.kill()
        process.wait()
        for home in tmp_path.glob("cqm-*/*/f"):
            end_leftovers(home)
    assert list(tmp_path.iterdir()) == []


def test_a_red_suite_without_a_mutation_stops_everything(tmp_path):
    root = sample_project(tmp_path / "red", mechanism=MECHANISM.replace("LIMIT = 3", "LIMIT = 4"))
    with harness_of(root) as harness, pytest.raises(BaselineError, match=r"test_limit\[3\]"):
        harness.prove([mutation()])


def test_code_from_outside_the_copy_stops_everything(tmp_path):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "mechanism.py").write_text(MECHANISM)
    root = sample_project(tmp_path / "shadowed", conftest=f"import sys\nsys.path.insert(0, {str(elsewhere)!r})\n")
    with harness_of(root) as harness, pytest.raises(BaselineError, match="mechanism"):
        harness.prove([mutation()])


@pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="only Linux tells the environment of a process")
def test_a_process_that_a_test_left_in_a_session_of_its_own_is_ended(tmp_path):
    started = tmp_path / "started"
    leaves = f"""
import pathlib, subprocess, sys

def test_leaves_a_process():
    child = [sys.executable, "-c", "import signal; signal.pause()"]
    process = subprocess.Popen(child, start_new_session=True)
    pathlib.Path({str(started)!r}).write_text(str(process.pid))
    process.returncode = 0  # nobody waits for it
"""
    root = sample_project(tmp_path / "leaves", test_leaves=leaves)
    with harness_of(root) as harness:
        harness.baseline([])
    pid = started.read_text()
    poll_until(lambda: is_dead(pid), what="the end of the process that was left")


def is_dead(pid: str) -> bool:
    """Say whether the process is gone, or a zombie until whoever adopted it looks."""
    try:
        return "\nState:\tZ" in Path("/proc", pid, "status").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return True


RED = SuiteRun(outcomes={f"{TEST}[2]": "passed", f"{TEST}[3]": "failed"}, seconds=1, finished=1)
GREEN = SuiteRun(outcomes={f"{TEST}[2]": "passed", f"{TEST}[3]": "passed"}, seconds=1, finished=0)


@pytest.mark.parametrize(
    ("run", "status"),
    [
        pytest.param(RED, OK, id="red"),
        pytest.param(GREEN, MISSED, id="green"),
        pytest.param(replace(RED, timed_out=True), HANG, id="red before another test hung"),
        pytest.param(replace(RED, finished=None, running="t.py::test_b"), HANG, id="the process ended in the middle"),
        pytest.param(SuiteRun({}, 1), ERROR, id="no test ran"),
        pytest.param(replace(RED, finished=3), ERROR, id="pytest failed itself"),
        pytest.param(replace(RED, collect_errors=("x.py",)), ERROR, id="a file did not import"),
        pytest.param(replace(RED, foreign=("mechanism",)), ERROR, id="another tree was tested"),
        pytest.param(SuiteRun({"other": "failed"}, 1, finished=1), ERROR, id="the named test did not run"),
        pytest.param(SuiteRun({TEST: "error"}, 1, finished=1), MISSED, id="only its set-up failed"),
        pytest.param(SuiteRun({TEST: "skipped"}, 1, finished=1), MISSED, id="skipped"),
    ],
)
def test_only_a_failed_named_test_of_a_finished_run_is_a_proof(run, status):
    assert judge(mutation(), {"sqlite": run}).status == status


def test_each_named_test_must_be_red_on_each_database_of_the_record():
    runs = {"sqlite": GREEN, "postgresql": RED}
    assert judge(mutation(), runs).status == MISSED
    assert judge(mutation(database="sqlite"), runs).status == MISSED
    assert judge(mutation(database="postgresql"), runs).status == OK
    both = SuiteRun({TEST: "failed", "t.py::test_b": "passed"}, 1, finished=1)
    assert judge(mutation(red=[TEST, "t.py::test_b"]), {"sqlite": both}).status == MISSED


def test_other_reds_are_noted_and_do_not_decide():
    run = replace(RED, outcomes={**RED.outcomes, "t.py::test_b": "failed"})
    verdict = judge(mutation(), {"sqlite": run})
    assert (verdict.status, verdict.other_reds) == (OK, ("t.py::test_b",))


def test_a_test_that_did_not_pass_before_the_mutation_cannot_prove_it():
    skipped = SuiteRun({TEST: "skipped"}, 1, finished=0)
    assert not_green(mutation(), {"sqlite": GREEN}) == []
    assert len(not_green(mutation(), {"sqlite": skipped, "postgresql": GREEN})) == 1
    assert not_green(mutation(database="postgresql"), {"sqlite": skipped, "postgresql": GREEN}) == []


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"name": "Limit"}, "kebab-case"),
        ({"mechanism": ""}, "one sentence"),
        ({"database": "mysql"}, "not both, sqlite or postgresql"),
        ({"red": []}, "names no test"),
        ({"red": ["test_sample.py::test_limits"]}, "no test test_sample.py::test_limits"),
        ({"red": ["test_other.py::test_limit"]}, "no test test_other.py::test_limit"),
        ({"file": ""}, "no edit"),
        ({"file": "other.py"}, "does not exist"),
        ({"old": "return"}, "occurs 3 times"),
        ({"old": ""}, "occurs 0 times"),
        ({"new": GUARD_REMOVED["old"]}, "changes nothing"),
        ({"new": "if"}, "would not compile"),
        ({"edits": [Edit("mechanism.py", "if n >= LIMIT:", "if n:")]}, "occurs 0 times"),
    ],
)
def test_a_wrong_record_says_what_is_wrong(project, fields, said):
    assert [p for p in problems(mutation(**fields), project) if said in p]


def test_a_right_record_has_no_problem(project):
    second = Edit("mechanism.py", "return text.strip()", "return text")
    assert problems(mutation(red=[f"{TEST}[3]"], edits=[second]), project) == []
    assert duplicate_names([mutation(), mutation(), mutation("other")]) == ["limit"]


def test_the_copy_is_what_git_would_commit_now(tmp_path):
    root = tmp_path / "repository"
    (root / "app").mkdir(parents=True)
    subprocess.run(["git", "init", "-q", str(root)], check=True)
    for name in (".gitignore", "app/tracked.py", "deleted.py", "untracked.py", "noise.pyc"):
        (root / name).write_text("*.pyc\n" if name == ".gitignore" else "text\n")
    subprocess.run(["git", "add", "app", "deleted.py"], cwd=root, check=True)
    (root / "deleted.py").unlink()
    files = tree_files(root)
    assert files == [".gitignore", "app/tracked.py", "untracked.py"]
    copy_tree(root, files, tmp_path / "copy", {"app/tracked.py": "mutated\n"})
    copied = {str(p.relative_to(tmp_path / "copy")): p.read_text() for p in (tmp_path / "copy").rglob("*.*")}
    assert copied == {".gitignore": "*.pyc\n", "app/tracked.py": "mutated\n", "untracked.py": "text\n"}
    assert (root / "app/tracked.py").read_text() == "text\n"


def test_the_table_is_written_between_its_marks():
    page = page_with_table(f"Before\n{BEGIN}\nold\n{END}\nAfter\n", {"area": [mutation(mechanism="A | limit.")]})
    assert page.startswith(f"Before\n{BEGIN}\n")
    assert page.endswith(f"{END}\nAfter\n")
    assert f"| limit | A \\| limit. | `mechanism.py` | `{TEST}` |" in page
    assert "old" not in page
    with pytest.raises(ValueError, match="must hold the lines"):
        page_with_table("no marks", {})


@pytest.mark.parametrize(("status", "code"), [(OK, 0), (MISSED, 1), (HANG, 1), (ERROR, 1)])
def test_the_command_fails_unless_all_records_are_proved(monkeypatch, capsys, status, code):
    records = [mutation("first", quick=True), mutation("other")]
    monkeypatch.setattr(command, "load_records", lambda: {"area": records})
    monkeypatch.setattr(
        command, "prove", lambda picked, options, made: [Verdict(r.name, status, (f"why {r.name}",)) for r in picked]
    )
    monkeypatch.setattr(command.signal, "signal", lambda *_: None)
    assert command.main(["--quick", "--database", "sqlite"]) == code
    said = capsys.readouterr().out
    assert "why first" in said
    assert "why other" not in said


def test_the_command_refuses_a_name_that_no_record_has(capsys):
    assert command.main(["no-such-record"]) == 2
    assert "no record named no-such-record" in capsys.readouterr().out


def test_the_reporter_needs_nothing_but_the_standard_library():
    reporter = Path(command.__file__).with_name("reporter.py")
    code = f"import runpy; runpy.run_path({str(reporter)!r})"
    environment = {"CRONIQ_MUTATION_TREE": "/", "CRONIQ_MUTATION_REPORT": "x"}
    subprocess.run([sys.executable, "-I", "-S", "-c", code], env=environment, check=True)
