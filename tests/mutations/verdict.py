"""Decide what a record's runs prove. Pure: runs in, verdict out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tests.mutations.record import Mutation
from tests.mutations.suite import SuiteRun

OK = "ok"  # the named tests are red
MISSED = "missed"  # the mechanism is gone and a named test is still green
HANG = "hang"  # the run did not come to its end: that is no answer
ERROR = "error"  # the record could not be carried out

# pytest's exit statuses: 0 all passed, 1 some failed; all others mean that the suite was not run as asked.
RAN = (0, 1)


@dataclass(frozen=True)
class Verdict:
    name: str
    status: str
    details: tuple[str, ...] = ()
    other_reds: tuple[str, ...] = ()
    seconds: float = 0.0
    tail: str = ""


def judge(record: Mutation, runs: Mapping[str, SuiteRun]) -> Verdict:
    """Judge one record by its runs (database → run). The worst finding decides; each is said.

    Red is a failure of the test itself. A test whose set-up failed proves nothing about the mechanism (a mutation
    that breaks the schema would turn every test red), and a run that hung is a failure of the check.
    """
    hangs, errors, misses, tail = [], [], [], ""
    for database, run in runs.items():
        unusable = _unusable(run)
        if unusable:
            status, reason = unusable
            (hangs if status == HANG else errors).append(f"{database}: {reason}")
            tail += run.tail
        elif database in record.databases:
            for test in record.named:
                outcomes = outcomes_of(test, run)
                if not outcomes:
                    errors.append(f"{database}: {test} did not run")
                elif "failed" not in outcomes:
                    misses.append(f"{database}: {test} is not red ({', '.join(sorted(set(outcomes)))})")
    status = ERROR if errors else HANG if hangs else MISSED if misses else OK
    return Verdict(
        name=record.name,
        status=status,
        details=(*errors, *hangs, *misses),
        other_reds=_other_reds(record, runs),
        seconds=max((run.seconds for run in runs.values()), default=0.0),
        tail=tail,
    )


def outcomes_of(test: str, run: SuiteRun) -> list[str]:
    """Give the outcomes of a named test: of all its parametrized cases when it is named without brackets."""
    return [outcome for id_, outcome in run.outcomes.items() if id_ == test or id_.startswith(test + "[")]


def not_green(record: Mutation, baseline: Mapping[str, SuiteRun]) -> list[str]:
    """Say which named tests do not pass, or do not run, without the mutation: such a record cannot prove anything."""
    return [
        f"{database}: {test} did not pass before the mutation"
        for database, run in baseline.items()
        if database in record.databases
        for test in record.named
        if "passed" not in outcomes_of(test, run)
    ]


def _unusable(run: SuiteRun) -> tuple[str, str] | None:
    if run.timed_out:
        return HANG, f"not done after {run.seconds:.0f} s, in {run.running or 'no test'}"
    if run.collect_errors:
        return ERROR, f"does not import: {', '.join(run.collect_errors[:3])}"
    if run.finished is None:
        # pytest-timeout ends the process when a test exceeds its own limit: the same thing seen from inside.
        return (
            (HANG, "stopped before its end (a test's own time limit, or a crash)")
            if run.outcomes
            else (
                ERROR,
                "pytest did not start",
            )
        )
    if run.finished not in RAN:
        return ERROR, f"pytest ended with status {run.finished}"
    if run.foreign:
        return ERROR, f"imported from outside the copy: {', '.join(run.foreign[:3])}"
    return None


def _other_reds(record: Mutation, runs: Mapping[str, SuiteRun]) -> tuple[str, ...]:
    named = set(record.named)
    reds = {test for run in runs.values() for test in run.reds()}
    return tuple(sorted(test for test in reds if test not in named and test.partition("[")[0] not in named))
